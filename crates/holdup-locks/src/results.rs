//! From counts to metrics.

use crate::region::Region;
use crate::setup::Setup;
use holdup_load::TrialResult;
use holdup_load::account::Account;
use holdup_load::metrics::{self, Row};
use holdup_load::record;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Direction, Histogram, Measurement, Metric, Problem};
use std::sync::atomic::Ordering;

/// Every worker's completed operations at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) at_ns: u64,
    pub(crate) counts: Vec<u64>,
    /// The longest that a sampled acquisition has waited by then and still waits; `None` when none does.
    pub(crate) longest_wait_ns: Option<u64>,
}

/// Workers that saw less of the window than this are no estimate of its rates.
const SEEN_ENOUGH: f64 = 0.5;

/// What is measured, in the order shown: id, unit, direction, summary.
const METRICS: &[Row] = &[
    ("operations_per_s", "1/s", Direction::Higher, "lock and unlock pairs of all workers"),
    ("acquire_p50_ns", "ns", Direction::Lower, "time to the lock, median of the sampled acquisitions"),
    ("acquire_p99_ns", "ns", Direction::Lower, "time to the lock, 99th percentile"),
    ("acquire_p999_ns", "ns", Direction::Lower, "time to the lock, 99.9th percentile"),
    ("acquire_max_ns", "ns", Direction::Lower, "time to the lock, longest sampled one, at least: some may still wait"),
    ("fairness_min_max", "share", Direction::Higher, "fewest by most operations of a worker"),
    ("sleeps_per_operation", "1", Direction::Lower, "voluntary context switches of the workers per operation"),
    ("minor_faults_per_operation", "1", Direction::Lower, "minor page faults of the workers per operation"),
    ("involuntary_switches_per_s", "1/s", Direction::Lower, "preemptions of the workers, all together"),
    ("slice_grants_per_s", "1/s", Direction::Higher, "time slice extensions given back in time, all workers together"),
];

/// The metrics of the workload.
pub fn metrics() -> Vec<Metric> {
    metrics::table(METRICS)
}

/// What a trial brought. All workers have ended.
pub(crate) fn of(region: &Region, begin: &Edge, end: &Edge) -> Result<TrialResult, Problem> {
    let all: u64 = region.slots().map(|s| s.operations.0.load(Ordering::Acquire)).sum();
    let protected = region.head().protected.0.load(Ordering::Acquire);
    exclusive(protected, all)?;
    let operations = operations(begin, end);
    let total: u64 = operations.iter().sum();
    if total == 0 {
        return Err(Problem::trial("the window", "no operation was completed in it").hint("take a longer duration"));
    }
    let seconds = end.at_ns.saturating_sub(begin.at_ns) as f64 / 1e9;
    let histogram = record::together(region.slots().map(|s| &s.acquisitions));
    let longest_ns = region.slots().map(|s| s.acquisitions.longest_ns()).max().unwrap_or(0);
    let accounts: Vec<(Account, Account)> = region.slots().filter_map(|s| s.marks.both()).collect();
    let mut measurements = vec![Measurement::new("operations_per_s", total as f64 / seconds)];
    measurements.extend(times(&histogram, longest_ns, end.longest_wait_ns));
    measurements.push(fairness(&operations));
    measurements.extend(kernel_accounts(&accounts, seconds));
    Ok(TrialResult {
        measurements,
        histograms: vec![NamedHistogram { name: "acquire".to_owned(), histogram }],
        notes: end.longest_wait_ns.filter(|wait| *wait > longest_ns).map(still_waiting).into_iter().collect(),
        ..TrialResult::default()
    })
}

/// The count that the lock protects must be the sum of what the workers say they did.
fn exclusive(protected: u64, all: u64) -> Result<(), Problem> {
    if protected == all {
        return Ok(());
    }
    Err(Problem::trial(
        "mutual exclusion",
        format!(
            "{all} operations were done, the protected count is {protected}: two workers were inside the lock at the same time"
        ),
    ))
}

fn operations(begin: &Edge, end: &Edge) -> Vec<u64> {
    begin.counts.iter().zip(&end.counts).map(|(b, e)| e.saturating_sub(*b)).collect()
}

fn still_waiting(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    format!("the longest acquisition had waited {ms:.3} ms and still waited when the window closed")
}

fn times(histogram: &Histogram, longest_ns: u64, longest_wait_ns: Option<u64>) -> Vec<Measurement> {
    let percentile = |id, quantile| Measurement::percentile(id, histogram, quantile, 1.0);
    let done_ns = (histogram.count() > 0).then_some(longest_ns);
    let longest = match done_ns.max(longest_wait_ns) {
        None => Measurement::absent("acquire_max_ns", "no acquisition was sampled in the window"),
        Some(ns) => Measurement::new("acquire_max_ns", ns as f64),
    };
    vec![
        percentile("acquire_p50_ns", 0.5),
        percentile("acquire_p99_ns", 0.99),
        percentile("acquire_p999_ns", 0.999),
        longest,
    ]
}

fn fairness(operations: &[u64]) -> Measurement {
    let (least, most) = (operations.iter().min(), operations.iter().max());
    match (least, most) {
        (Some(least), Some(most)) if *most > 0 => Measurement::new("fairness_min_max", *least as f64 / *most as f64),
        _ => Measurement::absent("fairness_min_max", "no worker completed an operation in the window"),
    }
}

/// What the kernel says of the workers. Each worker takes its accounts when it sees the window open and
/// close, so the counts stand over the operations between those two moments and not over the window's.
fn kernel_accounts(accounts: &[(Account, Account)], seconds: f64) -> Vec<Measurement> {
    let sum = |field: fn(&Account) -> u64| {
        accounts.iter().map(|(begin, end)| field(end).saturating_sub(field(begin))).sum::<u64>() as f64
    };
    let operations = sum(|a| a.done);
    let seen_s = sum(|a| a.at_ns) / 1e9 / accounts.len().max(1) as f64;
    let per_operation = |id: &str, count: f64| match operations > 0.0 {
        true => Measurement::new(id, count / operations),
        false => Measurement::absent(id, "no worker saw both edges of the window with an operation between them"),
    };
    let per_second = |id: &str, count: Result<f64, &str>| match count {
        Err(why) => Measurement::absent(id, why),
        Ok(count) if seen_s >= seconds * SEEN_ENOUGH => Measurement::new(id, count / seen_s),
        Ok(_) => {
            let why = format!("the workers saw {seen_s:.3} s of a window of {seconds:.3} s: they waited at its edges");
            Measurement::absent(id, why)
        }
    };
    // Absent and not zero: a lock that never asks cannot be granted anything.
    let asked = accounts.iter().all(|(begin, end)| begin.slice_grants.is_some() && end.slice_grants.is_some());
    let grants = match asked && !accounts.is_empty() {
        true => Ok(sum(|a| a.slice_grants.unwrap_or(0))),
        false => Err("the algorithm asks for no time slice extensions"),
    };
    vec![
        per_operation("sleeps_per_operation", sum(|a| a.voluntary)),
        per_operation("minor_faults_per_operation", sum(|a| a.minor_faults)),
        per_second("involuntary_switches_per_s", Ok(sum(|a| a.involuntary))),
        per_second("slice_grants_per_s", grants),
    ]
}

/// A note when sections of 4 KB pages did not fault as often as asked.
pub(crate) fn faults_as_asked(setup: &Setup, result: &TrialResult) -> Option<String> {
    let asked = setup.faults as f64;
    let measured = result.measurements.iter().find(|m| m.metric == "minor_faults_per_operation")?.value.value()?;
    let off = setup.faults > 0 && !setup.huge && (measured - asked).abs() > asked * 0.05;
    off.then(|| format!("{measured:.3} minor faults were measured for each operation, {asked} were asked for"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Measured;

    fn shown(measurements: &[Measurement]) -> Vec<String> {
        let value = |m: &Measurement| match &m.value {
            Measured::Value(v) => format!("{v}"),
            Measured::Absent(why) => format!("absent: {why}"),
        };
        measurements.iter().map(|m| format!("{} {}", m.metric, value(m))).collect()
    }

    #[test]
    fn percentiles_need_ten_samples_beyond_them() {
        let with = |n: u64| {
            let mut h = Histogram::new();
            h.record_n_ns(100, n);
            shown(&times(&h, 100, None)).join("\n")
        };
        insta::assert_snapshot!(
            [0, 19, 20, 999, 1_000, 10_000].map(|n| format!("{n} samples\n{}\n", with(n))).join("\n")
        );
    }

    #[test]
    fn a_wait_that_did_not_end_counts_for_the_longest_acquisition() {
        let check = |samples: u64, done_ns, waiting_ns, expect: &str| {
            let mut h = Histogram::new();
            h.record_n_ns(100, samples);
            assert_eq!(shown(&times(&h, done_ns, waiting_ns)).last().map(String::as_str), Some(expect));
        };
        check(1, 100, None, "acquire_max_ns 100");
        check(1, 100, Some(50), "acquire_max_ns 100");
        check(1, 100, Some(2_000), "acquire_max_ns 2000");
        check(0, 0, Some(2_000), "acquire_max_ns 2000");
    }

    #[test]
    fn fairness_is_a_share_and_absent_without_operations() {
        let check = |operations: &[u64], expect: &str| assert_eq!(shown(&[fairness(operations)]), [expect]);
        check(&[50, 100, 75], "fairness_min_max 0.5");
        check(&[7], "fairness_min_max 1");
        check(&[0, 9], "fairness_min_max 0");
        check(&[0, 0], "fairness_min_max absent: no worker completed an operation in the window");
        check(&[], "fairness_min_max absent: no worker completed an operation in the window");
    }

    #[test]
    fn kernel_counts_stand_over_the_operations_between_the_same_moments() {
        let account = |at_ns, done, minor_faults, voluntary, involuntary| Account {
            at_ns,
            done,
            minor_faults,
            voluntary,
            involuntary,
            ..Account::default()
        };
        let one = (account(1_000_000_000, 100, 10, 5, 1), account(2_000_000_000, 300, 410, 25, 4));
        let two = (account(1_000_000_000, 0, 0, 0, 0), account(2_000_000_000, 200, 400, 0, 5));
        insta::assert_snapshot!(shown(&kernel_accounts(&[one, two], 1.0)).join("\n"), @r"
        sleeps_per_operation 0.05
        minor_faults_per_operation 2
        involuntary_switches_per_s 8
        slice_grants_per_s absent: the algorithm asks for no time slice extensions
        ");
        let granted = |account: Account, n| Account { slice_grants: Some(n), ..account };
        let asking = (granted(one.0, 3), granted(one.1, 10));
        assert_eq!(shown(&kernel_accounts(&[asking], 1.0)).last().expect("the last"), "slice_grants_per_s 7");
        let late = (account(5, 7, 0, 0, 0), account(5, 7, 0, 0, 0));
        insta::assert_snapshot!(shown(&kernel_accounts(&[late], 1.0)).join("\n"), @r"
        sleeps_per_operation absent: no worker saw both edges of the window with an operation between them
        minor_faults_per_operation absent: no worker saw both edges of the window with an operation between them
        involuntary_switches_per_s absent: the workers saw 0.000 s of a window of 1.000 s: they waited at its edges
        slice_grants_per_s absent: the algorithm asks for no time slice extensions
        ");
    }

    #[test]
    fn a_lost_update_is_a_violation() {
        assert_eq!(exclusive(10, 10), Ok(()));
        assert_eq!(
            exclusive(9, 10).expect_err("one update was lost").to_string(),
            "mutual exclusion: 10 operations were done, the protected count is 9: two workers were inside the lock at the same time"
        );
    }
}
