//! Collectors that watch inside the kernel, on real tasks.
#![expect(clippy::print_stdout, reason = "it is shown where a test fails or cannot run")]

use holdup_evidence::{CollectContext, Collecting, Collector, Subject};
use holdup_model::timeline::TimelineKind;
use holdup_model::{Availability, Collected};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn collector(id: &str) -> &'static dyn Collector {
    holdup_evidence::find(id).unwrap_or_else(|| panic!("no collector {id}"))
}

/// Whether it can work here; says why when not.
fn works(id: &str) -> bool {
    match collector(id).probe(&CollectContext::default()) {
        Availability::Ready | Availability::Degraded { .. } => true,
        Availability::Unavailable { reason, .. } => {
            println!("ignored, because {id} cannot work here: {reason}");
            false
        }
    }
}

/// A shell that is ended with the test.
struct Shell(Child);

impl Shell {
    fn run(script: &str) -> Self {
        Shell(Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().expect("a shell"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

fn watch(ids: &[&str], shells: &[(&str, &Shell)], length: Duration) -> Vec<Collected> {
    let subjects = shells.iter().map(|(role, s)| Subject { role: (*role).to_owned(), pid: s.0.id() }).collect();
    let all: Vec<&dyn Collector> = ids.iter().map(|id| collector(id)).collect();
    let context = CollectContext { subjects, ..CollectContext::default() }.for_collectors(&all);
    let running: Vec<Box<dyn Collecting>> =
        all.iter().map(|c| c.start(&context).unwrap_or_else(|p| panic!("{p:?}"))).collect();
    std::thread::sleep(length);
    running.into_iter().map(Collecting::stop).collect()
}

/// What a failing test shows.
fn show(c: &Collected) {
    println!("{}: {:?} {:?}", c.collector, c.coverage, c.cost);
    for i in &c.items {
        println!("  {} {:?} {:?}", i.name, i.label, i.value);
    }
    for h in &c.histograms {
        let (p50, p99) = (h.histogram.quantile_ns(0.5), h.histogram.quantile_ns(0.99));
        println!("  {} {:?} n={} p50={p50:?} p99={p99:?}", h.name, h.label, h.histogram.count());
    }
}

fn value(c: &Collected, name: &str, label: &str) -> f64 {
    let item = c.items.iter().find(|i| i.name == name && i.label.as_deref() == Some(label));
    item.and_then(|i| i.value.value()).unwrap_or_else(|| panic!("no {name} {label} in {:#?}", c.items))
}

#[test]
fn two_that_compute_on_one_cpu_leave_it_at_the_end_of_their_slices() {
    if !works("switches") {
        return;
    }
    let one = Shell::run("exec taskset -c 1 sh -c 'while :; do :; done'");
    let two = Shell::run("exec taskset -c 1 sh -c 'while :; do :; done'");
    std::thread::sleep(Duration::from_millis(200));
    let seen = watch(&["switches"], &[("server", &one), ("load", &two)], Duration::from_secs(1)).remove(0);
    show(&seen);
    // Others on the machine wake up on this CPU as well, so not every preemption is the end of a slice.
    assert!(value(&seen, "switched_out", "server: user boundary (R)") >= 20.0);
    assert!(value(&seen, "preempted_by_cause", "server: slice end") >= 20.0);
    assert_eq!(value(&seen, "preempted_by_cause", "server: throttled"), 0.0);
    let on_cpu = value(&seen, "on_cpu_s", "server");
    assert!(on_cpu > 0.1 && on_cpu < 1.2, "{on_cpu}");
}

#[test]
fn faults_are_counted_and_timed() {
    if !works("faults") {
        return;
    }
    let shell = Shell::run("while :; do head -c 8388608 /dev/zero | tail -c 1 > /dev/null; done");
    let seen = watch(&["faults", "switches"], &[("command", &shell)], Duration::from_millis(500));
    for seen in &seen {
        show(seen);
    }
    assert!(value(&seen[0], "faults", "command: minor") > 500.0);
    assert!(value(&seen[0], "fault_s", "command") > 0.0);
}

#[test]
fn a_timeline_holds_each_switch_once() {
    if !works("timeline") {
        return;
    }
    let shell = Shell::run("while :; do sleep 0.01; done");
    let mut seen = watch(&["timeline", "switches"], &[("command", &shell)], Duration::from_millis(500));
    let timeline = seen[0].timeline.take().expect("a timeline");
    show(&seen[0]);
    show(&seen[1]);
    assert_eq!(timeline.lost, 0);
    let left = |e: &&holdup_model::timeline::TimelineEvent| matches!(&e.kind, TimelineKind::Switch { left, .. } if left == "sleeping");
    // One `sleep` sleeps, and the shell waits for it.
    let sleeping = timeline.events.iter().filter(left).count() as f64;
    let counted = value(&seen[1], "switched_out", "command: sleeping");
    assert!(sleeping >= 40.0 && (counted - sleeping).abs() <= 4.0, "{sleeping} {counted}");
    assert!(timeline.events.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
}
