//! From counts to metrics.

use crate::ping::message::{COMPACT, WIDE};
use crate::ping::order;
use crate::ping::region::{CLIENT, Region, SERVER, Slot};
use crate::ping::setup::Setup;
use holdup_catalogue::ping::Mode;
use holdup_load::TrialResult;
use holdup_load::metrics::{self, Row};
use holdup_load::record;
use holdup_load::two_ends::ClockError;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Direction, Histogram, Measured, Measurement, Metric, Problem};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// All counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) at_ns: u64,
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) answered: u64,
    /// Modulo 2^32.
    pub(crate) dropped: u32,
}

/// A client that sends less than this share of its rate is named in a note.
const KEPT: f64 = 0.98;

/// What is measured, in the order shown: id, unit, direction, summary.
pub(crate) const METRICS: &[Row] = &[
    ("delivered_per_s", "1/s", Direction::Higher, "messages that the server received"),
    ("messages_per_s", "1/s", Direction::Higher, "round trips in ping-pong, else messages that the server received"),
    ("sent_per_s", "1/s", Direction::Higher, "messages that the kernel took from the client"),
    ("dropped_per_s", "1/s", Direction::Lower, "messages that the kernel dropped at the server's full queue"),
    ("bandwidth_mbit_per_s", "Mbit/s", Direction::Higher, "payload that the server received, 10^6 bits"),
    ("rtt_p50_us", "us", Direction::Lower, "from sending to the answer, median"),
    ("rtt_p99_us", "us", Direction::Lower, "from sending to the answer, 99th percentile"),
    ("rtt_p999_us", "us", Direction::Lower, "from sending to the answer, 99.9th percentile"),
    ("rtt_max_us", "us", Direction::Lower, "from sending to the answer, longest"),
    ("one_way_p50_us", "us", Direction::Lower, "from sending to receiving, median"),
    ("one_way_p99_us", "us", Direction::Lower, "from sending to receiving, 99th percentile"),
    ("one_way_p999_us", "us", Direction::Lower, "from sending to receiving, 99.9th percentile"),
    ("send_lag_p99_us", "us", Direction::Lower, "how much later than due a message was sent, 99th percentile"),
    ("client_cpu_ns_per_message", "ns", Direction::Lower, "CPU time of the client per delivered message"),
    ("server_cpu_ns_per_message", "ns", Direction::Lower, "CPU time of the server per delivered message"),
    ("cpu_ns_per_message", "ns", Direction::Lower, "CPU time of both ends per delivered message"),
    ("messages_sent", "1", Direction::Higher, "whole trial: messages that the kernel took"),
    ("messages_received", "1", Direction::Higher, "whole trial: messages that the server received"),
    ("messages_dropped", "1", Direction::Lower, "whole trial: messages dropped at the server's full queue"),
    ("messages_not_sent", "1", Direction::Lower, "whole trial: messages that the kernel had no room for"),
    ("replies_dropped", "1", Direction::Lower, "whole trial: answers dropped at the client's full queue"),
    ("replies_lost", "1", Direction::Lower, "whole trial: answers that were asked for and never came"),
    ("reply_timeouts", "1", Direction::Lower, "whole trial: answers no longer waited for after 200 ms"),
    ("duplicated", "1", Direction::Lower, "whole trial: messages and answers that came once more"),
    ("out_of_order", "1", Direction::Lower, "whole trial: messages and answers that came after a later one"),
    (
        "lost_unaccounted",
        "1",
        Direction::Lower,
        "whole trial: neither received nor dropped; on one host 0, or it is void",
    ),
    ("strangers", "1", Direction::Lower, "whole trial: datagrams or connections of others"),
];

/// The metrics of the workload.
pub(crate) fn metrics() -> Vec<Metric> {
    metrics::table(METRICS)
}

fn count(of: &AtomicU64) -> u64 {
    of.load(Ordering::Acquire)
}

/// What a trial leaves to be reckoned with. Both ends have ended.
pub(crate) struct Done<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) region: &'a Region,
    pub(crate) begin: &'a Edge,
    pub(crate) end: &'a Edge,
    /// Datagrams that the kernel dropped at the client's socket and at the server's, modulo 2^32.
    pub(crate) drops: [u32; 2],
    /// Datagrams or connections of others.
    pub(crate) strangers: u64,
    /// From sending to receiving.
    pub(crate) one_way: &'a Histogram,
    /// What client and server used; `None` for one that did not see the edges of the window.
    pub(crate) used: [Option<Used>; 2],
    /// How far a one-way time may be off, where each end is on another host.
    pub(crate) apart: Option<ClockError>,
}

/// What an end used between the moments when it saw the window open and close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Used {
    /// What was done meanwhile: delivered, or sent by a client whose server is on another host.
    messages: u64,
    cpu_ns: u64,
}

/// What an end used.
pub(crate) fn used(slot: &Slot) -> Option<Used> {
    let (begin, end) = slot.marks.both()?;
    let cpu_ns = end.cpu_ns.saturating_sub(begin.cpu_ns);
    Some(Used { messages: end.done.saturating_sub(begin.done), cpu_ns })
}

/// What a trial brought.
pub(crate) fn of(done: &Done<'_>) -> Result<TrialResult, Problem> {
    let Done { setup, begin, end, .. } = *done;
    let client = done.region.slot(CLIENT);
    let totals = Totals::read(done);
    totals.is_conserved(done.may_lose_on_the_way())?;
    let delivered = end.delivered.saturating_sub(begin.delivered);
    if delivered == 0 {
        return Err(Problem::trial("the window", "no message was delivered in it").hint("take a longer duration"));
    }
    let rtt = record::together(std::iter::once(&client.latency));
    let lag = record::together(std::iter::once(&client.lag));
    let mut measurements = rates(setup, begin, end);
    measurements.extend(round_trips(setup, &rtt, client.latency.longest_ns()));
    let one_ways = one_ways(done);
    let is_one_way_known = matches!(one_ways[0].value, Measured::Value(_)) || done.apart.is_none();
    measurements.extend(one_ways);
    measurements.push(send_lag(setup, &lag));
    // A client whose server is on another host counts what it sent.
    let per_delivered = match done.apart {
        None => 1.0,
        Some(_) => end.sent.saturating_sub(begin.sent) as f64 / delivered as f64,
    };
    let ends_cpu = [
        cpu("client_cpu_ns_per_message", done.used[CLIENT], per_delivered),
        cpu("server_cpu_ns_per_message", done.used[SERVER], 1.0),
    ];
    let both = both_cpu(&ends_cpu);
    measurements.extend(ends_cpu);
    measurements.push(both);
    measurements.extend(totals.measurements(setup, done.strangers));
    let named =
        |name: &str, histogram: &Histogram| NamedHistogram { name: name.to_owned(), histogram: histogram.clone() };
    let one_way = is_one_way_known.then_some(done.one_way);
    let latency = if setup.mode == Mode::Throughput { one_way } else { Some(&rtt) };
    let latency = latency.map(|histogram| named("latency", histogram));
    let histograms = latency.into_iter().chain(one_way.map(|histogram| named("one_way", histogram))).collect();
    let mut notes = notes(setup, begin, end);
    notes.extend(notes_of_two_hosts(done, &totals));
    Ok(TrialResult::new(measurements, histograms, notes))
}

impl Done<'_> {
    /// True if messages may be lost where no socket counts them.
    fn may_lose_on_the_way(&self) -> bool {
        self.apart.is_some() && self.setup.protocol.may_lose()
    }
}

fn notes_of_two_hosts(done: &Done<'_>, totals: &Totals) -> Vec<String> {
    let Some(apart) = &done.apart else { return Vec::new() };
    let mut notes = vec![format!("one-way times are off by {apart} at most")];
    let lost = totals.unaccounted();
    if lost > 0 {
        notes.push(format!("{lost} messages and answers were lost between the hosts"));
    }
    notes
}

/// The counts of a whole trial, warm-up and end included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Totals {
    sent: u64,
    received: u64,
    dropped: u64,
    not_sent: u64,
    asked: u64,
    replies_sent: u64,
    replies: u64,
    replies_dropped: u64,
    timeouts: u64,
    again: u64,
    late: u64,
}

impl Totals {
    fn read(done: &Done<'_>) -> Self {
        let (client, server) = (done.region.slot(CLIENT), done.region.slot(SERVER));
        let (sent, received) = (count(&client.sent.0), count(&server.received.0));
        let (replies_sent, replies) = (count(&server.sent.0), count(&client.received.0));
        let dropped = |end: usize, missing: u64| match done.setup.protocol.may_lose() {
            true => unwrapped(done.drops[end], missing),
            false => 0,
        };
        Totals {
            sent,
            received,
            dropped: dropped(SERVER, sent.saturating_sub(received)),
            not_sent: count(&client.not_sent) + count(&server.not_sent),
            asked: count(&client.asked),
            replies_sent,
            replies,
            replies_dropped: dropped(CLIENT, replies_sent.saturating_sub(replies)),
            timeouts: count(&client.timeouts),
            again: count(&client.again) + count(&server.again),
            late: count(&client.late) + count(&server.late),
        }
    }

    /// What neither came nor was dropped at a socket, messages and answers. Of totals that are conserved.
    fn unaccounted(&self) -> u64 {
        (self.sent - self.received - self.dropped) + (self.replies_sent - self.replies - self.replies_dropped)
    }

    /// Sent must be received and dropped together, in both directions.
    fn is_conserved(&self, may_lose_on_the_way: bool) -> Result<(), Problem> {
        let check = |what: &str, sent: u64, received: u64, dropped: u64| {
            if sent == received + dropped || may_lose_on_the_way && sent > received + dropped {
                return Ok(());
            }
            let why =
                format!("{sent} were sent, but {received} were received and the receiving socket dropped {dropped}");
            let hint = match received + dropped > sent {
                true => "another process writes to the socket",
                false => {
                    "the server was stopped, or something between the ends dropped them: look at the second column of \
                     /proc/net/softnet_stat (net.core.netdev_max_backlog) and at the drops of the interfaces"
                }
            };
            Err(Problem::trial(format!("conservation of {what}"), why).hint(hint))
        };
        check("messages", self.sent, self.received, self.dropped)?;
        check("answers", self.replies_sent, self.replies, self.replies_dropped)
    }

    fn measurements(&self, setup: &Setup, strangers: u64) -> Vec<Measurement> {
        let exact = |id: &str, n: u64| Measurement::new(id, n as f64);
        let answers = |id: &str, n: u64| match setup.reply_every {
            0 => Measurement::absent(id, "nothing asks for an answer in mode throughput"),
            _ => exact(id, n),
        };
        let order = |id: &str, n: u64| match setup.size < order::SMALLEST {
            true => Measurement::absent(id, format!("{} bytes hold no number", setup.size)),
            false => exact(id, n),
        };
        vec![
            exact("messages_sent", self.sent),
            exact("messages_received", self.received),
            exact("messages_dropped", self.dropped),
            exact("messages_not_sent", self.not_sent),
            answers("replies_dropped", self.replies_dropped),
            answers("replies_lost", self.asked.saturating_sub(self.replies)),
            answers("reply_timeouts", self.timeouts),
            order("duplicated", self.again),
            order("out_of_order", self.late),
            exact("lost_unaccounted", self.unaccounted()),
            exact("strangers", strangers),
        ]
    }
}

/// A count that is known modulo 2^32, as the number nearest to what it should be.
pub(crate) fn unwrapped(modulo: u32, should_be: u64) -> u64 {
    let apart = (modulo).wrapping_sub(should_be as u32).cast_signed();
    should_be.saturating_add_signed(i64::from(apart))
}

fn rates(setup: &Setup, begin: &Edge, end: &Edge) -> Vec<Measurement> {
    let length_ns = end.at_ns.saturating_sub(begin.at_ns);
    let rate = |id: &str, from: u64, to: u64| Measurement::per_second(id, to.saturating_sub(from), length_ns);
    let bits = |bytes: u64| bytes.saturating_mul(8);
    let (from, to) = match setup.mode {
        Mode::PingPong => (begin.answered, end.answered),
        _ => (begin.delivered, end.delivered),
    };
    let megabits =
        match Measurement::per_second("", bits(end.delivered_bytes.saturating_sub(begin.delivered_bytes)), length_ns)
            .value
            .value()
        {
            Some(bits) => Measurement::new("bandwidth_mbit_per_s", bits / 1e6),
            None => Measurement::absent("bandwidth_mbit_per_s", "the window had no length"),
        };
    vec![
        rate("delivered_per_s", begin.delivered, end.delivered),
        rate("messages_per_s", from, to),
        rate("sent_per_s", begin.sent, end.sent),
        rate("dropped_per_s", 0, u64::from(end.dropped.wrapping_sub(begin.dropped))),
        megabits,
    ]
}

fn round_trips(setup: &Setup, rtt: &Histogram, longest_ns: u64) -> Vec<Measurement> {
    let ids = ["rtt_p50_us", "rtt_p99_us", "rtt_p999_us"];
    if setup.mode == Mode::Throughput {
        let absent = |id: &str| Measurement::absent(id, "nothing is answered in mode throughput");
        return ids.map(absent).into_iter().chain([absent("rtt_max_us")]).collect();
    }
    let longest = match rtt.count() {
        0 => Measurement::absent("rtt_max_us", "no message that was sent in the window was answered"),
        _ => Measurement::new("rtt_max_us", longest_ns as f64 / 1e3),
    };
    metrics::percentiles_us(ids, rtt).into_iter().chain([longest]).collect()
}

fn one_ways(done: &Done<'_>) -> [Measurement; 3] {
    let ids = ["one_way_p50_us", "one_way_p99_us", "one_way_p999_us"];
    let size = done.setup.size;
    let absent = |id| Measurement::absent(id, format!("a message of {size} bytes does not say when it was sent"));
    match &done.apart {
        None if size >= COMPACT => metrics::percentiles_us(ids, done.one_way),
        Some(apart) if size >= WIDE => {
            metrics::percentiles_us(ids, done.one_way).map(|one_way| apart.decide(one_way, 1e3))
        }
        _ => ids.map(absent),
    }
}

fn send_lag(setup: &Setup, lag: &Histogram) -> Measurement {
    match setup.is_open_loop() {
        true => Measurement::percentile("send_lag_p99_us", lag, 0.99, 1e3),
        false => Measurement::absent("send_lag_p99_us", "no message has a time at which it is due"),
    }
}

/// CPU time of an end over the messages that were delivered between the same two moments, which are when this end saw
/// the window open and close; `per_delivered` is how much it did for each of them.
fn cpu(id: &str, used: Option<Used>, per_delivered: f64) -> Measurement {
    match used {
        Some(used) if used.messages > 0 => {
            Measurement::new(id, used.cpu_ns as f64 / used.messages as f64 * per_delivered)
        }
        Some(_) => {
            Measurement::absent(id, "no message was delivered between the moments when it saw the edges of the window")
        }
        None => Measurement::absent(id, "it did not see the edges of the window"),
    }
}

/// What both ends used; absent when one of them is.
fn both_cpu(ends: &[Measurement; 2]) -> Measurement {
    let id = "cpu_ns_per_message";
    match ends.each_ref().map(|end| &end.value) {
        [Measured::Value(client), Measured::Value(server)] => Measurement::new(id, client + server),
        [Measured::Absent(why), _] | [_, Measured::Absent(why)] => Measurement::absent(id, why.clone()),
    }
}

fn notes(setup: &Setup, begin: &Edge, end: &Edge) -> Vec<String> {
    let mut notes: Vec<String> = setup.placement.in_words().into_iter().collect();
    let seconds = end.at_ns.saturating_sub(begin.at_ns) as f64 / 1e9;
    let sent = end.sent.saturating_sub(begin.sent) as f64 / seconds;
    if setup.recorded.is_none() && setup.rate > 0 && sent < setup.rate as f64 * KEPT {
        notes.push(format!("the client could not keep its rate: {sent:.0} of {} messages per second", setup.rate));
    }
    notes
}
