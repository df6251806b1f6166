//! From counts to metrics.

use crate::messenger::setup::Setup;
use crate::messenger::trial::{count, slots};
use crate::messenger::worker::Region;
use holdup_load::TrialResult;
use holdup_load::account::{self, Account};
use holdup_load::metrics::{self, Row};
use holdup_load::record;
use holdup_load::two_ends::ClockError;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Direction, Histogram, Measured, Measurement, Metric, Problem};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// What all tasks had sent and received at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) at_ns: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Where more of the timed messages were mixed with others than this share, their latencies are no measurement.
const MOST_TORN: f64 = 0.01;

/// What is measured, in the order shown: id, unit, direction, summary.
pub(crate) const METRICS: &[Row] = &[
    ("messages_per_s", "1/s", Direction::Higher, "messages received, all receivers together"),
    ("total_time_s", "s", Direction::Lower, "from the common start to the last message received, fixed work only"),
    ("latency_p50_us", "us", Direction::Lower, "from before the write to after the read, median of timed messages"),
    ("latency_p99_us", "us", Direction::Lower, "from before the write to after the read, 99th percentile"),
    ("latency_p999_us", "us", Direction::Lower, "from before the write to after the read, 99.9th percentile"),
    ("latency_max_us", "us", Direction::Lower, "from before the write to after the read, longest timed message"),
    ("messages_sent", "1", Direction::Higher, "messages written from the common start to the end, warm-up included"),
    ("messages_received", "1", Direction::Higher, "messages read, warm-up included; a trial that lost one is void"),
    ("voluntary_switches_per_message", "1", Direction::Lower, "sleeps of sender and receiver for each message"),
    ("involuntary_switches_per_message", "1", Direction::Lower, "preemptions of sender and receiver for each message"),
    ("cpu_us_per_message", "us", Direction::Lower, "CPU time of sender and receiver for each message"),
];

/// The metrics of the workload.
pub(crate) fn metrics() -> Vec<Metric> {
    metrics::table(METRICS)
}

/// What a trial leaves to be reckoned with. All tasks have ended.
pub(crate) struct Done<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) begin: Edge,
    pub(crate) end: Edge,
    pub(crate) sent: Sent,
    pub(crate) received: Received,
    /// How far times from sender to receiver may be off, where the receivers are on another host.
    pub(crate) apart: Option<ClockError>,
}

/// What the senders did.
pub(crate) struct Sent {
    messages: u64,
    account: Account,
}

impl Sent {
    /// What stands on the senders' board.
    pub(crate) fn read(setup: &Setup, region: &Region) -> Self {
        let account = account::between(slots(setup, region, true).map(|s| &s.marks));
        Sent { messages: count(setup, region, true), account }
    }
}

/// What the receivers did.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Received {
    messages: u64,
    account: Account,
    /// When the last of them had all that it was to get, by the senders' clock; `None` when one did not get it.
    all_received_ns: Option<u64>,
    latencies: Histogram,
    longest_ns: u64,
    torn: u64,
}

impl Received {
    /// What stands on the receivers' board.
    pub(crate) fn read(setup: &Setup, region: &Region, sender_less_own_ns: i64) -> Self {
        let all = || slots(setup, region, false);
        Received {
            messages: count(setup, region, false),
            account: account::between(all().map(|s| &s.marks)),
            all_received_ns: last_received_ns(setup, region).map(|ns| ns.wrapping_add_signed(sender_less_own_ns)),
            latencies: record::together(all().map(|s| &s.latencies)),
            longest_ns: all().map(|s| s.latencies.longest_ns()).max().unwrap_or(0),
            torn: all().map(|s| s.torn.load(Ordering::Acquire)).sum(),
        }
    }
}

/// What a trial brought.
pub(crate) fn of(done: &Done<'_>) -> Result<TrialResult, Problem> {
    let Done { setup, begin, end, sent, received, apart } = done;
    conserved(sent.messages, received.messages)?;
    let length_ns = received.all_received_ns.unwrap_or(end.at_ns).saturating_sub(begin.at_ns);
    let in_window = end.received.saturating_sub(begin.received);
    if in_window == 0 {
        return Err(Problem::trial("the window", "no message was received in it").hint("take a longer duration"));
    }
    let Received { latencies: histogram, longest_ns, torn, .. } = received;
    let decided = |time: Measurement, unit_ns: f64| match apart {
        Some(error) => error.decide(time, unit_ns),
        None => time,
    };
    let mut measurements = vec![Measurement::per_second("messages_per_s", in_window, length_ns)];
    measurements.push(match (setup.messages, received.all_received_ns) {
        (Some(_), Some(_)) => decided(Measurement::new("total_time_s", length_ns as f64 / 1e9), 1e9),
        (Some(_), None) => Measurement::absent("total_time_s", "the work was not done when the foreground had enough"),
        (None, _) => Measurement::absent("total_time_s", "messages = 0: they are sent until the window ends"),
    });
    let latencies = latencies(setup, histogram, *longest_ns, *torn).into_iter().map(|time| decided(time, 1e3));
    let latencies: Vec<Measurement> = latencies.collect();
    let is_known = apart.is_none() || matches!(latencies[0].value, Measured::Value(_));
    measurements.extend(latencies);
    measurements.push(Measurement::new("messages_sent", sent.messages as f64));
    measurements.push(Measurement::new("messages_received", received.messages as f64));
    measurements.extend(kernel_accounts(sent.account, received.account));
    let histograms = match setup.sample_every {
        Some(_) if is_known => vec![NamedHistogram { name: "latency".to_owned(), histogram: histogram.clone() }],
        _ => Vec::new(),
    };
    let mut notes = notes(setup, *torn);
    notes.extend(apart.map(|error| format!("times from sender to receiver are off by {error} at most")));
    let clock_error_ns = apart.map(|error| error.ns);
    Ok(TrialResult { clock_error_ns, ..TrialResult::new(measurements, histograms, notes) })
}

/// What was sent must have come, to the last message.
fn conserved(sent: u64, received: u64) -> Result<(), Problem> {
    if sent == received {
        return Ok(());
    }
    Err(Problem::trial("messages", format!("{sent} were sent, {received} were received")))
}

/// When the last receiver had all that it was to get; `None` when one of them did not get it.
fn last_received_ns(setup: &Setup, region: &Region) -> Option<u64> {
    let each = slots(setup, region, false).map(|s| s.all_received_ns.load(Ordering::Acquire));
    each.map(|ns| (ns > 0).then_some(ns)).collect::<Option<Vec<u64>>>()?.into_iter().max()
}

fn latencies(setup: &Setup, histogram: &Histogram, longest_ns: u64, torn: u64) -> Vec<Measurement> {
    let ids = ["latency_p50_us", "latency_p99_us", "latency_p999_us", "latency_max_us"];
    let absent = |why: String| ids.map(|id| Measurement::absent(id, why.clone())).to_vec();
    if setup.sample_every.is_none() {
        return absent("timing = off".to_owned());
    }
    if torn as f64 > MOST_TORN * (histogram.count() + torn) as f64 {
        return absent(format!("{torn} of {} timed messages were mixed with others", histogram.count() + torn));
    }
    let [p50, p99, p999, max] = ids;
    let longest = match histogram.count() {
        0 => Measurement::absent(max, "no message was timed in the window"),
        _ => Measurement::new(max, longest_ns as f64 / 1e3),
    };
    metrics::percentiles_us([p50, p99, p999], histogram).into_iter().chain([longest]).collect()
}

/// What the kernel says of senders and receivers. Each takes its accounts when it sees the window open and close, so
/// what it used stands over the messages that it sent or received between those two moments.
fn kernel_accounts(senders: Account, receivers: Account) -> Vec<Measurement> {
    let each = |id: &str, unit: f64, field: fn(&Account) -> u64| {
        if senders.done == 0 || receivers.done == 0 {
            return Measurement::absent(id, "no sender or no receiver saw both edges of the window and worked between");
        }
        let side = |account: &Account| field(account) as f64 / account.done as f64;
        Measurement::new(id, (side(&senders) + side(&receivers)) / unit)
    };
    vec![
        each("voluntary_switches_per_message", 1.0, |a| a.voluntary),
        each("involuntary_switches_per_message", 1.0, |a| a.involuntary),
        each("cpu_us_per_message", 1e3, |a| a.cpu_ns),
    ]
}

fn notes(setup: &Setup, torn: u64) -> Vec<String> {
    let mut notes = Vec::new();
    match setup.sample_every {
        Some(1) => notes.push("every message was timed".to_owned()),
        Some(every) => notes.push(format!("one of {every} messages was timed")),
        None => {}
    }
    if setup.messages.is_some() {
        notes.push("the window is the work: there was no warm-up, and duration does not count".to_owned());
    }
    if torn > 0 {
        notes.push(format!("{torn} timed messages were mixed with others on their way and not measured"));
    }
    notes.extend(setup.placement.in_words().map(|words| format!("{words}; senders first")));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shown;
    use holdup_catalogue::messenger;
    use holdup_host::Host;

    #[test]
    fn a_lost_message_voids_the_trial() {
        assert_eq!(conserved(10, 10), Ok(()));
        for (sent, received) in [(10, 9), (9, 10)] {
            let problem = conserved(sent, received).expect_err("one is missing");
            assert_eq!(problem.to_string(), format!("messages: {sent} were sent, {received} were received"));
        }
    }

    #[test]
    fn latencies_are_absent_where_too_many_messages_were_mixed() {
        let setup = Setup::read(&messenger::Parameters::defaults(2), &Host::real()).expect("valid");
        let check = |samples, torn, expect: &str| {
            let mut h = Histogram::new();
            h.record_n_ns(2_000, samples);
            assert_eq!(shown(&latencies(&setup, &h, 2_000, torn))[0], format!("latency_p50_us {expect}"));
        };
        check(990, 0, "2");
        check(990, 10, "2");
        check(989, 11, "absent: 11 of 1000 timed messages were mixed with others");
        check(0, 0, "absent: 0 samples, 0.0 beyond it; 10 are needed");
        let untimed = Setup { sample_every: None, ..setup };
        assert_eq!(shown(&latencies(&untimed, &Histogram::new(), 0, 0))[3], "latency_max_us absent: timing = off");
    }

    #[test]
    fn the_kernels_counts_stand_over_each_side_s_own_messages() {
        let account = |done, voluntary, involuntary, cpu_ns| Account {
            done,
            voluntary,
            involuntary,
            cpu_ns,
            ..Account::default()
        };
        insta::assert_snapshot!(
            shown(&kernel_accounts(account(100, 10, 1, 100_000), account(50, 25, 0, 100_000))).join("\n"), @r"
        voluntary_switches_per_message 0.6
        involuntary_switches_per_message 0.01
        cpu_us_per_message 3
        ");
        let none = shown(&kernel_accounts(account(0, 1, 1, 1), account(5, 1, 1, 1)));
        assert!(none[0].contains("absent: no sender or no receiver saw both edges"), "{none:?}");
    }
}
