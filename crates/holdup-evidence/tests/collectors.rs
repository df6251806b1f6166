//! Every collector over captured trees and real processes.

use holdup_evidence::{CollectContext, Collector, Subject, collectors};
use holdup_host::Host;
use holdup_model::{Availability, Collected, Measured};
use holdup_testkit::ignore;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn collector(id: &str) -> &'static dyn Collector {
    holdup_evidence::find(id).unwrap_or_else(|| panic!("there is a collector {id}"))
}

fn labelled(collected: &Collected, name: &str, label: &str) -> Option<f64> {
    collected.items.iter().find(|i| i.name == name && i.label.as_deref() == Some(label)).and_then(|i| i.value.value())
}

/// A shell that runs what it is given, line by line, and answers each line.
struct Shell(Child);

impl Shell {
    fn new() -> Self {
        let child = Command::new("sh").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        Shell(child)
    }

    fn run(&mut self, line: &str) {
        let input = self.0.stdin.as_mut().expect("piped");
        writeln!(input, "{line}; echo done").expect("it listens");
        let mut answer = String::new();
        let mut output = BufReader::new(self.0.stdout.as_mut().expect("piped"));
        while answer.trim() != "done" {
            answer.clear();
            assert_ne!(output.read_line(&mut answer).expect("it answers"), 0, "the shell ended");
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _already_gone = self.0.wait();
    }
}

/// What a collector saw of a shell while it did something.
fn watch(id: &str, work: &str) -> Collected {
    let mut shell = Shell::new();
    shell.run("true");
    let subjects = vec![Subject { role: "shell".to_owned(), pid: shell.0.id() }];
    let context = CollectContext { host: Host::real(), subjects, ..CollectContext::default() };
    let running = collector(id).start(&context).expect("it starts");
    shell.run(work);
    running.stop()
}

/// Whether a collector works on this machine; when not, the test says so.
fn need(id: &str) {
    let context = CollectContext { host: Host::real(), ..CollectContext::default() };
    if let Availability::Unavailable { reason, .. } = collector(id).probe(&context) {
        ignore(format!("{id} is unavailable here: {reason}"));
    }
}

fn cpu_time_of_a_busy_process_is_seen() {
    let collected = watch("cpu", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
    let used = labelled(&collected, "cpu_used", "shell user").expect("measured");
    assert!(used > 0.05 && used < 1.5, "one process in a loop on a shared machine: {used} CPUs");
    let shares: f64 = collected.items.iter().filter(|i| i.name == "cpu_share").filter_map(|i| i.value.value()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "the shares are of one whole: {shares}");
    assert!(
        collected.cost.cpu_ns > 0 && collected.cost.bytes > 0 && collected.cost.wakeups == 2,
        "{:?}",
        collected.cost
    );
}

fn each_sleep_is_a_voluntary_switch() {
    need("switch-counters");
    let collected = watch("switch-counters", "for i in 1 2 3 4 5 6 7 8; do sleep 0.01; done");
    let seen = labelled(&collected, "voluntary_switches", "shell").expect("measured");
    assert!(seen >= 8.0, "the shell waited for eight children: {seen}");
}

fn waiting_for_a_cpu_and_times_on_it_are_seen() {
    need("run-queue");
    let collected = watch("run-queue", "for i in 1 2 3 4; do sleep 0.01; done");
    assert!(labelled(&collected, "times_on_cpu", "shell").is_some_and(|n| n >= 4.0), "{collected:?}");
    assert!(labelled(&collected, "run_queue_waiting", "shell").is_some_and(|w| (0.0..10.0).contains(&w)));
}

fn first_touch_of_memory_is_seen_as_minor_faults() {
    need("fault-counters");
    // A string of 8 MB takes about 2,000 new pages.
    let collected = watch("fault-counters", "x=$(head -c 8388608 /dev/zero | tr '\\0' a)");
    let seen = labelled(&collected, "minor_faults", "shell").expect("measured");
    assert!(seen >= 2000.0, "8 MB in pages of 4 KB: {seen}");
}

fn migrations_of_a_process_that_is_moved_are_seen() {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let moved = Command::new("taskset").arg("--version").output().is_ok();
    if cpus < 2 || !moved {
        ignore("moving a process needs two CPUs and taskset");
    } else {
        need("migrations");
        let hop = "for i in 1 2 3; do taskset -p -c 0 $$ >/dev/null; taskset -p -c 1 $$ >/dev/null; done";
        let collected = watch("migrations", hop);
        let seen = labelled(&collected, "migrations", "shell").expect("measured");
        assert!(seen >= 5.0, "six moves, the first may be none: {seen}");
    }
}

fn a_subject_that_ends_inside_the_window_is_noted() {
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
    let subjects = vec![Subject { role: "load".to_owned(), pid: child.id() }];
    let context = CollectContext { host: Host::real(), subjects, ..CollectContext::default() };
    let running = collector("switch-counters").start(&context).expect("it starts");
    child.kill().expect("ours");
    child.wait().expect("ours");
    let collected = running.stop();
    assert!(collected.items.iter().all(|i| matches!(i.value, Measured::Absent(_))), "{collected:?}");
    assert!(!collected.coverage.notes.is_empty());
}

fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        put(root.path(), path, text);
    }
    root
}

fn put(root: &Path, path: &str, text: &[u8]) {
    let whole = root.join(path);
    std::fs::create_dir_all(whole.parent().expect("below the root")).expect("a folder");
    std::fs::write(whole, text).expect("a file");
}

fn at(root: &Path) -> CollectContext {
    CollectContext {
        host: Host::at(root),
        subjects: vec![Subject { role: "s".to_owned(), pid: 7 }],
        ..CollectContext::default()
    }
}

fn without_their_sources_collectors_are_unavailable_with_a_reason() {
    let root = tree(&[]);
    for collector in collectors::ALL {
        let Availability::Unavailable { reason, .. } = collector.probe(&at(root.path())) else {
            panic!("{} cannot work on an empty tree", collector.meta().id);
        };
        assert!(!reason.is_empty());
        let problem = collector.start(&at(root.path())).err().expect("it cannot start");
        assert!(problem.what.contains(collector.meta().id), "{problem}");
    }
}

fn garbage_gives_reasons_and_no_panic() {
    let garbage: &[&[u8]] =
        &[b"", b"\n\n\n", b"\xff\xfe\x00\x01", b"cpu", b"cpu  -1 2 3 4 5", b"a: b\nc: d\n", &[b'9'; 70_000]];
    let paths = [
        "proc/stat",
        "proc/vmstat",
        "proc/interrupts",
        "proc/softirqs",
        "proc/net/snmp",
        "proc/net/netstat",
        "proc/pressure/cpu",
        "proc/pressure/memory",
        "proc/pressure/io",
        "proc/7/stat",
        "proc/7/cgroup",
        "proc/7/task/7/status",
        "proc/7/task/7/schedstat",
        "proc/7/task/7/sched",
        "proc/self/stat",
        "proc/self/status",
        "proc/self/schedstat",
        "proc/self/sched",
        "proc/self/cgroup",
    ];
    for bytes in garbage {
        let root = tree(&paths.map(|p| (p, *bytes)));
        for collector in collectors::ALL {
            let _any = collector.probe(&at(root.path()));
            if let Ok(running) = collector.start(&at(root.path())) {
                for item in running.stop().items {
                    assert!(item.value.value().is_none_or(f64::is_finite), "{item:?}");
                }
            }
        }
    }
}

const STAT: &str = "7 (post gres) w) S 1 7 7 0 -1 0 100 0 5 0 30 20 0 0 20 0 1 0 12345 0 0";

fn a_captured_tree_gives_the_differences_of_its_counters() {
    let root = tree(&[
        ("proc/stat", b"cpu  100 0 50 800 0 10 20 20 0 0\nctxt 1000\n"),
        ("proc/vmstat", b"pgfault 500\npgmajfault 5\n"),
        ("proc/7/stat", STAT.as_bytes()),
        ("proc/7/task/7/status", b"voluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t4\n"),
        ("proc/7/task/7/schedstat", b"1000 2000 30\n"),
        ("proc/7/task/7/sched", b"postgres (7, #threads: 1)\nse.nr_migrations   :   3\n"),
        ("proc/interrupts", b"      CPU0 CPU1\nLOC:  10 20  Local timer interrupts\n"),
        ("proc/net/snmp", b"Tcp: RetransSegs OutSegs\nTcp: 5 100\n"),
    ]);
    let ids = ["cpu", "switch-counters", "run-queue", "migrations", "fault-counters", "interrupts", "network"];
    let running: Vec<_> = ids.iter().map(|id| collector(id).start(&at(root.path())).expect("starts")).collect();
    let later = STAT.replace(" 100 0 5 0 30 20 ", " 140 0 6 0 50 25 ");
    for (path, text) in [
        ("proc/stat", "cpu  150 0 60 830 0 10 20 30 0 0\nctxt 1600\n"),
        ("proc/vmstat", "pgfault 900\npgmajfault 9\n"),
        ("proc/7/stat", &later),
        ("proc/7/task/7/status", "voluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t9\n"),
        ("proc/7/task/7/schedstat", "5000 9000 37\n"),
        ("proc/7/task/7/sched", "postgres (7, #threads: 1)\nse.nr_migrations   :   8\n"),
        ("proc/interrupts", "      CPU0 CPU1\nLOC:  15 27  Local timer interrupts\n"),
        ("proc/net/snmp", "Tcp: RetransSegs OutSegs\nTcp: 5 160\n"),
    ] {
        put(root.path(), path, text.as_bytes());
    }
    let seen: Vec<Collected> = running.into_iter().map(holdup_evidence::Collecting::stop).collect();
    let of = |id: &str| seen.iter().find(|c| c.collector == id).expect("collected");
    assert_eq!(labelled(of("cpu"), "cpu_share", "user"), Some(0.5));
    assert_eq!(labelled(of("cpu"), "cpu_share", "steal"), Some(0.1));
    assert_eq!(labelled(of("switch-counters"), "voluntary_switches", "s"), Some(7.0));
    assert_eq!(labelled(of("switch-counters"), "involuntary_switches", "s"), Some(5.0));
    assert_eq!(labelled(of("run-queue"), "run_queue_wait_mean_us", "s"), Some(1.0));
    assert_eq!(labelled(of("run-queue"), "times_on_cpu", "s"), Some(7.0));
    assert_eq!(labelled(of("migrations"), "migrations", "s"), Some(5.0));
    assert_eq!(labelled(of("fault-counters"), "minor_faults", "s"), Some(40.0));
    assert_eq!(labelled(of("interrupts"), "interrupts", "LOC"), Some(12.0));
    assert_eq!(labelled(of("network"), "network", "Tcp RetransSegs"), Some(0.0), "a zero that is an answer");
    assert_eq!(labelled(of("network"), "network", "Tcp OutSegs"), Some(60.0));
}

fn every_collector_describes_itself() {
    for collector in collectors::ALL {
        let meta = collector.meta();
        assert!(meta.summary.len() <= 72 && !meta.summary.ends_with('.'), "{}: {}", meta.id, meta.summary);
        assert!(meta.docs.len() > 80 && !meta.references.is_empty(), "{}", meta.id);
        assert!(!collector.produces().is_empty(), "{}", meta.id);
    }
}

/// Walks the catalogue; those for PostgreSQL have their own test, with a server (`evidence_of_postgres`).
fn every_collector_brings_the_items_that_it_declares() {
    let mut shell = Shell::new();
    shell.run("true");
    let subjects = vec![Subject { role: "shell".to_owned(), pid: shell.0.id() }];
    let context = CollectContext { host: Host::real(), subjects, ..CollectContext::default() };
    let works = |c: &&dyn Collector| !c.needs_postgres() && c.probe(&context).is_usable();
    let usable: Vec<&dyn Collector> = collectors::ALL.iter().copied().filter(works).collect();
    let context = context.clone().for_collectors(&usable);
    let running: Vec<_> = usable.iter().map(|c| c.start(&context).unwrap_or_else(|p| panic!("{p}"))).collect();
    shell.run("for i in 1 2 3 4; do sleep 0.02; done");
    for (collector, running) in usable.iter().zip(running) {
        let (id, collected) = (collector.meta().id, running.stop());
        assert_eq!(collected.collector, id);
        assert!(!collected.items.is_empty(), "{id}: {:?}", collected.coverage);
        for item in &collected.items {
            let is_declared = |(name, unit, _): &(&str, &str, &str)| *name == item.name && *unit == item.unit;
            assert!(collector.produces().iter().any(is_declared), "{id} does not declare {item:?}");
        }
    }
}

fn a_busy_process_is_profiled_from_its_first_function_on_and_a_captured_tree_is_not() {
    let root = tree(&[("sys/devices/system/cpu/online", b"0-1\n")]);
    let Availability::Unavailable { reason, .. } = collector("cpu-profile").probe(&at(root.path())) else {
        panic!("a captured tree has no CPUs that run")
    };
    assert!(reason.ends_with("only the running system can be sampled"), "{reason}");
    need("cpu-profile");
    let collected = watch("cpu-profile", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done");
    let samples = labelled(&collected, "samples", "shell").expect("measured");
    let parts = ["samples_user", "samples_kernel"].map(|name| labelled(&collected, name, "shell").expect("measured"));
    assert!(samples > 5.0 && parts[0] + parts[1] == samples, "{collected:?}");
    let profile = &collected.stacks[0];
    assert_eq!((profile.name.as_str(), profile.unit.as_str()), ("on_cpu", "samples"));
    let in_profile: u64 = profile.stacks.iter().map(|stack| stack.weight).sum();
    assert_eq!(in_profile as f64, samples, "each sample is in the profile");
    assert!(profile.truncated * 10 <= in_profile, "{} of {in_profile}: {:?}", profile.truncated, collected.coverage);
    assert!(profile.stacks.iter().all(|stack| stack.role.as_deref() == Some("shell")), "{:?}", profile.stacks);
    assert!(collected.cost.cpu_ns > 0 && collected.cost.bytes > 0 && collected.cost.memory_bytes > 1 << 20);
}

holdup_testkit::tests!(
    cpu_time_of_a_busy_process_is_seen,
    each_sleep_is_a_voluntary_switch,
    waiting_for_a_cpu_and_times_on_it_are_seen,
    first_touch_of_memory_is_seen_as_minor_faults,
    migrations_of_a_process_that_is_moved_are_seen,
    a_subject_that_ends_inside_the_window_is_noted,
    without_their_sources_collectors_are_unavailable_with_a_reason,
    garbage_gives_reasons_and_no_panic,
    a_captured_tree_gives_the_differences_of_its_counters,
    every_collector_describes_itself,
    every_collector_brings_the_items_that_it_declares,
    a_busy_process_is_profiled_from_its_first_function_on_and_a_captured_tree_is_not
);
