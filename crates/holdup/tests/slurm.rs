//! `holdup run --on slurm` against a real slurmctld, slurmd and munged.

use crate::common;
use crate::common::cluster;
use cluster::{Cluster, missing};
use common::{Sandbox, program, signal, texts, wait_for};
use holdup_testkit::ignore;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A cluster, and a folder whose runs find it.
struct Fixture {
    place: Sandbox,
    cluster: Cluster,
}

impl Fixture {
    fn new(blind: &[&str]) -> Self {
        Self::hiding(blind, &[])
    }

    /// A cluster whose nodes share neither /tmp nor the program with this host, nor with each other.
    fn apart() -> Self {
        let program = program();
        Self::hiding(&cluster::NODES, &[program.parent().unwrap().to_owned(), "/tmp".into()])
    }

    fn hiding(blind: &[&str], hidden: &[PathBuf]) -> Self {
        if let Some(reason) = missing() {
            ignore(reason);
        }
        let place = Sandbox::new();
        let hidden = if hidden.is_empty() { vec![place.path(".")] } else { hidden.to_vec() };
        let cluster = Cluster::start(blind, &hidden);
        Fixture { place, cluster }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.holdup(args);
        command.env("SLURM_CONF", self.cluster.conf());
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[track_caller]
    fn expect(&self, code: i32, args: &[&str]) -> (String, String) {
        self.ends(code, self.start(args))
    }

    #[track_caller]
    fn ends(&self, code: i32, child: Child) -> (String, String) {
        let output = child.wait_with_output().unwrap();
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "stdout: {out}\nstderr: {err}\n{}", self.logs());
        (out, err)
    }

    /// What the parts wrote, for messages.
    fn logs(&self) -> String {
        let folders = std::fs::read_dir(self.place.path(".")).unwrap().flatten();
        let logs =
            folders.flat_map(|folder| std::fs::read_dir(folder.path().join("log")).into_iter().flatten().flatten());
        logs.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect()
    }

    fn is_running(&self, part: u32) -> Option<String> {
        let tasks = self.cluster.tasks();
        let task = tasks.into_iter().find(|(index, state, _)| *index == part && state == "RUNNING")?;
        Some(task.2)
    }

    /// The largest number of trials in an unfinished attempt at a part.
    fn trials_in_partial(&self, folder: &str, part: u32) -> usize {
        let begin = format!("part-{part:04}.");
        let names = std::fs::read_dir(self.place.path(folder).join("parts")).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let partials = names.filter(|name| name.starts_with(&begin) && name.ends_with(".partial"));
        let trials = |name: String| common::trials_in(&self.place, &format!("{folder}/parts/{name}")).unwrap_or(0);
        partials.map(trials).max().unwrap_or(0)
    }
}

/// A simulation whose trials take some hundredths of a second: `blocks` of two arms and the A/A pair.
fn simulation<'a>(blocks: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let plan = ["run", "lock-contention", "--target", "sim:server-8", "--threads", "12", "--algorithm", "tas,ticket"];
    let design = ["--duration", "4ms", "--warmup", "1ms", "--seed", "7", "--collect", "none", "--blocks", blocks];
    plan.iter().chain(&design).chain(more).copied().collect()
}

/// The same of long trials, so that there is time to break something.
fn long_simulation<'a>(blocks: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut all = simulation(blocks, more);
    let at = all.iter().position(|word| *word == "4ms").unwrap();
    all[at] = "60ms";
    all
}

/// A program that is measured, a session at a time.
fn measured<'a>(sessions: &'a str, sleep: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let plan = ["run", "command", "--blocks", "2", "--sessions", sessions, "--collect", "none", "--seed", "3"];
    plan.iter().chain(more).copied().chain(["--", "sleep", sleep]).collect()
}

#[track_caller]
fn same_bytes(place: &Sandbox, a: &str, b: &str) {
    let [a, b] = [a, b].map(|name| std::fs::read(place.path(name)).unwrap());
    assert!(
        a == b,
        "{} and {} bytes, the first difference at {:?}",
        a.len(),
        b.len(),
        a.iter().zip(&b).position(|(a, b)| a != b)
    );
}

fn a_simulation_on_four_nodes_is_the_one_of_this_host_to_the_byte() {
    let at = Fixture::new(&[]);
    let (alone, _) = at.expect(0, &simulation("30", &["--out", "alone.holdup"]));
    let (parts, err) = at.expect(0, &simulation("30", &["--out", "parts.holdup", "--on", "slurm", "--parts", "7"]));
    assert!(err.contains("in 7 parts") && err.contains("submitted as job"), "{err}");
    assert_eq!(alone.replace("alone", "parts"), parts);
    same_bytes(&at.place, "alone.holdup", "parts.holdup");
    assert!(!at.place.path("parts.holdup.slurm").exists(), "the folder of a run that is through is removed");
    // The stop rule is that of a run on this host.
    let decided = |more: &[&'static str]| [&simulation("30", &[])[..12], more].concat();
    at.expect(0, &decided(&["--collect", "none", "--seed", "7", "--max-blocks", "40", "--out", "d1.holdup"]));
    at.expect(
        0,
        &decided(&[
            "--collect",
            "none",
            "--seed",
            "7",
            "--max-blocks",
            "40",
            "--out",
            "d2.holdup",
            "--on=slurm:main",
            "--parts=9",
        ]),
    );
    same_bytes(&at.place, "d1.holdup", "d2.holdup");
}

fn a_node_that_is_killed_loses_nothing_that_was_done() {
    let mut at = Fixture::new(&[]);
    let child = at.start(&long_simulation("40", &["--out", "x.holdup", "--on", "slurm", "--parts", "4"]));
    wait_for("trials of part 1", || at.is_running(1).is_some() && at.trials_in_partial("x.holdup.slurm", 1) >= 3);
    let node = at.is_running(1).unwrap();
    at.cluster.kill_node(&node);
    let done = at.trials_in_partial("x.holdup.slurm", 1);
    let (_, err) = at.ends(0, child);
    assert!(done >= 3, "{done}");
    at.expect(0, &long_simulation("40", &["--out", "alone.holdup"]));
    same_bytes(&at.place, "alone.holdup", "x.holdup");
    assert!(!err.contains("error:"), "{err}");
}

fn sessions_that_are_measured_run_on_nodes_of_their_own_and_say_which() {
    let at = Fixture::new(&[]);
    let (out, err) = at.expect(0, &measured("3", "0.05", &["--out", "m.holdup", "--on", "slurm", "--details"]));
    assert!(err.contains("in 3 parts"), "{err}");
    let (json, _) = at.expect(0, &["export", "m.holdup", "--format", "json"]);
    let nodes = ["n1", "n2", "n3", "n4"].iter().filter(|node| json.contains(&format!("\"{node}\""))).count();
    assert!(nodes >= 1, "{out}\n{json}");
    assert!(json.contains("slurm.node"), "{json}");
}

fn a_session_that_was_requeued_is_repeated_whole_and_what_it_had_is_kept_as_void() {
    let at = Fixture::new(&[]);
    let child = at.start(&measured("1", "1.5", &["--out", "m.holdup", "--on", "slurm"]));
    // One of them may be void by itself: another test may change a knob of this host meanwhile.
    wait_for("trials of the session", || at.trials_in_partial("m.holdup.slurm", 0) >= 2);
    let job = at.cluster.ask("squeue", &["-h", "-r", "-o", "%F_%K"]);
    at.cluster.ask("scontrol", &["requeue", job.trim()]);
    at.ends(0, child);
    let (json, _) = at.expect(0, &["list", "trials", "m.holdup", "--json"]);
    assert!(json.contains("the attempt at this session ended early"), "{json}");
    at.expect(0, &["verify", "m.holdup"]);
}

fn an_interrupted_or_killed_run_is_continued() {
    let at = Fixture::new(&[]);
    at.expect(0, &long_simulation("30", &["--out", "alone.holdup"]));
    let child = at.start(&long_simulation("30", &["--out", "x.holdup", "--on", "slurm", "--parts", "6"]));
    wait_for("a running part", || at.is_running(0).is_some());
    signal(&child, Signal::INT);
    let (_, err) = at.ends(4, child);
    assert!(err.contains("its jobs continue") && err.contains("run --continue"), "{err}");
    let child = at.start(&["run", "--continue", "x.holdup.slurm"]);
    // A second one that came first would follow the run itself.
    wait_for("one that follows", || holds(&child, &at.place.path("x.holdup.slurm/lock")));
    assert!(refused_second(&at));
    signal(&child, Signal::KILL);
    child.wait_with_output().unwrap();
    at.expect(0, &["run", "--continue", "x.holdup.slurm"]);
    same_bytes(&at.place, "alone.holdup", "x.holdup");
    let (_, err) = at.expect(2, &["run", "--continue", "x.holdup.slurm"]);
    assert!(err.contains("x.holdup.slurm"), "{err}");
}

fn jobs_that_the_user_cancels_end_and_the_run_is_continued() {
    let at = Fixture::new(&[]);
    let child = at.start(&long_simulation("30", &["--out", "x.holdup", "--on", "slurm", "--parts", "6"]));
    wait_for("a running part", || at.is_running(0).is_some());
    signal(&child, Signal::INT);
    at.ends(4, child);
    let (_, err) = at.expect(0, &["run", "--continue", "x.holdup.slurm", "--cancel"]);
    assert!(err.contains("its jobs are cancelled; what they did is kept"), "{err}");
    let live = ["PENDING", "RUNNING", "COMPLETING"];
    wait_for("the end of all", || at.cluster.tasks().iter().all(|(_, state, _)| !live.contains(&state.as_str())));
    at.expect(0, &["run", "--continue", "x.holdup.slurm"]);
    at.expect(0, &long_simulation("30", &["--out", "alone.holdup"]));
    same_bytes(&at.place, "alone.holdup", "x.holdup");
}

fn what_a_plan_needs_of_nodes_chooses_them() {
    let at = Fixture::new(&[]);
    let nodes = |more: &[&str], out: &str| {
        let cluster = ["--on", "slurm", "--out", out];
        at.expect(0, &measured("2", "0.02", &[&cluster[..], more].concat()));
        let (json, _) = at.expect(0, &["export", out, "--format", "json"]);
        cluster::NODES.into_iter().filter(|node| json.contains(&format!("\"{node}\""))).collect::<Vec<_>>()
    };
    // Two features, more memory than others have, more CPUs: each is of one node alone.
    assert_eq!(nodes(&["--set", "nodes.features=milan,nvme"], "features.holdup"), ["n2"]);
    assert_eq!(nodes(&["--set", "nodes.memory=2500MB"], "memory.holdup"), ["n3"]);
    assert_eq!(nodes(&["--set", "nodes.cpus=2"], "cpus.holdup"), ["n4"]);
    // Relative sizes are those of the nodes that are left; what the user gives to sbatch comes last.
    let plan = at.place.write(
        "plan.toml",
        "[nodes]\ncpus = 2\n[[workload]]\nkind = \"lock-contention\"\nthreads = [\"1x cpus\", 5]\n",
    );
    let (out, _) =
        at.expect(0, &["run", plan.to_str().unwrap(), "--on", "slurm", "--dry-run", "--slurm-option=--time=7"]);
    assert!(out.contains("threads=2") && out.contains("threads=5"), "{out}");
    assert!(out.contains("--mincpus=2") && out.contains("--time=7 --array"), "{out}");
}

/// No folder of a job is left on the nodes, once all jobs have ended.
fn nothing_is_left(at: &Fixture) {
    let live = ["PENDING", "RUNNING", "COMPLETING"];
    wait_for("the end of all", || at.cluster.tasks().iter().all(|(_, state, _)| !live.contains(&state.as_str())));
    for node in cluster::NODES {
        let names = at.cluster.list(node, "/tmp");
        let left: Vec<_> =
            names.iter().filter(|name| name.starts_with("holdup-") && !name.starts_with("holdup-test-")).collect();
        assert!(left.is_empty(), "{node}: {left:?}");
    }
}

fn jobs_bring_what_they_need_to_nodes_that_share_nothing() {
    let at = Fixture::apart();
    at.expect(0, &simulation("12", &["--out", "alone.holdup"]));
    // They share nothing indeed.
    let (_, err) = at.expect(3, &simulation("12", &["--out", "none.holdup", "--on", "slurm", "--parts", "3"]));
    assert!(err.contains("shared storage") && err.contains("bring what they need: --stage"), "{err}");
    let args = simulation("12", &["--out", "parts.holdup", "--on", "slurm", "--parts", "3", "--stage"]);
    let (_, err) = at.expect(0, &args);
    assert!(err.contains("in 3 parts"), "{err}");
    same_bytes(&at.place, "alone.holdup", "parts.holdup");
    assert!(!at.place.path("parts.holdup.slurm").exists());
    nothing_is_left(&at);
    let ended = at.cluster.tasks().iter().filter(|(_, state, _)| state == "COMPLETED").count();
    assert_eq!(ended, 3, "{:?}", at.cluster.tasks());
    // A machine file of this host is brought too.
    let machine = at.expect(0, &["list", "machines", "server-8"]).0;
    at.place.write("mine.toml", &machine);
    let of_file = |more: &[&'static str]| {
        let mut all = simulation("4", more);
        all[3] = "sim:mine.toml";
        all
    };
    at.expect(0, &of_file(&["--out", "m1.holdup"]));
    at.expect(0, &of_file(&["--out", "m2.holdup", "--on", "slurm", "--stage", "--parts", "2"]));
    same_bytes(&at.place, "m1.holdup", "m2.holdup");
}

fn what_is_measured_on_nodes_that_share_nothing_comes_back_and_has_its_files() {
    use std::os::unix::fs::PermissionsExt;
    let at = Fixture::apart();
    std::fs::create_dir(at.place.path("tools")).unwrap();
    let program = at.place.write("tools/rate.sh", "#!/bin/sh\ncat data.txt\n");
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    at.place.write("data.txt", "value 7\n");
    let metric = ["--metric", "value=regex:value ([0-9.]+)"];
    let run = [
        "run",
        "command",
        "--blocks",
        "2",
        "--sessions",
        "2",
        "--collect",
        "none",
        "--out",
        "m.holdup",
        "--on",
        "slurm",
    ];
    let files = ["--stage", "--stage-file", "tools/rate.sh", "--stage-file", "data.txt"];
    let args: Vec<&str> = run.iter().chain(&metric).chain(&files).copied().chain(["--", "./tools/rate.sh"]).collect();
    at.expect(0, &args);
    let (json, _) = at.expect(0, &["export", "m.holdup", "--format", "json"]);
    assert!(json.contains("slurm.node") && json.contains("7.0"), "{json}");
    nothing_is_left(&at);
    // Without the files the program is not there, and the part says so.
    let run = ["run", "command", "--blocks", "1", "--collect", "none", "--out", "n.holdup", "--on", "slurm", "--stage"];
    let args: Vec<&str> = run.into_iter().chain(["--", "./tools/rate.sh"]).collect();
    let (_, err) = at.expect(3, &args);
    assert!(err.contains("rate.sh"), "{err}");
    nothing_is_left(&at);
}

fn a_node_without_a_folder_for_what_is_brought_is_named() {
    let at = Fixture::apart();
    let (_, err) = at.expect(3, &simulation("4", &["--out", "x.holdup", "--on", "slurm", "--stage=/nowhere"]));
    assert!(err.contains("lacks the folder") && err.contains("--stage=DIR"), "{err}");
}

fn what_was_brought_is_fetched_after_an_interruption_and_a_killed_node_is_replaced() {
    let mut at = Fixture::apart();
    at.expect(0, &long_simulation("24", &["--out", "alone.holdup"]));
    let child = at.start(&long_simulation("24", &["--out", "x.holdup", "--on", "slurm", "--parts", "4", "--stage"]));
    // Something was brought to a node when there is a program in the folder of a job.
    let is_staged = |at: &Fixture, node: &str| {
        let names = at.cluster.list(node, "/tmp");
        let mut jobs = names.iter().filter(|name| name.starts_with("holdup-") && !name.starts_with("holdup-test-"));
        jobs.any(|job| at.cluster.list(node, &format!("/tmp/{job}")).iter().any(|name| name == "staged"))
    };
    wait_for("what is brought to n1", || is_staged(&at, "n1"));
    signal(&child, Signal::INT);
    let (_, err) = at.ends(4, child);
    assert!(err.contains("its jobs continue") && err.contains("for ten minutes"), "{err}");
    let child = at.start(&["run", "--continue", "x.holdup.slurm"]);
    wait_for("what is brought to n2", || is_staged(&at, "n2"));
    at.cluster.kill_node("n2");
    at.ends(0, child);
    same_bytes(&at.place, "alone.holdup", "x.holdup");
}

fn parts_that_are_missing_for_good_leave_a_bundle_that_says_so_and_is_completed() {
    let at = Fixture::new(&[]);
    at.expect(0, &long_simulation("40", &["--out", "alone.holdup"]));
    let child = at.start(&long_simulation("40", &["--out", "x.holdup", "--on", "slurm", "--parts", "8"]));
    let whole = |number: u32| at.place.path("x.holdup.slurm/parts").join(format!("part-{number:04}.holdup"));
    wait_for("whole parts", || whole(0).exists() && whole(1).exists() && !at.cluster.tasks().is_empty());
    at.cluster.ask("scancel", &["--user=root"]);
    let (_, err) = at.ends(3, child);
    assert!(err.contains("trials are missing") && err.contains("was cancelled"), "{err}");
    assert!(err.contains("run --continue"), "{err}");
    at.expect(0, &["verify", "x.holdup"]);
    let (json, _) = at.expect(0, &["list", "trials", "x.holdup", "--json"]);
    let trials: serde_json::Value = serde_json::from_str(&json).unwrap();
    let trials = trials["members"].as_array().unwrap();
    assert_eq!(trials.len(), common::trials_in(&at.place, "alone.holdup").unwrap(), "each planned trial is there");
    let void = json.matches("its job was cancelled").count();
    assert!((20..=120).contains(&void), "{void} of 160 are missing");
    // What stands in its place now is not replaced.
    std::fs::copy(at.place.path("x.holdup"), at.place.path("y.holdup")).unwrap();
    std::fs::rename(at.place.path("y.holdup"), at.place.path("x.holdup")).unwrap();
    let (_, err) = at.expect(2, &["run", "--continue", "x.holdup.slurm"]);
    assert!(err.contains("x.holdup"), "{err}");
    std::fs::remove_file(at.place.path("x.holdup")).unwrap();
    at.expect(0, &["run", "--continue", "x.holdup.slurm"]);
    same_bytes(&at.place, "alone.holdup", "x.holdup");
}

fn a_session_that_was_cancelled_is_void_in_its_place_and_is_completed() {
    let at = Fixture::new(&[]);
    let child = at.start(&measured("3", "0.5", &["--out", "m.holdup", "--on", "slurm"]));
    wait_for("a trial of the first session", || at.trials_in_partial("m.holdup.slurm", 0) >= 1);
    let jobs = at.cluster.ask("squeue", &["-h", "-r", "-o", "%F_%K"]);
    at.cluster.ask("scancel", &[jobs.lines().find(|job| job.ends_with("_0")).unwrap()]);
    let (_, err) = at.ends(3, child);
    assert!(err.contains("4 of 12 trials are missing: part 0: its job was cancelled"), "{err}");
    at.expect(0, &["verify", "m.holdup"]);
    let cancelled = || {
        let (json, _) = at.expect(0, &["list", "trials", "m.holdup", "--json"]);
        let trials: serde_json::Value = serde_json::from_str(&json).unwrap();
        let trials = trials["members"].as_array().unwrap();
        trials.iter().map(|trial| trial.to_string().contains("its job was cancelled")).collect::<Vec<_>>()
    };
    // A busy machine voids others as well, and they are repeated.
    let missing = cancelled();
    assert!(missing.len() >= 12 && missing.iter().enumerate().all(|(at, missing)| *missing == (at < 4)), "{missing:?}");
    at.expect(0, &["run", "--continue", "m.holdup.slurm"]);
    assert!(!cancelled().contains(&true) && !at.place.path("m.holdup.slurm").exists());
    at.expect(0, &["verify", "m.holdup"]);
}

fn a_prediction_on_four_nodes_is_the_one_of_this_host_to_the_byte() {
    let at = Fixture::new(&[]);
    let plan = ["predict", "lock-contention", "--machine", "server-8", "--threads", "12", "--algorithm", "tas,ticket"];
    let design = ["--duration", "2ms", "--warmup", "1ms", "--draws", "4"];
    let with = |more: &[&'static str]| plan.iter().chain(&design).chain(more).copied().collect::<Vec<_>>();
    for more in [&[][..], &["--json"], &["--reach", "algorithm=ticket:0.5"]] {
        let (alone, _) = at.expect(0, &with(more));
        let (parts, err) = at.expect(0, &with(&[&["--on", "slurm:main", "--parts", "5"][..], more].concat()));
        assert!(err.contains("in 5 parts"), "{err}");
        assert_eq!(alone, parts);
    }
    let folder = "lock-contention.prediction.slurm";
    assert!(!at.place.path(folder).exists(), "the folder of a prediction that is through is removed");
    // One that is interrupted is continued, and is no run.
    let long = with(&["--on", "slurm", "--parts", "5", "--draws", "40", "--duration", "20ms"]);
    let alone = with(&["--draws", "40", "--duration", "20ms"]);
    let strip = |args: Vec<&'static str>| {
        // An option counts once.
        let mut args = args;
        for option in ["--duration", "--draws"] {
            let at = args.iter().position(|word| *word == option).unwrap();
            args.drain(at..at + 2);
        }
        args
    };
    let child = at.start(&strip(long));
    wait_for("a running part", || at.is_running(0).is_some());
    signal(&child, Signal::INT);
    let (_, err) = at.ends(4, child);
    assert!(err.contains("predict --continue"), "{err}");
    let (_, err) = at.expect(2, &["run", "--continue", folder]);
    assert!(err.contains("it is a prediction"), "{err}");
    let (parts, _) = at.expect(0, &["predict", "--continue", folder]);
    assert_eq!(at.expect(0, &strip(alone)).0, parts);
}

/// True if a process has a lock of flock(2) on a file (proc_locks(5)).
fn holds(child: &Child, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = std::fs::metadata(path) else { return false };
    let (pid, inode) = (child.id().to_string(), format!(":{}", file.ino()));
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.get(1) == Some(&"FLOCK")
            && words.get(4) == Some(&&*pid)
            && words.get(5).is_some_and(|id| id.ends_with(&inode))
    })
}

/// True if a second holdup is refused because one follows the run.
fn refused_second(at: &Fixture) -> bool {
    let output = at.command(&["run", "--continue", "x.holdup.slurm", "--quiet"]).output().unwrap();
    texts(&output).1.contains("another holdup follows this run")
}

fn jobs_that_an_administrator_cancels_are_an_error_and_the_run_is_continued() {
    let at = Fixture::new(&[]);
    let child = at.start(&long_simulation("40", &["--out", "x.holdup", "--on", "slurm", "--parts", "8"]));
    let whole = |number: &str| at.place.path("x.holdup.slurm/parts").join(format!("part-{number}.holdup"));
    wait_for("a whole part and a running one", || whole("0000").exists() && !at.cluster.tasks().is_empty());
    at.cluster.ask("scancel", &["--user=root"]);
    let (_, err) = at.ends(3, child);
    assert!(err.contains("was cancelled") && err.contains("what was done is kept"), "{err}");
    let kept = std::fs::metadata(whole("0000")).unwrap();
    // A damaged part is found when it is merged, and is run again.
    damage(&whole("0000"), kept.len());
    let (_, err) = at.expect(0, &["run", "--continue", "x.holdup.slurm"]);
    assert!(err.contains("part 0 is repeated") && err.contains("damaged"), "{err}");
    at.expect(0, &long_simulation("40", &["--out", "alone.holdup"]));
    same_bytes(&at.place, "alone.holdup", "x.holdup");
}

fn damage(path: &Path, size: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0xa5; 4096], size / 2).unwrap();
}

fn a_node_without_the_folder_is_an_error_that_says_so() {
    let at = Fixture::new(&["n1", "n2", "n3", "n4"]);
    let (_, err) = at.expect(3, &simulation("4", &["--out", "x.holdup", "--on", "slurm", "--parts", "2"]));
    assert!(err.contains("shared storage") && err.contains("does not see") && err.contains("--state DIR"), "{err}");
    assert!(!at.place.path("x.holdup").exists());
}

fn what_cannot_be_run_on_a_cluster_is_said_before_anything_is_submitted() {
    let at = Fixture::new(&[]);
    let refused = |code: i32, more: &[&'static str], says: &[&str]| {
        let (_, err) = at.expect(code, &simulation("2", more));
        assert!(says.iter().all(|word| err.contains(word)), "{says:?}: {err}");
    };
    refused(2, &["--on", "slurm:nowhere"], &["partition nowhere", "main, short"]);
    refused(2, &["--on", "slurm:short"], &["ends jobs after 1 min", "--slurm-option=--time=1"]);
    refused(2, &["--on", "kubernetes"], &["no such cluster"]);
    refused(2, &["--parts", "2"], &["add --on slurm"]);
    refused(3, &["--on", "slurm", "--slurm-option=--constraint=gpu"], &["sbatch", "feature"]);
    refused(
        2,
        &["--on", "slurm", "--set", "nodes.features=milan,gpu"],
        &["none of its 4 nodes", "feature gpu", "n1: 1 CPUs"],
    );
    refused(2, &["--on", "slurm", "--set", "nodes.cpus=3"], &["none of its 4 nodes has", "3 CPUs"]);
    refused(2, &["--on", "slurm", "--set", "nodes.arch=riscv9"], &["this holdup is for"]);
    refused(2, &["--stage"], &["add --on slurm"]);
    refused(2, &["--on", "slurm", "--stage-file", "x"], &["add --stage"]);
    refused(2, &["--on", "slurm", "--stage=here"], &["it is relative"]);
    refused(2, &["--on", "slurm", "--stage", "--stage-file", "/etc/hosts"], &["not beneath the folder"]);
    refused(2, &["--on", "slurm", "--stage", "--stage-file", "nothing"], &["no such file"]);
    let (_, err) = at.expect(2, &measured("2", "0", &["--on", "slurm", "--parts", "2"]));
    assert!(err.contains("between its sessions"), "{err}");
    let (_, err) = at.expect(2, &["run", "pgbench", "--pg", "postgres:///x", "--on", "slurm"]);
    assert!(err.contains("one server at the same time"), "{err}");
    let (_, err) = at.expect(2, &["run", "--continue", "nowhere", "--out", "x.holdup"]);
    assert!(err.contains("leave everything else out"), "{err}");
    let output = at.command(&simulation("2", &["--on", "slurm"])).env("PATH", "/nowhere").output().unwrap();
    assert!(texts(&output).1.contains("on the PATH"), "{:?}", texts(&output));
    assert_eq!(output.status.code(), Some(3));
    let (out, _) = at.expect(0, &simulation("2", &["--on", "slurm", "--dry-run"]));
    assert!(out.contains("sbatch --parsable --job-name=holdup-") && out.contains("--array=0-0"), "{out}");
    let asks = ["--set", "nodes.features=milan,nvme", "--set", "nodes.memory=1GB", "--set", "nodes.cpus=1"];
    let (out, _) = at.expect(0, &measured("2", "0", &[&["--on", "slurm", "--dry-run"][..], &asks].concat()));
    let options = ["--exclusive", "--mem=1024", "--mincpus=1", "--constraint=milan&nvme"];
    assert!(options.iter().all(|option| out.contains(option)), "{out}");
    assert!(at.cluster.tasks().is_empty(), "nothing was submitted");
}

fn a_time_limit_that_is_too_short_is_named() {
    let at = Fixture::new(&[]);
    let args = measured("1", "100", &["--out", "m.holdup", "--on", "slurm", "--slurm-option=--time=1"]);
    let (_, err) = at.expect(3, &args);
    assert!(err.contains("time limit") && err.contains("--slurm-option=--time="), "{err}");
}

holdup_testkit::tests!(
    alone:
    a_simulation_on_four_nodes_is_the_one_of_this_host_to_the_byte,
    what_cannot_be_run_on_a_cluster_is_said_before_anything_is_submitted;
    long:
    a_node_that_is_killed_loses_nothing_that_was_done,
    sessions_that_are_measured_run_on_nodes_of_their_own_and_say_which,
    a_session_that_was_requeued_is_repeated_whole_and_what_it_had_is_kept_as_void,
    an_interrupted_or_killed_run_is_continued,
    jobs_that_the_user_cancels_end_and_the_run_is_continued,
    jobs_that_an_administrator_cancels_are_an_error_and_the_run_is_continued,
    a_node_without_the_folder_is_an_error_that_says_so,
    what_a_plan_needs_of_nodes_chooses_them,
    jobs_bring_what_they_need_to_nodes_that_share_nothing,
    what_is_measured_on_nodes_that_share_nothing_comes_back_and_has_its_files,
    a_node_without_a_folder_for_what_is_brought_is_named,
    parts_that_are_missing_for_good_leave_a_bundle_that_says_so_and_is_completed,
    a_session_that_was_cancelled_is_void_in_its_place_and_is_completed,
    a_prediction_on_four_nodes_is_the_one_of_this_host_to_the_byte,
    a_time_limit_that_is_too_short_is_named,
    what_was_brought_is_fetched_after_an_interruption_and_a_killed_node_is_replaced
);
