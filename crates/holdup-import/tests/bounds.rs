//! Files that are large or odd: what is kept of them has a bound, and every bundle of them can be written.

use crate::common::{folder, import};
use holdup_import::{Input, KINDS, Named, Results, bundle, find, read};
use holdup_model::bundle::BundleHead;
use holdup_model::{BundleData, Machine, MemoryBudget, Problem, TooLarge};
use std::collections::BTreeSet;

const BUDGET_BYTES: u64 = 1 << 20;

fn within(kind: &str, text: &str, budget: &MemoryBudget) -> Result<Results, Problem> {
    read(find(kind).unwrap(), &mut Input::new("it", text.as_bytes()).limited_to(budget))
}

fn bundled(kind: &str, all: Vec<Results>, budget: &MemoryBudget) -> Result<BundleData, TooLarge> {
    let head = BundleHead {
        run_id: String::new(),
        holdup_version: String::new(),
        command: Vec::new(),
        created_unix_ns: 0,
        target: String::new(),
        emulated: None,
        machine: Machine { cpus: 1, memory_bytes: 1 },
    };
    let name = |(n, results): (usize, Results)| Named { name: format!("file{n}"), results };
    bundle(kind, all.into_iter().enumerate().map(name).collect(), head, budget)
}

/// Each takes a hundred times its size and more.
#[test]
fn a_file_that_takes_more_than_the_budget_is_refused_with_its_line() {
    let lines = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let fork = r#"[[[1,1]]]"#;
    let jmh = |forks: usize| {
        let forks = vec![fork; forks].join(",");
        format!(
            r#"[{{"jmhVersion":"1.37","benchmark":"b","mode":"sample","threads":1,"primaryMetric":{{"scoreUnit":"us/op","rawDataHistogram":[{forks}]}}}}]"#
        )
    };
    let unit = "BenchmarkX-8 1 100 ns/op\n";
    let files = [
        ("go-bench", unit.repeat(2_000)),
        ("go-bench", format!("{unit}{}", "cpu: x\n".repeat(6_000))),
        ("perf-bench", "0.128\n".repeat(2_000)),
        ("kernel-bench", lines(2_000, &|n| format!("6.{n} 30 read-only 1 16 {n}.5\n"))),
        ("lkp-tests", lines(2_000, &|n| format!("a{n}.throughput: 5\n"))),
        ("jmh", jmh(2_000)),
        ("hyperfine", format!(r#"{{"results":[{{"command":"a","stddev":1,"times":[{}1]}}]}}"#, "1,".repeat(4_000))),
        ("sysbench", "sysbench 1.0.20 (using x)\ntotal time: 1s\ntotal number of events: 5\n".repeat(2_000)),
    ];
    for (kind, text) in files {
        let problem = within(kind, &text, &MemoryBudget::new(BUDGET_BYTES)).expect_err(kind);
        assert!(problem.what.starts_with("it") && problem.why.contains("more than 1MB of memory"), "{kind}: {problem}");
        assert!(problem.hint.is_some_and(|hint| hint.contains("--max-memory 2MB")), "{kind}");
        let read = within(kind, &text, &MemoryBudget::default()).unwrap();
        assert!(bundled(kind, vec![read.clone()], &MemoryBudget::default()).is_ok(), "{kind}");
        let is_large = read.samples.len() > 1 || read.metrics.len() > 1_000;
        assert!(!is_large || bundled(kind, vec![read], &MemoryBudget::new(4096)).is_err(), "{kind}");
    }
    let problem = within("go-bench", &unit.repeat(2_000), &MemoryBudget::new(BUDGET_BYTES)).unwrap_err();
    assert!(problem.what.starts_with("it, line "), "{problem}");
}

#[test]
fn a_log_whose_lines_are_counted_may_have_any_length() {
    let budget = MemoryBudget::new(BUDGET_BYTES);
    let pgbench = "0 1 6580 0 1795837758 924379\n0 1 9728 0 1795837758 927505\n".repeat(10_000);
    assert_eq!(within("pgbench", &pgbench, &budget).unwrap().samples[0].histograms[0].histogram.count(), 20_000);
    let uperf = "17443 1 0 1795932961758953604 44235\n".repeat(20_000);
    assert_eq!(within("uperf", &uperf, &budget).unwrap().samples[0].histograms[0].histogram.count(), 20_000);
    let intervals = "[ 1s ] thds: 2 eps: 613.55 lat (ms,95%): 16.71\n".repeat(20_000);
    let sysbench = within("sysbench", &format!("sysbench 1.0.20 (using x)\n{intervals}"), &budget).unwrap();
    let passed_over = "=== RUN   TestTemplateWithData\n".repeat(20_000);
    let go = within("go-bench", &format!("BenchmarkX-8 1 100 ns/op\n{passed_over}"), &budget).unwrap();
    assert_eq!(go.samples.len(), 1);
    assert!(sysbench.samples[0].void.as_deref().is_some_and(|why| why.contains("after 20000 intervals")));
    assert!(budget.left() > BUDGET_BYTES / 2, "{}", budget.left());
}

#[test]
fn a_thing_that_is_said_again_and_again_is_one_measurement() {
    let netperf = "THROUGHPUT=1\nTHROUGHPUT_UNITS=Trans/s\nP99_LATENCY=5\n";
    let schbench = format!(
        "Wakeup Latencies percentiles (usec) runtime 1 (s) (9 total samples)\n{}",
        "* 99.0th: 5 (0 samples)\nmin=1, max=9\n".repeat(50)
    );
    let pgbench = format!("transaction type: x\n{}", "latency average = 1 ms\ntps = 1\n".repeat(50));
    for (kind, text, count) in [("netperf", netperf.repeat(50), 2), ("schbench", schbench, 2), ("pgbench", pgbench, 2)]
    {
        let read = within(kind, &text, &MemoryBudget::default()).unwrap();
        assert_eq!(read.samples[0].measurements.len(), count, "{kind}");
    }
}

/// A histogram that is counted in has 270 kB: 25 of them would be more than there is.
#[test]
fn a_distribution_takes_what_its_buckets_take() {
    let one = import("sysbench", "1.0-histogram.txt");
    let text = crate::common::text("sysbench", "1.0-histogram.txt").repeat(25);
    let all = within("sysbench", &text, &MemoryBudget::new(BUDGET_BYTES)).unwrap();
    assert_eq!((all.samples.len(), &all.samples[24]), (25, &one.samples[0]));
}

#[test]
fn a_document_gives_back_what_it_took() {
    let budget = MemoryBudget::new(8 << 20);
    let text = crate::common::text("fio", "3.33-plus.json");
    for _ in 0..100 {
        within("fio", &text, &budget).unwrap();
    }
}

fn assert_labels_are_unique(kind: &str, of: &str, all: Vec<Results>) {
    let bundle = bundled(kind, all, &MemoryBudget::default()).unwrap();
    let labels: BTreeSet<&str> = bundle.schedule.arms.iter().map(|arm| arm.label.as_str()).collect();
    assert_eq!(labels.len(), bundle.schedule.arms.len(), "{kind} {of}: {labels:?}");
}

/// The writer of a bundle refuses two arms of one label.
#[test]
fn arms_have_different_labels_in_bundles_of_all_files() {
    for kind in KINDS {
        let mut all: Vec<Results> = Vec::new();
        for entry in std::fs::read_dir(folder(kind.meta.id)).unwrap().flatten().filter(|entry| entry.path().is_file()) {
            let bytes = std::fs::read(entry.path()).unwrap();
            let results = read(kind, &mut Input::new("it", bytes.as_slice()));
            let Ok(results) = results else { continue };
            assert_labels_are_unique(kind.meta.id, &entry.path().display().to_string(), vec![results.clone()]);
            all.push(results);
        }
        assert_labels_are_unique(kind.meta.id, "all of them", all);
    }
    // One result lacks what the other one has; and values with spaces read as two settings.
    let run = |more: &str| {
        format!("Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)\n{more}Time: 0.1\n")
    };
    let two = run("Each sender will pass 50 messages of 100 bytes\n") + &run("");
    let two = within("hackbench", &two, &MemoryBudget::default()).unwrap();
    let bundle = bundled("hackbench", vec![two], &MemoryBudget::default()).unwrap();
    let labels: Vec<&str> = bundle.schedule.arms.iter().map(|arm| arm.label.as_str()).collect();
    assert_eq!(labels, ["bytes=100 messages=50", "file0"]);
    let commands = r#"{"results":[
        {"command":"a","stddev":1,"times":[1],"parameters":{"x":"1 y=2"}},
        {"command":"a","stddev":1,"times":[1],"parameters":{"x":"1","y":"2"}}]}"#;
    let commands = within("hyperfine", commands, &MemoryBudget::default()).unwrap();
    assert_labels_are_unique("hyperfine", "spaces", vec![commands]);
}

#[test]
fn a_time_that_no_bundle_can_hold_is_refused_with_its_place() {
    let refused = |kind: &str, text: &str| within(kind, text, &MemoryBudget::default()).expect_err(kind).to_string();
    let hyperfine = "{\"results\":[{\"command\":\"a\",\"stddev\":1,\n\"times\":[1,1e300]}]}";
    let problem = refused("hyperfine", hyperfine);
    assert!(problem.contains("it, line 2 (byte ") && problem.contains("no time is as long"), "{problem}");
    let problem = refused("perf-bench", "0.128\n99999999999999.128\n");
    assert!(problem.contains("it, line 2 (byte 6)"), "{problem}");
    let hackbench = "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)\n\
                     Each sender will pass 50 messages of 100 bytes\nTime: 1e30\n";
    assert!(refused("hackbench", hackbench).contains("it, line 3 (byte "));
}
