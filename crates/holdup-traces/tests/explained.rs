//! What is explained of a trace: a cause that was made is named, and is not named where it was not made.

mod common;

use common::followed;
use holdup_model::bundle::{BundleHead, IMPORTED};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{BundleData, Machine};
use holdup_testkit::ignore;
use holdup_traces::account::Selection;
use holdup_traces::{Trace, bundle};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Tasks of a name of their own; they end with this.
struct Tasks(Vec<Child>);

impl Tasks {
    /// A program of this name that does `what`, `count` times.
    fn begin(place: &TempDir, name: &str, what: &str, count: usize) -> Self {
        let program = place.path().join(name);
        std::fs::write(&program, format!("#!/bin/sh\n{what}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Tasks((0..count).map(|_| Command::new(&program).spawn().expect("it starts")).collect())
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &mut self.0 {
            let _gone = task.kill();
            let _ended = task.wait();
        }
    }
}

fn record(file: &Path) {
    if !rustix::process::geteuid().is_root() {
        ignore("tracepoints need root");
    }
    let mut perf = Command::new("perf");
    perf.args(["sched", "record", "-o"])
        .arg(file)
        .args(["--", "sleep", "1.5"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match perf.status() {
        Ok(status) => assert!(status.success()),
        Err(e) => ignore(format!("perf: {e}")),
    }
}

fn traces(files: &[(&str, &Path)], comm: &str) -> BundleData {
    let selection = Selection::new(&[comm.to_owned()], &[]);
    let of = |(name, file): &(&str, &Path)| {
        let (head, finished) = followed(&std::fs::read(file).unwrap(), selection.clone()).unwrap();
        Trace { name: (*name).to_owned(), head, finished }
    };
    let head = BundleHead {
        run_id: "0".to_owned(),
        holdup_version: "0".to_owned(),
        command: vec!["holdup".to_owned()],
        created_unix_ns: 0,
        target: IMPORTED.to_owned(),
        emulated: None,
        machine: Machine { cpus: 0, memory_bytes: 0 },
    };
    bundle(files.iter().map(of).collect(), &selection.in_words(), head)
}

fn more_tasks_than_cpus_are_named_and_tasks_that_sleep_are_not() {
    let place = TempDir::new().unwrap();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (busy, idle) = (place.path().join("busy.data"), place.path().join("idle.data"));
    let tasks = Tasks::begin(&place, "holdup-busy", "while :; do :; done", 3 * cpus);
    record(&busy);
    drop(tasks);
    let fifo = place.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let tasks = Tasks::begin(&place, "holdup-busy", &format!("read line < {}", fifo.display()), 3 * cpus);
    record(&idle);
    drop(tasks);
    let is_named = |explanation: &holdup_model::Explanation, arm: usize| {
        let cause = explanation.arms[arm].causes.iter().find(|cause| cause.id == "oversubscription").unwrap();
        (explanation.arms[arm].answer.clone(), cause.verdict)
    };
    let both = traces(&[("busy", &busy), ("idle", &idle)], "holdup-busy");
    let explanation = holdup_analysis::explain(&both);
    let (answer, verdict) = is_named(&explanation, 0);
    assert!(answer.starts_with("CPU-bound: the watched tasks spend ") && answer.contains(" runnable on "), "{answer}");
    assert_eq!(verdict, FindingVerdict::Supported);
    // What switches and wake-ups do not show is not judged.
    let undecided = |id: &str| {
        let cause = explanation.arms[0].causes.iter().find(|cause| cause.id == id).unwrap_or_else(|| panic!("{id}"));
        assert_eq!(cause.verdict, FindingVerdict::Undecided, "{id}: {}", cause.sentence);
        assert!(!cause.missing.is_empty(), "{id}");
    };
    for id in ["preempted-holder", "fault-under-lock", "spin-wait", "throttling", "mutex", "steal", "memory-pressure"] {
        undecided(id);
    }
    // Of tasks that only sleep there are no events at all.
    assert_eq!(explanation.arms.len(), 2);
    let (answer, verdict) = is_named(&explanation, 1);
    assert!(answer.starts_with("No cause of delay found") && verdict != FindingVerdict::Supported, "{answer}");
    let analysis = holdup_analysis::analyse(&both);
    let said: Vec<&str> = analysis.findings.iter().map(|finding| finding.sentence.as_str()).collect();
    println!(
        "{}\n{}\n{}\n{said:#?}",
        explanation.arms[0].answer,
        explanation.arms[1].answer,
        explanation.notes.join("\n")
    );
}

holdup_testkit::tests!(more_tasks_than_cpus_are_named_and_tasks_that_sleep_are_not);
