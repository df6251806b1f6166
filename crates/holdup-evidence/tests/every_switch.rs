//! No switch is lost at the highest rate that a machine can do: the count is the kernel's own, to the last one.

use crate::switching;
use holdup_evidence::{CollectContext, Collecting, Collector, Subject};
use holdup_model::{Availability, Collected};
use holdup_testkit::ignore;
use std::sync::Mutex;
use std::time::Duration;
use switching::{Account, Handing, Switching};

/// One at a time: each takes all CPUs.
static ALONE: Mutex<()> = Mutex::new(());

fn collector(id: &str) -> &'static dyn Collector {
    holdup_evidence::find(id).unwrap_or_else(|| panic!("no collector {id}"))
}

/// The sum of `switched_out` over these places.
fn left(seen: &Collected, places: &[&str]) -> u64 {
    let is_one = |label: &str| places.iter().any(|place| label == format!("command: {place}"));
    let items = seen.items.iter().filter(|i| i.name == "switched_out" && i.label.as_deref().is_some_and(is_one));
    items.filter_map(|i| i.value.value()).sum::<f64>() as u64
}

/// What the collectors saw of a run, the first of them `switches`, and what the kernel counted.
fn watched(handing: Handing, ids: &[&str]) -> (Collected, Account) {
    let all: Vec<&dyn Collector> = ids.iter().map(|id| collector(id)).collect();
    for one in &all {
        if let Availability::Unavailable { reason, .. } = one.probe(&CollectContext::default()) {
            ignore(format!("{} cannot work here: {reason}", one.meta().id));
        }
    }
    let load = Switching::new(handing, &switching::cpus());
    let subjects = load.pids().into_iter().map(|pid| Subject { role: "command".to_owned(), pid }).collect();
    let context = CollectContext { subjects, ..CollectContext::default() }.for_collectors(&all);
    let running: Vec<Box<dyn Collecting>> =
        all.iter().map(|c| c.start(&context).unwrap_or_else(|p| panic!("{p:?}"))).collect();
    let before = load.account();
    let (rounds, length) = load.run(Duration::from_secs(1));
    let counted = load.account().since(before);
    let mut seen: Vec<Collected> = running.into_iter().map(Collecting::stop).collect();
    let seen = seen.remove(0);
    println!("{rounds} rounds, {:.0} switches/s, {counted:?}", counted.switches() as f64 / length.as_secs_f64());
    println!("{:?} {:?}", seen.coverage, seen.cost);
    assert!(counted.switches() > 1000, "the load did not switch: {counted:?}");
    (seen, counted)
}

/// All are asleep when watching begins and when it ends, so nothing is left to chance.
fn assert_all_seen(seen: &Collected, counted: Account) {
    assert_eq!(left(seen, &["sleeping", "blocked"]), counted.voluntary, "voluntary switches");
    assert_eq!(
        left(seen, &["user boundary (R)", "in the kernel (R+)", "throttled"]),
        counted.involuntary,
        "preemptions"
    );
    assert_eq!(left(seen, &["exited"]), 0);
    assert_eq!(counted.arrived, counted.switches(), "the kernel's two accounts");
    let waited = seen.items.iter().find(|i| i.name == "run_queue_wait_s").and_then(|i| i.value.value());
    let waited_ns = waited.expect("always there") * 1e9;
    // The kernel leaves out the time from a wake-up to the switch that it causes, and begins before the wake-up is traced: the
    // two accounts differ by some microseconds for each switch, one way or the other. On a virtual machine whose CPUs others
    // take meanwhile, these are more.
    let most_ns = 5_000.0 * counted.switches() as f64 + 0.01 * counted.wait_ns as f64;
    assert!((waited_ns - counted.wait_ns as f64).abs() <= most_ns, "{waited_ns} {}", counted.wait_ns);
}

fn check(handing: Handing, ids: &[&str]) {
    let _alone = ALONE.lock();
    let (seen, counted) = watched(handing, ids);
    assert_all_seen(&seen, counted);
}

fn voluntary_switches_are_all_seen() {
    check(Handing::Pipe, &["switches"]);
}

fn switches_of_tasks_that_could_go_on_are_all_seen() {
    check(Handing::Yield, &["switches"]);
}

fn they_are_all_seen_with_the_other_parts_switched_on() {
    check(Handing::Pipe, &["switches", "critical-sections", "faults", "kworkers"]);
}

holdup_testkit::tests!(
    truth:
    voluntary_switches_are_all_seen,
    switches_of_tasks_that_could_go_on_are_all_seen,
    they_are_all_seen_with_the_other_parts_switched_on
);
