//! Collectors that watch inside the kernel, on real tasks.

use holdup_evidence::{CollectContext, Collecting, Collector, Subject};
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
    let boundary = value(&seen, "switched_out", "server: user boundary (R)");
    assert!(boundary >= 20.0, "{boundary}");
    let by_slice = value(&seen, "preempted_by_cause", "server: slice end");
    // Others on the machine wake up on this CPU as well.
    assert!(by_slice >= 0.4 * boundary, "{by_slice} of {boundary}");
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
