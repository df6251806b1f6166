//! `lock-contention` with real threads and real processes on this machine.

use holdup_catalogue::lock_contention;
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, Prepared, TrialContext, TrialResult, WindowHooks};
use holdup_locks::algorithms;
use holdup_locks::lock::{Algorithm, Reach};
use holdup_model::{Availability, Parameters, Problem, ProblemKind, Value, Window};
use holdup_testkit::ignore;
use holdup_workloads::find;
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Calls back when the window opens.
struct Hooks<'a> {
    begin: Option<Instant>,
    on_open: &'a mut dyn FnMut(),
}

impl WindowHooks for Hooks<'_> {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        assert_eq!(subjects, [("load".to_owned(), std::process::id())]);
        self.begin = Some(Instant::now());
        (self.on_open)();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let begin = self.begin.take().expect("open comes first");
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: begin.elapsed().as_nanos() as u64 })
    }
}

fn parameters(workers: u32, changes: &[(&str, Value)]) -> Parameters {
    let mut parameters = lock_contention::Parameters::defaults(workers);
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    parameters
}

fn prepare(parameters: &Parameters) -> Result<Box<dyn Prepared>, Problem> {
    find("lock-contention").expect("it is in the catalogue").prepare(PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters,
        combinations: std::slice::from_ref(parameters),
        metrics: &[],
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    })
}

fn session(parameters: &Parameters) -> Box<dyn Prepared> {
    prepare(parameters).expect("it can be prepared everywhere")
}

struct Times {
    warmup_ms: u64,
    duration_ms: u64,
}

const SHORT: Times = Times { warmup_ms: 10, duration_ms: 60 };

fn run_with(
    parameters: &Parameters,
    times: &Times,
    cancel: &Cancel,
    on_open: &mut dyn FnMut(),
) -> Result<TrialResult, Problem> {
    session(parameters).run(TrialContext {
        parameters,
        warmup_ns: times.warmup_ms * 1_000_000,
        duration_ns: times.duration_ms * 1_000_000,
        seed: 7,
        cancel: cancel.clone(),
        enough: holdup_load::Cancel::default(),
        window: &mut Hooks { begin: None, on_open },
    })
}

fn run(parameters: &Parameters, times: &Times) -> Result<TrialResult, Problem> {
    holdup_testkit::on_time(|| run_with(parameters, times, &Cancel::default(), &mut || {}))
}

fn metric(result: &TrialResult, id: &str) -> f64 {
    let found = result.measurements.iter().find(|m| m.metric == id).expect("every metric is there");
    found.value.value().unwrap_or_else(|| panic!("{id}: {:?}", found.value))
}

/// The children of this thread, which are those of this test.
fn children() -> Vec<Pid> {
    let text = std::fs::read_to_string("/proc/thread-self/children").expect("the kernel has CONFIG_PROC_CHILDREN");
    text.split_whitespace().map(|pid| Pid::from_raw(pid.parse().expect("a pid")).expect("not 0")).collect()
}

/// Between what an algorithm's workers can share it.
fn sharings(algorithm: &Algorithm) -> &'static [&'static str] {
    match algorithm.reach {
        Reach::AllProcesses => &["threads", "processes"],
        Reach::OneProcess => &["threads"],
    }
}

fn a_lock_of_one_process_is_refused_to_processes() {
    let changes: [(&str, Value); 2] = [("algorithm", "std-mutex".into()), ("sharing", "processes".into())];
    let problem = prepare(&parameters(2, &changes)).map(|_| ()).expect_err("its futexes are private");
    assert_eq!(problem.kind, ProblemKind::Host);
    assert_eq!(problem.what, "algorithm std-mutex");
    assert!(problem.hint.is_some_and(|hint| hint.contains("sharing = \"threads\"")));
}

fn one_is_inside_at_a_time_with_more_workers_than_cpus() {
    let workers = std::thread::available_parallelism().expect("known").get() as u32 * 3;
    for algorithm in algorithms::usable() {
        for sharing in sharings(algorithm) {
            let algorithm = algorithm.meta.id;
            let changes: [(&str, Value); 4] = [
                ("algorithm", algorithm.into()),
                ("sharing", (*sharing).into()),
                ("section", 0.into()),
                ("think", 0.into()),
            ];
            // In a queue each worker waits for its turn on a CPU, which comes late beside other work.
            let windows = [60, 600, 6_000].map(|duration_ms| Times { duration_ms, ..SHORT });
            let is_empty = |result: &Result<_, Problem>| result.as_ref().is_err_and(|p| p.what == "the window");
            let parameters = parameters(workers, &changes);
            let mut results = windows.iter().map(|times| run(&parameters, times));
            let result = results.find(|result| !is_empty(result));
            let result = result.unwrap_or_else(|| panic!("{algorithm} with {sharing}: nothing in 6 s"));
            let result = result.unwrap_or_else(|p| panic!("{algorithm} with {sharing}: {p}"));
            assert!(metric(&result, "operations_per_s") > 0.0, "{algorithm} with {sharing}");
            let ids: Vec<_> = result.measurements.iter().map(|m| m.metric.clone()).collect();
            let declared: Vec<_> = find("lock-contention").unwrap().metrics(&[]).into_iter().map(|m| m.id).collect();
            assert_eq!(ids, declared, "every metric is measured or absent with a reason");
            assert_eq!(result.histograms[0].name, "acquire");
        }
    }
    assert_eq!(children(), []);
}

/// In a release build a CPU that executes out of order would begin the next work while the one before still runs if they did
/// not depend on each other. Each run measures first how long an iteration takes; where that was disturbed the work is shorter than asked
/// for, and where the run was, longer: so it is the middle one that counts.
fn work_of_two_operations_is_never_done_side_by_side() {
    for (section, think) in [(50, 0), (0, 50)] {
        let changes: [(&str, Value); 2] = [("section", section.into()), ("think", think.into())];
        let run = |_| 1e9 / metric(&run(&parameters(1, &changes), &SHORT).expect("runs"), "operations_per_s");
        let mut operations_ns: Vec<f64> = (0..7).map(run).collect();
        operations_ns.sort_by(f64::total_cmp);
        assert!(operations_ns[3] > 42.0, "{section} ns inside and {think} ns outside took {operations_ns:.1?} ns");
    }
}

fn what_was_not_sampled_is_absent() {
    // Long enough for ten samples beyond the last percentile on a machine that does much else meanwhile.
    let long = Times { duration_ms: 1_000, ..SHORT };
    let often = run(&parameters(1, &[("sample_every", 1.into())]), &long).expect("runs");
    assert!(metric(&often, "acquire_p999_ns") <= metric(&often, "acquire_max_ns") * 1.002);
    assert!(often.histograms[0].histogram.count() > 10_000);
    assert_eq!(metric(&often, "fairness_min_max"), 1.0);
    let seldom = run(&parameters(1, &[("sample_every", 1_000_000_000.into())]), &SHORT).expect("runs");
    assert!(metric(&seldom, "operations_per_s") > 0.0);
    let longest = seldom.measurements.iter().find(|m| m.metric == "acquire_max_ns").expect("there");
    assert_eq!(longest.value.value(), None, "nothing was sampled, so nothing is known");
}

fn each_section_faults_as_often_as_asked() {
    for (sharing, first_touch) in [("threads", "inside"), ("processes", "inside"), ("processes", "before")] {
        for faults in [1, 7] {
            let changes: [(&str, Value); 3] =
                [("faults", faults.into()), ("sharing", sharing.into()), ("first_touch", first_touch.into())];
            let result = run(&parameters(3, &changes), &SHORT).expect("runs");
            let measured = metric(&result, "minor_faults_per_operation");
            let asked = faults as f64;
            assert!((measured - asked).abs() < asked * 0.05, "{measured} for {asked} with {sharing}");
        }
    }
    let without = run(&parameters(2, &[("sharing", "processes".into())]), &SHORT).expect("runs");
    assert!(metric(&without, "minor_faults_per_operation") < 0.01);
    let changes: [(&str, Value); 2] = [("faults", 1.into()), ("first_touch", "before".into())];
    let problem =
        prepare(&parameters(2, &changes)).map(|_| ()).expect_err("threads take the next page inside the lock");
    assert_eq!(problem.kind, ProblemKind::Usage);
}

fn huge_pages_fault_512_times_less_or_say_what_is_missing() {
    for sharing in ["threads", "processes"] {
        let changes: [(&str, Value); 3] = [("faults", 8.into()), ("pages", "huge".into()), ("sharing", sharing.into())];
        match run(&parameters(2, &changes), &SHORT) {
            Ok(result) => {
                let measured = metric(&result, "minor_faults_per_operation");
                assert!(measured < 0.1, "{measured} with {sharing}");
                println!("{sharing}: {measured} minor faults for 8 touches of huge pages");
            }
            Err(problem) => {
                assert_eq!((problem.kind, problem.what.as_str()), (ProblemKind::Trial, "pages = huge"));
                assert!(problem.hint.as_deref().is_some_and(|h| h.contains("vm.nr_hugepages")), "{problem}");
                ignore(format!("no huge pages are reserved here: {problem}"));
            }
        }
    }
}

fn too_many_faults_are_refused_before_memory_is_taken() {
    let problem = run(&parameters(4096, &[("faults", 4096.into())]), &SHORT).map(|_| ()).expect_err("64 GiB");
    assert_eq!(problem.kind, ProblemKind::Usage);
    assert!(problem.to_string().contains("4096 workers"), "{problem}");
}

fn a_killed_worker_voids_the_trial_and_leaves_no_process() {
    let endless = Times { warmup_ms: 10, duration_ms: 30_000 };
    for algorithm in ["futex-mutex", "ticket"] {
        let changes: [(&str, Value); 2] = [("sharing", "processes".into()), ("algorithm", algorithm.into())];
        let mut kill = || kill_process(children()[1], Signal::KILL).expect("it is ours");
        let problem = run_with(&parameters(4, &changes), &endless, &Cancel::default(), &mut kill)
            .map(|_| ())
            .expect_err("one was killed");
        assert_eq!((problem.kind, problem.what.as_str()), (ProblemKind::Trial, "a worker is gone"));
        assert!(problem.why.contains("was killed by signal 9"), "{problem}");
        assert_eq!(children(), [], "{algorithm}");
    }
}

fn a_cancelled_trial_ends_immediately_and_leaves_nothing() {
    let hour = Value::Integer(3_600_000_000_000);
    let endless = Times { warmup_ms: 0, duration_ms: 3_600_000 };
    for sharing in ["threads", "processes"] {
        for algorithm in algorithms::usable().filter(|a| sharings(a).contains(&sharing)).map(|a| a.meta.id) {
            let changes: [(&str, Value); 3] =
                [("sharing", sharing.into()), ("algorithm", algorithm.into()), ("section", hour.clone())];
            let cancel = Cancel::default();
            let mut cancelled = Instant::now();
            let problem = run_with(&parameters(8, &changes), &endless, &cancel, &mut || {
                cancelled = Instant::now();
                cancel.cancel();
            })
            .map(|_| ())
            .expect_err("cancelled");
            println!("{algorithm} with {sharing} ended {:?} after it was cancelled", cancelled.elapsed());
            assert_eq!(problem.kind, ProblemKind::Interrupted);
            assert_eq!(children(), []);
        }
    }
}

fn a_window_without_an_operation_is_void() {
    let endless = parameters(2, &[("section", i64::MAX.into())]);
    let problem = run(&endless, &SHORT).map(|_| ()).expect_err("nothing can be done in time");
    assert_eq!(problem.to_string(), "the window: no operation was completed in it\nhint: take a longer duration");
    assert_eq!(problem.kind, ProblemKind::Trial);
}

fn endless_think_time_ends_with_the_trial() {
    // A worker that starts late may do its one operation inside the window, so both ends are right.
    match run(&parameters(2, &[("think", i64::MAX.into())]), &SHORT) {
        Ok(result) => assert!(metric(&result, "operations_per_s") < 100.0),
        Err(problem) => assert_eq!(problem.what, "the window"),
    }
}

/// Ground truth: with no think time a worker is either inside, and then the other one waits for as long as it is
/// stopped, or waits itself for as long.
fn a_worker_that_is_stopped_on_purpose_shows_in_the_longest_acquisition() {
    let stopped_ms = 50;
    let changes: [(&str, Value); 4] = [
        ("sharing", "processes".into()),
        ("think", 0.into()),
        ("section", 1_000_000.into()),
        ("sample_every", 1.into()),
    ];
    let mut helper = None;
    let mut stop = || {
        let pid = children()[0];
        helper = Some(std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            kill_process(pid, Signal::STOP).expect("it is ours");
            std::thread::sleep(Duration::from_millis(stopped_ms));
            kill_process(pid, Signal::CONT).expect("it is ours");
        }));
    };
    let times = Times { warmup_ms: 20, duration_ms: 300 };
    let result = run_with(&parameters(2, &changes), &times, &Cancel::default(), &mut stop).expect("runs");
    helper.expect("the window opened").join().expect("it was stopped and continued");
    let longest_ns = metric(&result, "acquire_max_ns");
    // A millisecond less, for a section that was already under way.
    assert!(longest_ns > (stopped_ms - 2) as f64 * 1e6, "{longest_ns} ns");
}

/// The holder thinks after it has given the lock back, so that the one that it woke gets it. Without that it could
/// take the lock again each time, and those that slept before the window would sleep through it.
fn waiting_in_the_kernel_shows_as_sleeps() {
    let changes: [(&str, Value); 3] =
        [("algorithm", "futex-mutex".into()), ("section", 200_000.into()), ("think", 200_000.into())];
    let times = Times { warmup_ms: 10, duration_ms: 200 };
    let result = run(&parameters(6, &changes), &times).expect("runs");
    assert!(metric(&result, "sleeps_per_operation") > 0.0);
}

fn workers_can_be_pinned() {
    let result = run(&parameters(4, &[("pin", true.into())]), &SHORT).expect("runs");
    assert!(metric(&result, "operations_per_s") > 0.0);
}

fn the_calibration_is_among_the_facts() {
    let facts = session(&lock_contention::Parameters::defaults(1)).facts();
    let keys: Vec<_> = facts.iter().map(|f| f.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "iteration_ns",
            "overhead_ns",
            "calibration_spread_percent",
            "calibration_rounds",
            "clock_reading_ns",
            "calibration_drift_percent"
        ]
        .map(|k| format!("lock-contention.{k}"))
    );
    assert!(facts.iter().all(|f| f.value.is_some() && !f.steady), "a drifting clock does not void trials");
}

/// On a kernel without the extension a session with it does not begin; on one with it, slices are granted.
fn slice_extension_counts_its_grants_or_says_why_it_cannot_work() {
    let algorithm = algorithms::find("slice-extension").expect("it is in the catalogue");
    let workers = std::thread::available_parallelism().expect("known").get() as u32 * 3;
    for sharing in ["threads", "processes"] {
        let changes: [(&str, Value); 2] = [("algorithm", "slice-extension".into()), ("sharing", sharing.into())];
        let parameters = parameters(workers, &changes);
        match algorithm.probe() {
            Availability::Unavailable { reason, remedy } => {
                println!("not granted here: {reason}");
                let problem = prepare(&parameters).map(|_| ()).expect_err("it cannot work");
                let expected = Problem::host("algorithm slice-extension", reason).hint(remedy.expect("a way out"));
                assert_eq!(problem, expected);
            }
            _ => {
                let result = run(&parameters, &Times { warmup_ms: 10, duration_ms: 2_000 }).expect("it works");
                assert!(metric(&result, "slice_grants_per_s") > 0.0, "three workers for each CPU, {sharing}");
            }
        }
    }
}

fn the_catalogue_of_algorithms_is_whole() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/algorithms");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|f| f.expect("readable").file_name().into_string().expect("UTF-8"))
        .filter(|f| f != "mod.rs")
        .map(|f| f.trim_end_matches(".rs").replace('_', "-"))
        .collect();
    files.sort();
    let mut ids: Vec<&str> = algorithms::ALL.iter().map(|a| a.meta.id).collect();
    assert_eq!(ids, holdup_catalogue::Algorithm::WORDS, "declared in the same order");
    ids.sort_unstable();
    assert_eq!(files, ids, "one file each, and its line in the list");
    for algorithm in algorithms::ALL {
        let meta = algorithm.meta;
        assert!(!meta.summary.is_empty() && meta.summary.len() <= 72 && !meta.summary.ends_with('.'), "{}", meta.id);
        assert!(meta.docs.len() > 100 && !meta.references.is_empty(), "{}", meta.id);
    }
}

holdup_testkit::tests!(
    a_lock_of_one_process_is_refused_to_processes,
    one_is_inside_at_a_time_with_more_workers_than_cpus,
    work_of_two_operations_is_never_done_side_by_side,
    what_was_not_sampled_is_absent,
    each_section_faults_as_often_as_asked,
    huge_pages_fault_512_times_less_or_say_what_is_missing,
    too_many_faults_are_refused_before_memory_is_taken,
    a_killed_worker_voids_the_trial_and_leaves_no_process,
    a_cancelled_trial_ends_immediately_and_leaves_nothing,
    a_window_without_an_operation_is_void,
    endless_think_time_ends_with_the_trial,
    a_worker_that_is_stopped_on_purpose_shows_in_the_longest_acquisition,
    waiting_in_the_kernel_shows_as_sleeps,
    workers_can_be_pinned,
    the_calibration_is_among_the_facts,
    slice_extension_counts_its_grants_or_says_why_it_cannot_work,
    the_catalogue_of_algorithms_is_whole
);
