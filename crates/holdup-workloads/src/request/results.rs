//! From counts to metrics.

use crate::request::setup::Setup;
use crate::request::worker::{Shared, Slot};
use holdup_load::TrialResult;
use holdup_load::account::{self, Account};
use holdup_load::metrics::{self, Row};
use holdup_load::record;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Direction, Histogram, Measurement, Metric, Problem};
use std::sync::atomic::Ordering;

/// What was done by one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) at_ns: u64,
    /// Requests that were completed.
    pub(crate) requests: u64,
    /// Requests that had arrived by their schedule; 0 where there is none.
    pub(crate) arrived: u64,
    /// How long the oldest request waits that no worker has got; `None` when there is none.
    pub(crate) oldest_wait_ns: Option<u64>,
}

/// What is measured, in the order shown: id, unit, direction, summary.
pub(crate) const METRICS: &[Row] = &[
    ("requests_per_s", "1/s", Direction::Higher, "requests completed by all workers"),
    ("wakeup_p50_us", "us", Direction::Lower, "from the call to running, median"),
    ("wakeup_p99_us", "us", Direction::Lower, "from the call to running, 99th percentile"),
    ("wakeup_p999_us", "us", Direction::Lower, "from the call to running, 99.9th percentile"),
    ("wakeup_max_us", "us", Direction::Lower, "from the call to running, longest"),
    (
        "request_p50_us",
        "us",
        Direction::Lower,
        "a request's latency, from its scheduled arrival where rate > 0, median",
    ),
    ("request_p99_us", "us", Direction::Lower, "a request's latency, 99th percentile"),
    ("request_p999_us", "us", Direction::Lower, "a request's latency, 99.9th percentile"),
    ("request_max_us", "us", Direction::Lower, "a request's latency, longest, at least: some may still wait"),
    ("backlog", "1", Direction::Lower, "requests that had arrived and were not completed at the end of the window"),
    ("late_requests", "1", Direction::Lower, "requests that found no free worker when they arrived in the window"),
    ("lock_spins_per_request", "1", Direction::Lower, "requests that found the lock of their CPU held, as a share"),
    ("lock_spin_us_per_request", "us", Direction::Lower, "time spent spinning for it, over all requests"),
    ("involuntary_switches_per_request", "1", Direction::Lower, "preemptions of the workers for each request"),
    ("cpu_us_per_request", "us", Direction::Lower, "CPU time of the workers for each request"),
];

/// The metrics of the workload.
pub(crate) fn metrics() -> Vec<Metric> {
    metrics::table(METRICS)
}

/// What a trial brought. All threads have ended.
pub(crate) fn of(setup: &Setup, shared: &Shared, begin: &Edge, end: &Edge) -> Result<TrialResult, Problem> {
    let requests = end.requests.saturating_sub(begin.requests);
    if requests == 0 {
        return Err(Problem::trial("the window", "no request was completed in it").hint("take a longer duration"));
    }
    let sum = |field: fn(&Slot) -> u64| shared.board.slots().map(field).sum::<u64>() as f64;
    let wakeups = record::together(shared.worker_slots().map(|s| &s.wakeups));
    let latencies = record::together(shared.worker_slots().map(|s| &s.latencies));
    let longest = |field: fn(&Slot) -> u64| shared.worker_slots().map(field).max().unwrap_or(0);
    let mut measurements =
        vec![Measurement::per_second("requests_per_s", requests, end.at_ns.saturating_sub(begin.at_ns))];
    let ids = ["wakeup_p50_us", "wakeup_p99_us", "wakeup_p999_us", "wakeup_max_us"];
    measurements.extend(times(ids, &wakeups, longest(|s| s.wakeups.longest_ns()), None));
    let ids = ["request_p50_us", "request_p99_us", "request_p999_us", "request_max_us"];
    measurements.extend(times(ids, &latencies, longest(|s| s.latencies.longest_ns()), end.oldest_wait_ns));
    measurements.extend(queueing(setup, end, sum(|s| s.arrivals.late.load(Ordering::Relaxed))));
    let spins = (sum(|s| s.spins.load(Ordering::Relaxed)), sum(|s| s.spun_ns.load(Ordering::Relaxed)));
    measurements.extend(spinning(setup, latencies.count(), spins));
    measurements.extend(kernel_accounts(account::between(shared.worker_slots().map(|s| &s.marks))));
    let named = |name: &str, histogram| NamedHistogram { name: name.to_owned(), histogram };
    let histograms = vec![named("latency", latencies), named("wakeup", wakeups)];
    Ok(TrialResult::new(measurements, histograms, notes(setup, end)))
}

fn times(ids: [&str; 4], histogram: &Histogram, longest_ns: u64, waiting_ns: Option<u64>) -> Vec<Measurement> {
    let [p50, p99, p999, max] = ids;
    let done_ns = (histogram.count() > 0).then_some(longest_ns);
    let longest = match done_ns.max(waiting_ns) {
        None => Measurement::absent(max, "nothing was measured in the window"),
        Some(ns) => Measurement::new(max, ns as f64 / 1e3),
    };
    metrics::percentiles_us([p50, p99, p999], histogram).into_iter().chain([longest]).collect()
}

fn queueing(setup: &Setup, end: &Edge, late: f64) -> Vec<Measurement> {
    if setup.interval_ns.is_none() {
        let why = "rate = 0: a request only comes when a worker asks";
        return vec![Measurement::absent("backlog", why), Measurement::absent("late_requests", why)];
    }
    let backlog = end.arrived.saturating_sub(end.requests);
    vec![Measurement::new("backlog", backlog as f64), Measurement::new("late_requests", late)]
}

fn spinning(setup: &Setup, requests: u64, (spins, spun_ns): (f64, f64)) -> Vec<Measurement> {
    let ids = ["lock_spins_per_request", "lock_spin_us_per_request"];
    if !setup.lock {
        return ids.map(|id| Measurement::absent(id, "lock = off")).to_vec();
    }
    if requests == 0 {
        return ids.map(|id| Measurement::absent(id, "no request was completed in the window")).to_vec();
    }
    let each = 1.0 / requests as f64;
    vec![Measurement::new(ids[0], spins * each), Measurement::new(ids[1], spun_ns * each / 1e3)]
}

fn kernel_accounts(workers: Account) -> Vec<Measurement> {
    let each = |id: &str, used: f64| match workers.done {
        0 => Measurement::absent(id, "no worker saw both edges of the window with a request between them"),
        done => Measurement::new(id, used / done as f64),
    };
    vec![
        each("involuntary_switches_per_request", workers.involuntary as f64),
        each("cpu_us_per_request", workers.cpu_ns as f64 / 1e3),
    ]
}

fn notes(setup: &Setup, end: &Edge) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(ns) = end.oldest_wait_ns {
        notes.push(format!("the oldest request had waited {:.3} ms when the window closed", ns as f64 / 1e6));
    }
    notes.extend(setup.placement.in_words().map(|words| format!("{words}; messengers first")));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shown;
    use holdup_catalogue::request;
    use holdup_host::Host;
    use holdup_model::Value;

    fn setup(name: &str, value: Value) -> Setup {
        let mut parameters = request::Parameters::defaults(2);
        parameters.set(name, value);
        Setup::read(&parameters, &Host::real()).expect("valid")
    }

    #[test]
    fn what_does_not_apply_is_absent() {
        let end = Edge { at_ns: 0, requests: 90, arrived: 100, oldest_wait_ns: None };
        assert_eq!(shown(&queueing(&setup("rate", 10.0.into()), &end, 7.0)), ["backlog 10", "late_requests 7"]);
        let closed = shown(&queueing(&setup("rate", 0.0.into()), &end, 0.0));
        assert_eq!(closed[0], "backlog absent: rate = 0: a request only comes when a worker asks");
        assert_eq!(
            shown(&spinning(&setup("lock", true.into()), 10, (5.0, 20_000.0))),
            ["lock_spins_per_request 0.5", "lock_spin_us_per_request 2"]
        );
        let free = shown(&spinning(&setup("lock", false.into()), 10, (0.0, 0.0)));
        assert_eq!(free[0], "lock_spins_per_request absent: lock = off");
    }

    #[test]
    fn a_request_that_still_waits_counts_for_the_longest() {
        let ids = ["a", "b", "c", "max"];
        let mut h = Histogram::new();
        let last = |h: &Histogram, longest, waiting| shown(&times(ids, h, longest, waiting)).remove(3);
        assert_eq!(last(&h, 0, None), "max absent: nothing was measured in the window");
        assert_eq!(last(&h, 0, Some(5_000)), "max 5");
        h.record_ns(2_000);
        assert_eq!(last(&h, 2_000, Some(5_000)), "max 5");
        assert_eq!(last(&h, 2_000, Some(1_000)), "max 2");
    }
}
