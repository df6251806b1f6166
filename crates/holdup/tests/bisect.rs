//! `holdup bisect` over repositories that the tests make.

use crate::common;
use common::{Sandbox, is_root, refused, signal, wait_for};
use holdup_testkit::{ignore, ignore_part};
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A program that takes CPU time in proportion to a number.
fn busy(rounds: u32) -> String {
    format!("#!/bin/sh\nexec awk 'BEGIN {{ for (i = 0; i < {rounds}; i++) s += i * i }}'\n")
}

/// A program that prints a cost, with noise of about 1 % from the trial's seed.
pub(crate) fn noisy(cost: f64) -> String {
    format!(
        "#!/bin/sh\nawk -v s=\"$HOLDUP_SEED\" 'BEGIN {{ srand(s % 1000003); r = rand() + rand() + rand(); \
         printf \"cost=%.6f\\n\", {cost} * (1 + 0.02 * (r - 1.5)) }}'\n"
    )
}

const COST: [&str; 2] = ["--metric", "cost=regex:cost=([0-9.]+):lower"];

/// A repository in `r` with a commit for each number; `of` gives its program and whether it builds.
pub(crate) fn repository(place: &Sandbox, commits: usize, of: impl Fn(usize) -> (String, bool)) {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(place.path("")).args(args).stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    assert!(git(&["init", "-q", "-b", "main", "r"]).wait().unwrap().success());
    let mut stream = String::new();
    for i in 0..commits {
        let (program, builds) = of(i);
        let build = if builds { "exit 0\n" } else { "echo 'bench.c:1: error: it does not compile' >&2; exit 1\n" };
        let who = format!("A U Thor <a@example.org> {} +0000", 1_700_000_000 + i * 60);
        let message = format!("change {i}");
        writeln!(stream, "commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {}\n{message}", message.len())
            .unwrap();
        // Each commit adds another file, so that any of them reverts cleanly.
        let (own, text) = (format!("n{i}"), i.to_string());
        for (mode, name, text) in [("755", "bench", program.as_str()), ("755", "build", build), ("644", &own, &text)] {
            writeln!(stream, "M 100{mode} inline {name}\ndata {}\n{text}", text.len()).unwrap();
        }
    }
    let mut import = git(&["-C", "r", "fast-import", "--quiet"]);
    import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
    assert!(git(&["-C", "r", "tag", "good", &format!("main~{}", commits - 1)]).wait().unwrap().success());
}

/// Arguments of a search from the first commit to the last.
fn search<'a>(range: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let head = ["bisect", "command", "--git", "r", "--range", range, "--build", "sh ./build", "--collect", "none"];
    head.iter().chain(more).copied().chain(["--", "./bench"]).collect()
}

/// A loop that keeps a CPU busy.
struct Load(Child);

impl Load {
    fn start() -> Load {
        Load(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn a_commit_that_slows_a_program_is_found_under_load() {
    let place = Sandbox::new();
    repository(&place, 60, |i| (busy(if i < 37 { 300_000 } else { 450_000 }), true));
    let _load = Load::start();
    let (out, err) = place.expect(1, &search("good..main", &["--metric", "user_s"]));
    assert!(out.contains("change 37 (2023-11-14T22:50:20"), "{out}\n{err}");
    let first = out.lines().next().unwrap();
    assert!(first.contains(" raises user_s by ") && first.ends_with("which is worse."), "{out}");
    assert!(
        out.contains(" fresh, interleaved blocks:") && out.contains("the bad end without it over the bad end:"),
        "{out}"
    );
    let screen = |text: &str| text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80);
    assert!(screen(&out), "{out}");
    let (log, _) = place.expect(0, &["bisect", "log"]);
    assert!(log.lines().next().unwrap().contains("raises user_s"), "{log}");
    assert!(log.lines().count() <= 24, "{log}");
    // Nothing is left in the user's repository.
    let listed =
        Command::new("git").args(["-C", "r", "worktree", "list"]).current_dir(place.path("")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 1);
    assert!(!place.path("bisect-1/trees").exists());
}

fn a_range_without_a_change_has_none() {
    let place = Sandbox::new();
    repository(&place, 60, |_| (noisy(100.0), true));
    let (out, _) = place.expect(0, &search("good..main", &COST));
    assert!(out.starts_with("No change: cost is the same from "), "{out}");
}

fn ends_that_are_swapped_are_said_to_be() {
    let place = Sandbox::new();
    repository(&place, 40, |i| (noisy(if i < 20 { 110.0 } else { 100.0 }), true));
    refused(&place, 2, &search("good..main", &COST), &["% lower at its end, which is better", "--look-for better"]);
    let better = [&COST[..], &["--look-for", "better"]].concat();
    let (out, _) = place.expect(1, &search("good..main", &better));
    assert!(out.contains("change 20") && out.contains("which is better."), "{out}");
    refused(&place, 2, &search("main..good", &COST), &["no ancestor", "turn the range round"]);
}

fn commits_that_do_not_build_or_run_are_skipped_and_stay_suspects() {
    let place = Sandbox::new();
    repository(&place, 60, |i| {
        let program = noisy(if i < 30 { 100.0 } else { 110.0 });
        // 29 and 30 cannot be measured, one because of its build, one because of its program.
        (
            if i == 30 { "#!/bin/sh\nexit 3\n".to_owned() } else { program },
            i % 7 == 0 || i % 7 == 3 || i == 30 || i == 59,
        )
    });
    let (out, err) = place.expect(1, &search("good..main", &COST));
    assert!(out.starts_with("one of ") && err.contains("is skipped"), "{out}\n{err}");
    for suspect in [29, 30, 31] {
        assert!(out.contains(&format!("change {suspect} ")), "{out}");
    }
}

fn likely_candidates_are_built_while_trials_run() {
    let place = Sandbox::new();
    // The tests beside this one may have any niceness but the lowest.
    repository(&place, 60, |i| {
        let program = format!("{}sleep 0.3\n", noisy(if i < 41 { 100.0 } else { 120.0 }));
        (program, i % 7 != 2)
    });
    let build = "nice >>../../niceness-of-builds; sh ./build";
    let (out, err) = place.expect(1, &{
        let mut arguments = search("good..main", &["--build-ahead", COST[0], COST[1]]);
        let at = arguments.iter().position(|a| *a == "sh ./build").unwrap();
        arguments[at] = build;
        arguments
    });
    assert!(out.contains("change 41 "), "{out}\n{err}");
    let niceness = std::fs::read_to_string(place.path("bisect-1/niceness-of-builds")).unwrap();
    assert!(niceness.lines().any(|line| line == "19") && niceness.lines().any(|line| line != "19"), "{niceness}");
    assert!(!place.path("bisect-1/trees").exists(), "nothing builds any more");
}

fn a_search_that_was_killed_goes_on_where_it_was() {
    let place = Sandbox::new();
    repository(&place, 200, |i| (format!("{}sleep 0.05\n", noisy(if i < 41 { 100.0 } else { 103.0 })), true));
    let mut child = place.start(&search("good..main", &COST));
    let log = place.path("bisect-1/search.log");
    let lines = || std::fs::read_to_string(&log).map_or(0, |text| text.matches("\"trial\"").count());
    wait_for("ten trials", || lines() >= 10);
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    let before = lines();
    let (out, _) = place.expect(1, &["bisect", "--continue"]);
    assert!(out.contains("change 41 "), "{out}");
    assert!(lines() > before, "the trials from before count");
    place.expect(0, &["bisect", "log", "--html", "page.html"]);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains(&format!("<h1>{} raises cost by ", out.split(' ').next().unwrap())), "{page}");
    assert!(page.matches("class=\"point\"").count() == lines(), "a point for each trial");
    // It has its answer now.
    assert_eq!(place.expect(1, &["bisect", "--continue", "bisect-1"]).0, out);
}

fn git_bisect_run_ends_at_the_first_bad_commit() {
    let place = Sandbox::new();
    repository(&place, 30, |i| (noisy(if i < 17 { 100.0 } else { 110.0 }), i != 12));
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(place.path("r")).env("HOLDUP_STATE_DIR", place.path("state")).args(args);
        command.output().unwrap()
    };
    assert!(git(&["reset", "-q", "--hard"]).status.success());
    assert!(git(&["bisect", "start", "main", "good"]).status.success());
    let holdup = env!("CARGO_BIN_EXE_holdup");
    let output = git(&[
        "bisect",
        "run",
        holdup,
        "bisect",
        "step",
        "--build",
        "sh ./build",
        "--collect",
        "none",
        COST[0],
        COST[1],
        "command",
        "--",
        "./bench",
    ]);
    let (out, err) = common::texts(&output);
    assert!(out.contains("is the first bad commit") && out.contains("change 17"), "{out}\n{err}");
}

fn what_a_collector_counts_is_a_metric() {
    let place = Sandbox::new();
    let sleeps = |n: u32| format!("#!/bin/sh\ni=0; while [ $i -lt {n} ]; do sleep 0.001; i=$((i+1)); done\n");
    repository(&place, 24, |i| (sleeps(if i < 11 { 8 } else { 16 }), true));
    let (collectors, _) = place.expect(0, &["list", "collectors"]);
    let line = collectors.lines().find(|line| line.trim_start().starts_with("switches ")).unwrap_or_default();
    let metric = if is_root() && !line.contains("unavailable") {
        "switched_out_asleep"
    } else {
        ignore_part("the collector switches needs root, and a kernel with BTF");
        "voluntary_switches"
    };
    let of = |metric| {
        [
            "bisect",
            "command",
            "--git",
            "r",
            "--range",
            "good..main",
            "--metric",
            metric,
            "--blocks",
            "6",
            "--",
            "./bench",
        ]
    };
    let (out, _) = place.expect(1, &of(metric));
    let first = out.lines().next().unwrap();
    assert!(first.contains(&format!(" raises {metric} by ")) && out.contains("change 11 ("), "{out}");
    refused(&place, 2, &of("nonsense"), &["metric nonsense", "switched_out_in_kernel"]);
}

fn a_threshold_in_a_number_is_found() {
    let place = Sandbox::new();
    // On the simulated server the throughput of a lock falls where threads exceed its eight CPUs.
    let of = |values| {
        let head = ["bisect", "lock-contention", "--target", "sim:server-8", "--algorithm", "ticket"];
        let tail = ["--duration", "5ms", "--warmup", "0s", "--values", values];
        [&head[..], &tail].concat()
    };
    let (out, _) = place.expect(1, &of("threads=2..40"));
    assert!(out.contains("which is worse.") && out.contains("of 39 candidates"), "{out}");
    let (out, _) =
        place.expect(1, &[&of("threads=2..40")[..], &["--metric", "switched_out_at_user_boundary"]].concat());
    assert!(out.contains(" raises switched_out_at_user_boundary by "), "{out}");
    let missing = [&of("threads=2..9")[..], &["--metric", "voluntary_switches"]].concat();
    refused(&place, 3, &missing, &["metric voluntary_switches", "a simulated machine does not have it"]);
    let (out, _) = place.expect(1, &of("algorithm=mcs,clh,ticket"));
    assert!(out.starts_with("ticket ") && out.contains("of 3 candidates"), "{out}");
    refused(&place, 2, &of("threads=7,7"), &["neither KEY=A..B"]);
    refused(&place, 2, &of("algorithm=mcs,nonsense,tas"), &["nonsense: it is not one of its words"]);
    let unknown = [&of("threads=2..9")[..], &["--metric", "nonsense"]].concat();
    refused(&place, 2, &unknown, &["metric nonsense", "operations_per_s", "switched_out_in_kernel"]);
    refused(&place, 2, &of("threads=7"), &["neither KEY=A..B"]);
    let ahead = [&of("threads=2..9")[..], &["--build-ahead"]].concat();
    refused(&place, 2, &ahead, &["--build-ahead: nothing is built", "it is for --git and --kernels"]);
    refused(&place, 2, &["bisect", "command", "--", "true"], &["the candidates are missing", "--git DIR"]);
}

fn what_cannot_be_searched_is_said_before_anything_runs() {
    let place = Sandbox::new();
    repository(&place, 3, |_| (noisy(100.0), true));
    refused(&place, 2, &["bisect", "log"], &["no search"]);
    refused(&place, 2, &search("good..nowhere", &COST), &["commit nowhere", "none of this name"]);
    refused(&place, 2, &search("good", &COST), &["it is not GOOD..BAD", "for example"]);
    refused(&place, 2, &search("main..main", &COST), &["both ends are the same commit"]);
    let metric = ["--metric", "latency_p99_us"];
    refused(&place, 2, &search("good..main", &metric), &["latency_p99_us"]);
    let kernels = ["bisect", "pgbench", "--target", "qemu", "--git", "r", "--range", "good..main", "--kernel-commits"];
    refused(&place, 3, &kernels, &["the good end ", "kernel source ", "Makefile"]);
    let absent = ["--metric", "speed=regex:speed=([0-9.]+):higher"];
    refused(&place, 3, &search("good..main", &absent), &["the good end ", "both ends of the range must build and run"]);
    refused(&place, 2, &search("good..main", &["--vary", "timeout=1s,2s"]), &["varies its candidates"]);
}

/// Finding C1 of the attacks: a log's first line is a command line, and `--continue` carries it out.
fn the_search_of_another_user_is_not_carried_out() {
    if !is_root() {
        ignore("only root can give a folder away");
    }
    let place = Sandbox::new();
    let counted = format!("#!/bin/sh\necho >>{}\necho cost=1\n", place.path("ran").display());
    repository(&place, 3, |_| (counted.clone(), true));
    place.expect(0, &search("good..main", &COST));
    let ran = || std::fs::read_to_string(place.path("ran")).unwrap().len();
    let before = ran();
    let log = std::fs::read_to_string(place.path("bisect-1/search.log")).unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(&place.path("."), 0o1777);
    let (theirs, planted) = (place.path("bisect-2"), place.path("bisect-2/search.log"));
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(&planted, format!("{}\n", log.lines().next().unwrap())).unwrap();
    let refuses = |folder: &str, why: &str| {
        refused(&place, 2, &["bisect", "--continue", folder], &["it is not continued", why, "hint: it was begun in"]);
    };
    [&planted, &theirs].into_iter().for_each(|path| chown(path, Some(54_321), None).unwrap());
    refuses("bisect-2", "it belongs to the user with id 54321");
    // The newest search here is passed over.
    let (answer, _) = place.expect(0, &["bisect", "--continue"]);
    assert!(answer.starts_with("No change: "), "{answer}");
    // A folder of ours with a log of theirs, and one that they could replace.
    chown(&theirs, Some(0), None).unwrap();
    refuses("bisect-2", "it belongs to the user with id 54321");
    chown(&planted, Some(0), None).unwrap();
    mode(&planted, 0o666);
    refuses("bisect-2", "other users may write it (mode 0666)");
    mode(&planted, 0o644);
    mode(&place.path("."), 0o777);
    refuses("bisect-2", "every user may replace what is in");
    assert_eq!(ran(), before, "no line of it ran");
}

holdup_testkit::tests!(
    what_cannot_be_searched_is_said_before_anything_runs;
    alone:
    the_search_of_another_user_is_not_carried_out;
    truth:
    a_commit_that_slows_a_program_is_found_under_load,
    a_range_without_a_change_has_none,
    ends_that_are_swapped_are_said_to_be,
    commits_that_do_not_build_or_run_are_skipped_and_stay_suspects,
    a_search_that_was_killed_goes_on_where_it_was,
    git_bisect_run_ends_at_the_first_bad_commit,
    what_a_collector_counts_is_a_metric,
    a_threshold_in_a_number_is_found;
    long:
    likely_candidates_are_built_while_trials_run
);
