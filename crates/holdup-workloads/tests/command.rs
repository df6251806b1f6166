//! `command` with real programs.

use holdup_host::Host;
use holdup_load::{
    Cancel, PostgresOptions, PrepareContext, Prepared, TrialContext, TrialResult, WindowHooks, Workload,
};
use holdup_model::plan::{Extract, MetricChoice};
use holdup_model::{Measured, Parameters, Problem, ProblemKind, Value, Window};
use holdup_workloads::find;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Hooks {
    begin: Option<Instant>,
    subjects: Vec<(String, u32)>,
    refuse: bool,
    closed: bool,
    cancel: Option<Cancel>,
}

impl WindowHooks for Hooks {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        if self.refuse {
            return Err(Problem::trial("collectors", "they cannot start"));
        }
        self.subjects = subjects.to_vec();
        self.begin = Some(Instant::now());
        if let Some(cancel) = self.cancel.clone() {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                cancel.cancel();
            });
        }
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        self.closed = true;
        for (_, pid) in &self.subjects {
            assert!(Path::new(&format!("/proc/{pid}/stat")).exists(), "collectors can still read its accounts");
        }
        let begin = self.begin.expect("open comes first");
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: begin.elapsed().as_nanos() as u64 })
    }
}

fn command() -> &'static dyn Workload {
    find("command").expect("it is in the catalogue")
}

fn parameters(command: &[&str], others: &[(&str, Value)]) -> Parameters {
    let mut parameters = holdup_catalogue::command::Parameters::defaults(2);
    parameters.set("command", serde_json::to_string(command).expect("texts").as_str());
    parameters.set("expect_exit", 0);
    for (name, value) in others {
        parameters.set(name, value.clone());
    }
    parameters
}

fn choice(id: &str, primary: bool, from: Extract) -> MetricChoice {
    MetricChoice { id: id.into(), workload: None, primary, better: None, unit: None, margin: 0.02, from: Some(from) }
}

fn regex(id: &str, primary: bool, regex: &str) -> MetricChoice {
    choice(id, primary, Extract::Regex(regex.to_owned()))
}

fn session(parameters: &Parameters, metrics: &[MetricChoice]) -> Result<Box<dyn Prepared>, Problem> {
    command().prepare(PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters,
        combinations: std::slice::from_ref(parameters),
        metrics,
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    })
}

fn run_with(parameters: &Parameters, metrics: &[MetricChoice], hooks: &mut Hooks) -> Result<TrialResult, Problem> {
    let cancel = hooks.cancel.clone().unwrap_or_default();
    let result = session(parameters, metrics)?.run(TrialContext {
        parameters,
        warmup_ns: 1_500_000_000,
        duration_ns: 2_000_000_000,
        seed: 42,
        cancel,
        enough: holdup_load::Cancel::default(),
        window: hooks,
    });
    assert_eq!(hooks.closed, hooks.begin.is_some() && hooks.closed, "a window is closed only after it was opened");
    if let Ok(result) = &result {
        let measured: Vec<_> = result.measurements.iter().map(|m| m.metric.clone()).collect();
        let declared: Vec<_> = command().metrics(metrics).into_iter().map(|m| m.id).collect();
        assert_eq!(measured, declared, "every metric is measured or absent with a reason");
    }
    result
}

fn run(command: &[&str], metrics: &[MetricChoice]) -> Result<TrialResult, Problem> {
    run_with(&parameters(command, &[]), metrics, &mut Hooks::default())
}

fn value(result: &TrialResult, id: &str) -> Measured {
    result.measurements.iter().find(|m| m.metric == id).expect("every metric is there").value.clone()
}

fn number(result: &TrialResult, id: &str) -> f64 {
    value(result, id).value().unwrap_or_else(|| panic!("{id}: {:?}", value(result, id)))
}

/// True if a process is there, zombies aside.
fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Waits for what the kernel does soon but not immediately: a killed process is gone.
fn gone(pid: u32) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !alive(pid)
    })
}

fn a_program_runs_in_its_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("bench");
    std::fs::write(&program, "#!/bin/sh\npwd | grep -c holdup-here\n").expect("a file");
    let here = folder.path().join("holdup-here");
    std::fs::create_dir(&here).expect("a folder");
    std::fs::copy(&program, here.join("bench")).expect("a copy");
    std::fs::set_permissions(here.join("bench"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let found = regex("found", true, "([0-9]+)");
    let run_in = |folder: &Path| {
        let at = [("directory", Value::from(folder.display().to_string().as_str()))];
        run_with(&parameters(&["./bench"], &at), std::slice::from_ref(&found), &mut Hooks::default())
    };
    assert_eq!(number(&run_in(&here).expect("runs"), "found"), 1.0);
    assert!(run_in(&folder.path().join("nowhere")).unwrap_err().to_string().contains("nowhere"));
}

fn without_metrics_the_duration_is_measured() {
    let result = run(&["sleep", "0.05"], &[]).expect("runs");
    assert!(number(&result, "duration_s") >= 0.05);
    assert_eq!(command().primary_metric(), Some("duration_s"));
    assert_eq!(result.notes, ["the warm-up does not apply: no argument of the program has {warmup_s}"]);
    let ids: Vec<_> = command().metrics(&[]).into_iter().map(|m| m.id).collect();
    let expect = ["duration_s", "user_s", "system_s", "max_rss_bytes", "voluntary_switches", "involuntary_switches"];
    assert_eq!(ids, expect);
}

fn metrics_come_from_the_output() {
    let metrics = [
        regex("tps", true, "tps = ([0-9.]+)"),
        regex("errors", false, "errors: ([0-9]+)"),
        regex("retries", false, "retries: ([0-9]+)"),
        choice("time_s", false, Extract::Duration),
    ];
    let script = "echo 'tps = 1'; echo 'errors: 3' >&2; echo 'tps = 12.5'";
    let result = run(&["sh", "-c", script], &metrics).expect("runs");
    assert_eq!((number(&result, "tps"), number(&result, "errors")), (12.5, 3.0));
    assert_eq!(number(&result, "time_s"), number(&result, "duration_s"));
    let absent = Measured::Absent("nothing in its output matches `retries: ([0-9]+)`".to_owned());
    assert_eq!(value(&result, "retries"), absent);
    let units: Vec<_> = command().metrics(&metrics).into_iter().map(|m| (m.id, m.unit)).take(4).collect();
    assert_eq!(units.last(), Some(&("time_s".to_owned(), "s".to_owned())));
}

fn metrics_come_from_json() {
    let metrics = [choice("iops", true, Extract::Json("/jobs/0/iops".to_owned()))];
    let result = run(&["printf", r#"{"jobs":[{"iops": 7e3}]}"#], &metrics).expect("runs");
    assert_eq!(number(&result, "iops"), 7000.0);
}

fn a_primary_metric_that_is_not_found_voids_the_trial() {
    let problem = run(&["echo", "nothing to see"], &[regex("tps", true, "tps = (.*)")]).expect_err("not found");
    assert_eq!(problem.kind, ProblemKind::Trial);
    assert_eq!(
        problem.to_string(),
        "primary metric tps: nothing in its output matches `tps = (.*)`\nhint: its stdout ends with: nothing to see"
    );
}

fn a_program_that_ends_badly_voids_the_trial() {
    let check = |arguments: &[&str], others: &[(&str, Value)], expect: &str| {
        let mut hooks = Hooks::default();
        let problem = run_with(&parameters(arguments, others), &[], &mut hooks).expect_err("it ends badly");
        assert_eq!((problem.kind, problem.to_string().as_str()), (ProblemKind::Trial, expect));
        assert!(hooks.closed);
    };
    check(&["false"], &[], "command false: it ended with exit code 1, 0 was expected; it output nothing");
    check(
        &["true"],
        &[("expect_exit", 3.into())],
        "command true: it ended with exit code 0, 3 was expected; it output nothing",
    );
    check(
        &["sh", "-c", "echo out; echo one >&2; echo two >&2; exit 9"],
        &[],
        "command sh: it ended with exit code 9, 0 was expected; its stderr ends with: one | two",
    );
    check(
        &["sh", "-c", "echo out; kill -9 $$"],
        &[],
        "command sh: it was killed by signal 9; its stdout ends with: out",
    );
    check(
        &["sleep", "1000"],
        &[("timeout", 50_000_000.into())],
        "command sleep: it ran into the timeout of 0.05 s; it output nothing",
    );
    run_with(&parameters(&["sh", "-c", "exit 3"], &[("expect_exit", 3.into())]), &[], &mut Hooks::default())
        .expect("3 was expected");
}

fn a_program_that_does_not_exist_is_a_usage_problem_before_any_trial() {
    for (program, why) in [
        ("holdup-no-such-program", "there is no such program on the PATH"),
        ("/no/such/file", "there is no such file"),
        ("/etc/passwd", "it is not executable"),
    ] {
        let problem = session(&parameters(&[program], &[]), &[]).err().expect("it cannot be run");
        assert_eq!((problem.kind, problem.why.as_str()), (ProblemKind::Usage, why));
    }
    let problem = session(&parameters(&["true"], &[("timeout", 0.into())]), &[]).err().expect("no time");
    assert_eq!(problem.to_string(), "timeout 0: it must be 1ns or more");
}

fn a_program_that_vanishes_or_cannot_be_executed_voids_the_trial() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("script");
    std::fs::write(&file, "echo no first line\n").expect("written");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let name = file.to_str().expect("UTF-8");
    let problem = run(&[name], &[]).expect_err("the kernel does not know what it is");
    assert_eq!(problem.kind, ProblemKind::Trial);
    assert!(problem.why.starts_with("it cannot be executed: Exec format error"), "{problem}");
    assert_eq!(problem.hint.as_deref(), Some("a script needs a first line such as #!/bin/sh"));

    let parameters = parameters(&[name], &[]);
    let mut session = session(&parameters, &[]).expect("it is there");
    let before = session.facts();
    assert!(before[0].steady && before[0].value.as_deref().is_some_and(|v| v.starts_with("19 bytes, changed ")));
    std::fs::remove_file(&file).expect("removed");
    assert!(session.facts()[0].value.is_none());
    let trial = TrialContext {
        parameters: &parameters,
        warmup_ns: 0,
        duration_ns: 1,
        seed: 1,
        cancel: Cancel::default(),
        enough: holdup_load::Cancel::default(),
        window: &mut Hooks::default(),
    };
    let problem = session.run(trial).expect_err("it is gone");
    assert_eq!((problem.kind, problem.why.as_str()), (ProblemKind::Trial, "there is no such file"));
}

fn the_program_is_given_times_and_seed_and_is_the_subject() {
    let script = "echo window=$1 warmup=$2 seed=$3/$HOLDUP_SEED pid=$$ braces='{x}'; cat";
    let metrics = [
        regex("window", true, "window=(2) warmup=1.5 seed=42/42"),
        regex("pid", false, "pid=([0-9]+)"),
        regex("braces", false, r"braces=\{x\}()"),
    ];
    let mut hooks = Hooks::default();
    let parameters = parameters(&["sh", "-c", script, "sh", "{window_s}", "{warmup_s}", "{seed}"], &[]);
    let result = run_with(&parameters, &metrics, &mut hooks).expect("stdin is empty, so cat ends");
    assert_eq!(number(&result, "window"), 2.0);
    assert_eq!(hooks.subjects, [("load".to_owned(), number(&result, "pid") as u32)]);
    assert_eq!(value(&result, "braces"), Measured::Absent("`` is not a number".to_owned()));
    assert!(result.notes.is_empty(), "{:?}", result.notes);
}

fn huge_output_flows_and_its_end_is_kept() {
    let script = "yes 'tps = 1' | head -c 300000000; echo; echo 'tps = 7'; yes noise | head -c 300000000 >&2";
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("there");
        let line = status.lines().find(|l| l.starts_with("VmHWM")).expect("there");
        line.split_whitespace().nth(1).expect("kB").parse::<u64>().expect("a number")
    };
    let before = resident();
    let result = run(&["sh", "-c", script], &[regex("tps", true, "tps = ([0-9]+)")]).expect("runs");
    assert_eq!(number(&result, "tps"), 7.0);
    let grown = resident() - before;
    // What other tests of this process do meanwhile is in it too; 600 MB went by.
    assert!(grown < 64 << 10, "{grown} kB more");
    assert!(number(&result, "user_s") + number(&result, "system_s") > 0.0);
}

fn what_the_program_leaves_behind_is_ended() {
    let script = "sleep 1000 & echo pid=$!";
    let result = run(&["sh", "-c", script], &[regex("pid", true, "pid=([0-9]+)")]).expect("runs");
    assert!(gone(number(&result, "pid") as u32));
    let note = "1 processes of its group still ran when the program had ended, and were ended";
    assert!(result.notes.iter().any(|n| n == note), "{:?}", result.notes);
}

/// A program whose child, and which itself, does not care for SIGTERM.
fn stubborn(file: &Path) -> String {
    format!("trap '' TERM; sleep 1000 & echo $! $$ > {}; while :; do sleep 0.05; done", file.display())
}

fn pids(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).expect("the program has written it");
    text.split_whitespace().map(|p| p.parse().expect("a pid")).collect()
}

fn a_timeout_or_a_cancel_ends_the_whole_group_even_against_its_will() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, timeout, kind) in
        [("timeout", Some(300_000_000), ProblemKind::Trial), ("cancel", None, ProblemKind::Interrupted)]
    {
        let file = folder.path().join(name);
        let mut parameters = parameters(&["sh", "-c", &stubborn(&file)], &[]);
        let mut hooks = Hooks::default();
        match timeout {
            Some(ns) => parameters.set("timeout", ns),
            None => hooks.cancel = Some(Cancel::default()),
        }
        let problem = run_with(&parameters, &[], &mut hooks).expect_err("it would run for ever");
        assert_eq!(problem.kind, kind, "{problem}");
        assert!(hooks.closed);
        let pids = pids(&file);
        assert_eq!(pids.len(), 2);
        assert!(pids.iter().all(|pid| gone(*pid)), "{name}");
    }
}

fn a_window_that_does_not_open_keeps_the_program_from_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("it-ran");
    let mut hooks = Hooks { refuse: true, ..Hooks::default() };
    let parameters = parameters(&["touch", file.to_str().expect("UTF-8")], &[]);
    let problem = run_with(&parameters, &[], &mut hooks).expect_err("collectors cannot start");
    assert_eq!(problem.what, "collectors");
    assert!(!file.exists());
}

const INNER: &str = "HOLDUP_TEST_OF_DEATH";

/// Only for the test below, which runs this test alone in another process and kills that.
fn inner_process_that_is_killed() {
    let Ok(what) = std::env::var(INNER) else { return };
    let (workload, parameters) = match what.as_str() {
        "command" => (command(), parameters(&["sh", "-c", "sleep 1000 & sleep 1000 & wait"], &[])),
        _ => {
            let mut parameters = holdup_catalogue::lock_contention::Parameters::defaults(3);
            parameters.set("sharing", "processes");
            (find("lock-contention").expect("it is in the catalogue"), parameters)
        }
    };
    let context = PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters: &parameters,
        combinations: std::slice::from_ref(&parameters),
        metrics: &[],
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    };
    let trial = TrialContext {
        parameters: &parameters,
        warmup_ns: 0,
        duration_ns: 1_000_000_000_000,
        seed: 1,
        cancel: Cancel::default(),
        enough: holdup_load::Cancel::default(),
        window: &mut Hooks::default(),
    };
    let result = workload.prepare(context).expect("prepares").run(trial);
    panic!("it should have been killed: {:?}", result.map(|_| ()));
}

/// The children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let text: String = threads
        .filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("children")).ok())
        .collect::<Vec<_>>()
        .join(" ");
    text.split_whitespace().map(|p| p.parse().expect("a pid")).collect()
}

fn nothing_outlives_a_holdup_that_is_killed() {
    for (what, processes) in [("command", 1), ("lock-contention", 3)] {
        let mut inner = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--include-ignored", "--exact", "command::inner_process_that_is_killed", "--nocapture"])
            .env(INNER, what)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("starts");
        let pid = inner.id();
        while children(pid).len() < processes {
            assert!(inner.try_wait().expect("ours").is_none(), "{what}: it has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        let orphans = children(pid);
        kill_process(Pid::from_raw(pid as i32).expect("not 0"), Signal::KILL).expect("it is ours");
        inner.wait().expect("ours");
        assert!(orphans.iter().all(|pid| gone(*pid)), "{what}");
    }
}

/// A program in C that takes a mutex and waits on a condition, which the C compiler of the build makes.
fn locking_program(folder: &Path, name: &str, flags: &[&str]) -> Option<String> {
    let (source, out) = (folder.join("locks.c"), folder.join(name));
    let text = "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
                static pthread_cond_t c = PTHREAD_COND_INITIALIZER;\nstatic pthread_rwlock_t r = PTHREAD_RWLOCK_INITIALIZER;\n\
                int main(void) { pthread_rwlock_rdlock(&r); pthread_mutex_lock(&m); pthread_cond_signal(&c); \
                return pthread_mutex_unlock(&m); }\n";
    std::fs::write(&source, text).expect("a folder of the test");
    let cc = std::process::Command::new("cc").arg(&source).arg("-o").arg(&out).arg("-pthread").args(flags).output();
    let cc = cc.expect("the build needs cc");
    cc.status.success().then(|| out.to_string_lossy().into_owned())
}

/// The note that a trial has with holdfast in front of the C library; without it there is none.
fn note_of_holdfast(command: &[&str]) -> String {
    let off = run(command, &[]).expect("the program works");
    assert!(!off.notes.iter().any(|note| note.contains("holdfast")), "{:?}", off.notes);
    let preload = parameters(command, &[("holdfast", "preload".into())]);
    let result = run_with(&preload, &[], &mut Hooks::default()).expect("the program works with the library");
    let notes: Vec<_> = result.notes.iter().filter(|note| note.starts_with("holdfast")).collect();
    assert_eq!(notes.len(), 1, "{:?}", result.notes);
    notes[0].clone()
}

fn folders_of_holdfast() -> usize {
    let entries = std::fs::read_dir(std::env::temp_dir()).expect("the folder of this session");
    let own = format!("holdup-holdfast-{}-", std::process::id());
    entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
}

fn holdfast_serves_the_locks_of_a_program_and_of_those_that_a_script_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = locking_program(folder.path(), "locks", &[]).expect("a C program");
    let served = "holdfast served 1 mutex and 1 condition of 1 process; 1 lock went to the C library: read-write locks that prefer \
                  readers";
    assert_eq!(note_of_holdfast(&[&program]), served);
    let script = format!("{program}; {program} & wait; exec {program}");
    let served = "holdfast served 3 mutexes and 3 conditions of 3 processes; 3 locks went to the C library: read-write locks that \
                  prefer readers";
    assert_eq!(note_of_holdfast(&["sh", "-c", &script]), served);
    assert_eq!(folders_of_holdfast(), 0, "the library is removed after the trial");
}

fn holdfast_without_effect_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let note = note_of_holdfast(&["/bin/true"]);
    assert!(note.starts_with("holdfast had no effect: 1 process loaded it, and none used a lock"), "{note}");
    let program = locking_program(folder.path(), "static", &["-static"]).expect("libc6-dev has the static library");
    let note = note_of_holdfast(&[&program]);
    assert_eq!(note, "holdfast had no effect: no process of this command loaded it (it is statically linked)");
}

fn a_program_that_fails_with_holdfast_leaves_no_library() {
    let preload = parameters(&["/bin/false"], &[("holdfast", "preload".into())]);
    let problem = run_with(&preload, &[], &mut Hooks::default()).expect_err("it ends with 1");
    assert_eq!(problem.kind, ProblemKind::Trial);
    assert_eq!(folders_of_holdfast(), 0);
}

holdup_testkit::tests!(
    a_program_runs_in_its_directory,
    without_metrics_the_duration_is_measured,
    metrics_come_from_the_output,
    metrics_come_from_json,
    a_primary_metric_that_is_not_found_voids_the_trial,
    a_program_that_ends_badly_voids_the_trial,
    a_program_that_does_not_exist_is_a_usage_problem_before_any_trial,
    a_program_that_vanishes_or_cannot_be_executed_voids_the_trial,
    the_program_is_given_times_and_seed_and_is_the_subject,
    huge_output_flows_and_its_end_is_kept,
    what_the_program_leaves_behind_is_ended,
    a_timeout_or_a_cancel_ends_the_whole_group_even_against_its_will,
    a_window_that_does_not_open_keeps_the_program_from_running,
    nothing_outlives_a_holdup_that_is_killed,
    holdfast_serves_the_locks_of_a_program_and_of_those_that_a_script_starts,
    holdfast_without_effect_says_why,
    a_program_that_fails_with_holdfast_leaves_no_library;
    by_hand:
    inner_process_that_is_killed
);
