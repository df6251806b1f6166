//! Traces of each format (`samples/README.md` says where they come from), whole and damaged.

use crate::common;
use common::{by_task, followed};
use holdup_model::BundleData;
use holdup_traces::account::{Finished, Selection, TaskTally};
use holdup_traces::{Trace, bundle};
use std::collections::BTreeMap;
use std::io::Read as _;

fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut plain = Vec::new();
    if name.ends_with(".zst") {
        ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).unwrap().read_to_end(&mut plain).unwrap();
        bytes = plain;
    } else if name.ends_with(".gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
        bytes = plain;
    }
    bytes
}

fn whole(name: &str) -> Finished {
    followed(&sample(name), Selection::default()).unwrap_or_else(|problem| panic!("{name}: {problem}")).1
}

const BINARY: [&str; 8] = [
    "perf.data.zst",
    "perf-zstd.data.zst",
    "perf-pipe.data.zst",
    "trace-6.dat.zst",
    "trace-7.dat",
    "schedviz.tar.gz",
    "perfetto.pb",
    "perfetto-compact.pb",
];

fn switches_and_wake_ups_are_those_that_the_tools_print() {
    let check = |name: &str, format: &str, left: u64, woken: u64, missed: u64| {
        let (head, finished) = followed(&sample(name), Selection::default()).unwrap();
        let tallies = by_task(&finished);
        let sum = |of: fn(&TaskTally) -> u64| tallies.values().map(of).sum::<u64>();
        assert_eq!((head.format.as_str(), sum(|t| t.left)), (format, left), "{name}");
        assert_eq!(sum(|t| t.woken.max(t.waking)), woken, "{name}");
        assert_eq!((finished.seen.lost, finished.seen.missed, finished.cpus), (0, missed, 2), "{name}");
    };
    check("perf.data.zst", "perf.data", 150, 81, 0);
    check("perf-zstd.data.zst", "perf.data", 160, 91, 0);
    // A task there is hidden from perf: of three of its times on a CPU the end is missing.
    check("perf-pipe.data.zst", "perf.data", 157, 78, 3);
    check("trace-6.dat.zst", "trace.dat 6", 927, 592, 0);
    check("trace-7.dat", "trace.dat 7", 673, 431, 0);
    check("script.txt.zst", "text", 150, 81, 0);
    check("report.txt.zst", "text", 673, 431, 0);
    check("perfetto.pb", "Perfetto", 150, 81, 0);
}

fn numbers(tally: &TaskTally) -> [u64; 8] {
    let t = tally;
    [t.on_ns, t.without_ns, t.asleep_ns, t.left, t.preempted, t.runs_ns, t.woken_waits_ns, t.preempted_waits_ns]
}

fn one_recording_says_the_same_in_each_format() {
    let script = by_task(&whole("script.txt.zst"));
    for other in ["perf.data.zst", "perfetto.pb"] {
        let other = by_task(&whole(other));
        let all = |of: &BTreeMap<u32, TaskTally>| of.iter().map(|(tid, t)| (*tid, numbers(t))).collect::<Vec<_>>();
        assert_eq!(all(&script), all(&other));
    }
    // Compact switches do not say who had a CPU at the begin.
    let compact = whole("perfetto-compact.pb");
    assert_eq!(compact.seen.switches + 2, whole("perfetto.pb").seen.switches);
    let compact = by_task(&compact);
    let agree = compact.iter().filter(|(tid, t)| numbers(t) == numbers(&script[tid])).count();
    assert!(agree + 4 >= script.len(), "{agree} of {} tasks", script.len());
    // A text has microseconds.
    for (text, file) in [("schedviz.txt.zst", "schedviz.tar.gz"), ("report.txt.zst", "trace-7.dat")] {
        let (text, file) = (by_task(&whole(text)), by_task(&whole(file)));
        assert_eq!(text.len(), file.len());
        for (tid, of_file) in &file {
            let of_text = &text[tid];
            assert_eq!((of_text.left, of_text.woken, of_text.begun), (of_file.left, of_file.woken, of_file.begun));
            let events = 2 * (of_file.left + of_file.woken + 2);
            assert!(of_text.without_ns.abs_diff(of_file.without_ns) <= 1000 * events, "{of_text:?} {of_file:?}");
        }
    }
}

fn a_cut_file_says_where_it_ends_or_what_it_has() {
    for name in BINARY {
        let bytes = sample(name);
        let switches = whole(name).seen.switches;
        for part in 1..60 {
            let cut = bytes[..bytes.len() * part / 60].to_vec();
            match followed(&cut, Selection::default()) {
                Ok((_, finished)) => assert!(finished.seen.switches <= switches, "{name}"),
                Err(problem) => {
                    let has_place = problem.what.starts_with("it, byte ") || part == 1 || name == "schedviz.tar.gz";
                    assert!(has_place && !problem.why.is_empty(), "{name}: {problem}");
                }
            }
        }
    }
}

fn a_changed_file_gives_a_reason_or_other_numbers_but_no_panic() {
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for name in BINARY {
        let bytes = sample(name);
        for _ in 0..60 {
            let mut changed = bytes.clone();
            for _ in 0..=next(4) {
                let place = next(changed.len());
                changed[place] = next(256) as u8;
            }
            if let Err(problem) = followed(&changed, Selection::default()) {
                assert!(problem.what.starts_with("it") && !problem.why.is_empty(), "{name}: {problem}");
            }
        }
    }
}

fn what_is_not_read_is_refused_with_the_place_and_what_to_do() {
    let check = |bytes: &[u8], what: &str, why: &str| {
        let Err(problem) = followed(&bytes, Selection::default()) else { panic!("{what}: it was read") };
        assert!(problem.what.contains(what) && problem.why.contains(why), "{problem}");
        assert!(problem.hint.is_some(), "{problem}");
    };
    let mut perf = sample("perf.data.zst");
    perf[..8].reverse();
    check(&perf, "it, byte 0", "big-endian");
    let mut unfinished = sample("perf.data.zst");
    unfinished[48..56].fill(0);
    check(&unfinished, "it, byte 48", "no records");
    let mut trace = sample("trace-6.dat.zst");
    trace[12] = 1;
    check(&trace, "it, byte 13", "big-endian");
    let mut trace = sample("trace-6.dat.zst");
    trace[10] = b'9';
    check(&trace, "it, byte 10", "version 9");
    check(b"neither of them", "it", "no trace that holdup knows");
}

fn bundled(name: &str, selection: Selection) -> BundleData {
    let watched = selection.in_words();
    let (head, finished) = followed(&sample(name), selection).unwrap();
    let machine = holdup_model::Machine { cpus: 0, memory_bytes: 0 };
    let of = holdup_model::bundle::BundleHead {
        run_id: String::new(),
        holdup_version: String::new(),
        command: Vec::new(),
        created_unix_ns: 0,
        target: holdup_model::bundle::IMPORTED.to_owned(),
        emulated: None,
        machine,
    };
    bundle(vec![Trace { name: name.to_owned(), head, finished }], &watched, of)
}

fn the_states_of_all_tasks_add_up_and_windows_cover_the_trace() {
    for name in BINARY {
        let bundle = bundled(name, Selection::default());
        assert_eq!(bundle.head.machine.cpus, 2, "{name}");
        assert!((5..=20).contains(&bundle.trials.len()), "{name}: {} windows", bundle.trials.len());
        for trial in &bundle.trials {
            let length_s = trial.window.unwrap().length_ns as f64 / 1e9;
            let of = |collector: &str, item: &str| -> f64 {
                let all = trial.evidence.iter().filter(|c| c.collector == collector).flat_map(|c| &c.items);
                all.filter(|i| i.name == item).filter_map(|i| i.value.value()).sum()
            };
            let by_task = ["task_on_cpu_s", "task_without_cpu_s", "task_asleep_s"].map(|item| of("tasks", item));
            let all: f64 = by_task.iter().sum();
            assert!((of("account", "account_s") - all).abs() < 1e-9, "{name}: {all}");
            assert!(by_task[0] <= 2.0 * length_s + 1e-9, "{name}: more than two CPUs");
        }
        let ends = bundle
            .trials
            .windows(2)
            .all(|pair| pair[0].window.unwrap().end_unix_ns == pair[1].window.unwrap().begin_unix_ns);
        assert!(ends, "{name}");
    }
}

fn others_are_what_tasks_of_a_name_wait_behind() {
    let selection = Selection::new(&["sched-messaging".to_owned()], &[]);
    let bundle = bundled("trace-7.dat", selection);
    let items = || bundle.trials.iter().flat_map(|t| &t.evidence).flat_map(|c| &c.items);
    let labels: Vec<&str> = items().filter(|i| i.name == "account_s").filter_map(|i| i.label.as_deref()).collect();
    assert!(labels.contains(&"watched | behind other tasks | ") && labels.contains(&"watched | behind own tasks | "));
    assert!(items().any(|i| i.name == "behind_s" && i.value.value() > Some(0.0)));
    assert!(items().any(|i| i.name == "preempted_by"));
    let tasks = items().filter(|i| i.name == "task_switches").filter_map(|i| i.label.as_deref());
    assert!(tasks.filter(|label| *label != "other").all(|label| label.ends_with("| sched-messaging")));
    let nothing = bundled("trace-7.dat", Selection::new(&["nobody".to_owned()], &[]));
    assert!(nothing.log.iter().any(|(_, line)| line.contains("no event of the trace is of these")));
}

holdup_testkit::tests!(
    switches_and_wake_ups_are_those_that_the_tools_print,
    one_recording_says_the_same_in_each_format,
    a_cut_file_says_where_it_ends_or_what_it_has,
    a_changed_file_gives_a_reason_or_other_numbers_but_no_panic,
    what_is_not_read_is_refused_with_the_place_and_what_to_do,
    the_states_of_all_tasks_add_up_and_windows_cover_the_trace,
    others_are_what_tasks_of_a_name_wait_behind
);
