//! `holdup import` of results: a bundle that the other commands read.

use crate::common;
use common::{Sandbox, refused};

fn hackbench(place: &Sandbox, name: &str, seconds: &[f64]) {
    let run = |seconds: &f64| {
        format!(
            "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)\n\
             Each sender will pass 50 messages of 100 bytes\nTime: {seconds}\n"
        )
    };
    place.write(name, &seconds.iter().map(run).collect::<String>());
}

fn results_become_a_bundle_that_is_compared_and_kept() {
    let place = Sandbox::new();
    hackbench(&place, "old.txt", &[0.100, 0.103, 0.099, 0.101, 0.102]);
    hackbench(&place, "new.txt", &[0.150, 0.149, 0.153, 0.151, 0.148]);
    hackbench(&place, "same.txt", &[0.1005, 0.1025, 0.0995, 0.1012, 0.1015]);
    let import = |files: &[&str], out: &str| {
        place.expect(0, &[&["import", "hackbench"], files, &["--quiet", "--out", out]].concat())
    };
    import(&["old=old.txt", "new=new.txt"], "a.holdup");
    let (said, _) = place.expect(1, &["compare", "a.holdup"]);
    assert!(said.contains("results=new instead of old") && said.contains("different, worse"), "{said}");
    assert!(said.contains("Not known of imported results: the order of the runs"), "{said}");
    assert!(said.lines().count() <= 24 && said.lines().all(|line| line.chars().count() <= 80), "{said}");
    import(&["old=old.txt", "new=same.txt"], "b.holdup");
    let (said, _) = place.expect(0, &["compare", "b.holdup"]);
    assert!(said.contains("no difference beyond"), "{said}");
    // Two files of one name are runs of one arm.
    import(&["x=old.txt", "x=same.txt"], "c.holdup");
    let (said, _) = place.expect(0, &["report", "c.holdup"]);
    assert!(said.contains("in 10 runs"), "{said}");
    // The same files give the same bundle, which a store keeps once.
    import(&["old=old.txt", "new=new.txt"], "d.holdup");
    place.expect(0, &["store", "push", "--store", "kept", "a.holdup", "d.holdup"]);
    assert!(place.expect(0, &["store", "list", "--store", "kept"]).0.contains("1 run"));
    place.expect(0, &["report", "a.holdup", "--html", "a.html"]);
    place.expect(0, &["export", "a.holdup", "-f", "csv"]);
    place.expect(0, &["verify", "a.holdup"]);
}

fn a_folder_stands_for_its_runs_and_a_file_may_name_its_arms() {
    let place = Sandbox::new();
    let bench = |folder: &str, seconds: &[f64]| {
        let logs = format!("{folder}/iter-0/hackbench-process-pipes/logs");
        std::fs::create_dir_all(place.path(&logs)).unwrap();
        let run = |s: &f64| {
            format!(
                "# Running 'sched/messaging' benchmark:\n# 2 groups == 80 processes run\n\n     Total time: {s} [sec]\n"
            )
        };
        place.write(&format!("{logs}/hackbench-2"), &seconds.iter().map(run).collect::<String>());
        place.write(&format!("{folder}/iter-0/tests-timestamp"), "start :: 1\ntest begin :: hackbench-process-pipes 1\ntest end :: hackbench-process-pipes 9 0\nfinish :: 9\n");
    };
    bench("old", &[0.100, 0.103, 0.099, 0.101, 0.102]);
    bench("new", &[0.150, 0.149, 0.153, 0.151, 0.148]);
    place.expect(0, &["import", "mmtests", "6.12=old", "7.0=new", "--quiet", "--out", "m.holdup"]);
    let (said, _) = place.expect(1, &["compare", "m.holdup"]);
    assert!(said.contains("results=7.0 instead of 6.12") && said.contains("different, worse"), "{said}");
    refused(&place, 2, &["import", "pgbench", "old"], &["old: a folder", "name the files"]);
    let row = |kernel: &str, n: u32, tps: f64| format!("{kernel} 30 read-only {n} 16 {tps}\n");
    let rows = (1..=5)
        .map(|n| row("6.12.1", n, 1000.0 + f64::from(n)))
        .chain((1..=5).map(|n| row("7.0.0", n, 1500.0 + f64::from(n))));
    place.write("r.csv", &rows.collect::<String>());
    place.expect(0, &["import", "kernel-bench", "r.csv", "--quiet", "--out", "k.holdup"]);
    let (said, _) = place.expect(1, &["compare", "k.holdup"]);
    assert!(said.contains("results=7.0.0 instead of 6.12.1") && said.contains("different, better"), "{said}");
}

/// A percentile that a run has too few samples for is not what the comparison is about.
fn the_headline_is_of_a_metric_that_every_run_has() {
    let place = Sandbox::new();
    let files = |name: &str, rps: f64| -> Vec<String> {
        let one = |n: u32| {
            let (file, samples) = (format!("{name}{n}.txt"), if n == 1 { 5000 } else { 40 });
            let rps = rps + f64::from(n) / 10.0;
            place.write(&file, &format!("Wakeup Latencies percentiles (usec) runtime 2 (s) ({samples} total samples)\n\t* 99.0th: 90 (1 samples)\n\t  min=1, max=95\naverage rps: {rps}\n"));
            format!("{name}={file}")
        };
        (1..=5).map(one).collect()
    };
    let all = [files("old", 100.0), files("new", 120.0)].concat();
    let words: Vec<&str> = all.iter().map(String::as_str).collect();
    place.expect(0, &[&["import", "schbench"], words.as_slice(), &["--quiet", "--out", "s.holdup"]].concat());
    let (said, _) = place.expect(1, &["compare", "s.holdup"]);
    let first = said.lines().nth(2).unwrap_or_default();
    assert!(first.contains("results=new instead of old: requests per s of schbench"), "{said}");
}

fn what_cannot_be_imported_says_why() {
    let place = Sandbox::new();
    hackbench(&place, "h.txt", &[0.1]);
    refused(&place, 2, &["import", "pgbench", "h.txt"], &["does not look like", "holdup import hackbench h.txt"]);
    refused(&place, 2, &["import", "pgbench", "none.txt"], &["there is no such file"]);
    refused(&place, 2, &["import", "hackbench", "a=h.txt", "b=h.txt"], &["h.txt", "named twice"]);
    refused(&place, 2, &["import", "sysbanch", "h.txt"], &["sysbanch"]);
    place.write("cut.txt", "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)\nEach sender will pass 50 messages of 100 bytes\n");
    let (said, err) = place.expect(0, &["import", "hackbench", "cut.txt", "h.txt", "--quiet", "--out", "cut.holdup"]);
    assert!(err.contains("1 void"), "{said}{err}");
    refused(&place, 2, &["import", "hackbench", "h.txt", "--out", "cut.holdup"], &["cut.holdup"]);
}

fn what_no_bundle_holds_and_what_is_too_large_are_faults_of_the_file() {
    let place = Sandbox::new();
    // One result lacks what the other one has.
    let run = "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)\n";
    place.write("h.txt", &format!("{run}Each sender will pass 50 messages of 100 bytes\nTime: 0.1\n{run}Time: 0.2\n"));
    let (_, err) = place.expect(0, &["import", "hackbench", "h.txt", "--quiet", "--out", "h.holdup"]);
    assert!(err.contains("2 runs of 2 arms"), "{err}");
    place.write("t.json", "{\"results\":[{\"command\":\"a\",\"stddev\":1,\n\"times\":[1e300]}]}");
    refused(
        &place,
        2,
        &["import", "hyperfine", "t.json", "-q", "--out", "t.holdup"],
        &["t.json, line 2", "no time is"],
    );
    place.write("g.txt", &"BenchmarkX-8 1 100 ns/op\n".repeat(2_000));
    let go = ["import", "go-bench", "g.txt", "-q", "--out", "g.holdup"];
    refused(&place, 2, &[&go[..], &["--max-memory", "1MB"]].concat(), &["g.txt, line ", "1MB", "--max-memory 2MB"]);
    place.expect(0, &go);
}

holdup_testkit::tests!(
    results_become_a_bundle_that_is_compared_and_kept,
    a_folder_stands_for_its_runs_and_a_file_may_name_its_arms,
    the_headline_is_of_a_metric_that_every_run_has,
    what_cannot_be_imported_says_why,
    what_no_bundle_holds_and_what_is_too_large_are_faults_of_the_file
);
