//! `wakeup` on this machine: timers that are counted, and delays that are made on purpose.

use holdup_induce::trial::{self, Trial};
use holdup_load::{Cancel, TrialResult};
use holdup_model::{Measured, Problem, Value};
use holdup_testkit::ignore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn run(changes: &[(&str, Value)], duration_ms: u64, enough: &Cancel) -> Result<TrialResult, Problem> {
    let mut parameters = holdup_catalogue::wakeup::Parameters::defaults(1);
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    let trial = Trial { enough: enough.clone(), ..Trial::new(&parameters, duration_ms) };
    trial.run(&mut *trial::prepare("wakeup", &parameters)?)
}

fn metric(result: &TrialResult, id: &str) -> f64 {
    match &result.measurements.iter().find(|m| m.metric == id).expect("every metric is there").value {
        Measured::Value(value) => *value,
        Measured::Absent(why) => panic!("{id}: {why}"),
    }
}

fn every_moment_of_the_window_is_a_wake_up_or_a_missed_one() {
    for (threads, interval_ns) in [(1i64, 1_000_000i64), (3, 2_000_000)] {
        let changes: [(&str, Value); 2] = [("threads", threads.into()), ("interval", interval_ns.into())];
        let result = run(&changes, 500, &Cancel::default()).expect("runs");
        let accounted = metric(&result, "cycles") + metric(&result, "missed_periods");
        let expected = 500e6 / interval_ns as f64 * threads as f64;
        // A busy machine closes the window late, never early; a late thread may straddle an edge.
        assert!(accounted > expected * 0.7, "{accounted} of {expected}");
        let latency = &result.histograms[0];
        assert_eq!((latency.name.as_str(), latency.histogram.count() as f64), ("latency", metric(&result, "cycles")));
        let of_threads: u64 = result.histograms[1..].iter().map(|h| h.histogram.count()).sum();
        assert_eq!(of_threads, if threads > 1 { latency.histogram.count() } else { 0 });
        assert!(metric(&result, "cpu_us_per_cycle") > 0.0);
    }
}

/// Takes a CPU for 2 ms of every 100 ms as SCHED_FIFO, until it is asked to end. Returns how often it did.
fn hog(end: &AtomicBool) -> u32 {
    let param = libc::sched_param { sched_priority: 50 };
    // SAFETY: plain system calls on the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
        assert_eq!(libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param), 0);
    }
    let mut hogged = 0;
    while !end.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(98));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(2) {}
        hogged += 1;
    }
    hogged
}

fn a_delay_that_is_made_on_purpose_appears_with_its_size_and_share() {
    let may_be_fifo = std::thread::spawn(|| {
        let param = libc::sched_param { sched_priority: 1 };
        // SAFETY: a plain system call on the calling thread.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) == 0 }
    });
    if !may_be_fifo.join().expect("ends well") {
        ignore("SCHED_FIFO is refused here");
    }
    let late_between = |result: &TrialResult, from_us: u64, to_us: u64| -> u64 {
        let buckets = result.histograms[0].histogram.buckets();
        buckets.filter(|(low, ..)| (from_us * 1_000..to_us * 1_000).contains(low)).map(|(.., n)| n).sum()
    };
    let changes: [(&str, Value); 2] = [("cpus", "0".into()), ("priority", 0.into())];
    let end = Arc::new(AtomicBool::new(false));
    let ending = end.clone();
    let hogging = std::thread::spawn(move || hog(&ending));
    let with = run(&changes, 3_000, &Cancel::default());
    end.store(true, Ordering::SeqCst);
    let hogged = f64::from(hogging.join().expect("ends well"));
    let with = with.expect("runs");
    let without = run(&changes, 3_000, &Cancel::default()).expect("runs");
    // The first timer of the 2 ms is between 1 and 2 ms late, and the next one is over by then.
    let (late, otherwise) = (late_between(&with, 950, 2_600) as f64, late_between(&without, 950, 2_600) as f64);
    assert!(late > hogged * 0.7, "{late} wake-ups were 1 to 2 ms late for {hogged} times of 2 ms");
    assert!(late - otherwise < hogged * 1.5, "{late} wake-ups were late with {hogged} hogs, {otherwise} without");
    let missed = metric(&with, "missed_periods");
    assert!(missed > hogged * 0.7, "{missed} moments were missed for {hogged} times of 2 ms");
}

fn a_window_ends_early_when_there_is_enough() {
    let enough = Cancel::default();
    enough.cancel();
    let begin = Instant::now();
    let ended = run(&[], 60_000, &enough);
    assert!(begin.elapsed() < Duration::from_secs(30), "it ran to its end");
    // Perhaps no thread woke in a window that short; that is reported.
    if let Err(problem) = ended {
        assert_eq!(problem.why, "no thread woke in it");
    }
}

fn bad_parameters_are_reported_before_anything_runs() {
    let check = |changes: &[(&str, Value)], expect: &str| {
        let problem = run(changes, 10, &Cancel::default()).expect_err("it is refused");
        assert_eq!(format!("{}: {}", problem.what, problem.why), expect);
    };
    check(&[("interval", 0.into())], "interval 0: it must be from 10us to 1s");
    check(&[("threads", 5_000.into())], "threads 5000: it must be from 1 to 4096");
    check(&[("cpus", "4095".into())], "cpus 4095: CPU 4095 is not among those that holdup may use");
    check(&[("priority", 100.into())], "priority 100: it must be from 0 to 99");
}

holdup_testkit::tests!(
    every_moment_of_the_window_is_a_wake_up_or_a_missed_one,
    a_window_ends_early_when_there_is_enough,
    bad_parameters_are_reported_before_anything_runs;
    truth:
    a_delay_that_is_made_on_purpose_appears_with_its_size_and_share
);
