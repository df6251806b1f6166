//! Causes made on purpose, watched by the real collectors: the analysis names each of them, and none else.

use crate::recording;
use holdup_analysis::explain;
use holdup_catalogue::lock_contention;
use holdup_evidence::{CollectContext, CollectOptions};
use holdup_host::{Host, Scheduling};
use holdup_induce::PerCpuWork;
use holdup_induce::trial::{Trial, prepare};
use holdup_load::Cancel;
use holdup_locks::truth::Published;
use holdup_model::explanation::{ArmExplanation, Cause};
use holdup_model::outcome::FindingVerdict;
use holdup_model::progress::Silent;
use holdup_model::{Availability, BundleData, Parameters, Value};
use holdup_testkit::ignore;
use holdup_watch::{RecordRequest, Watching, record};
use std::sync::mpsc;
use std::time::Duration;

const COLLECTORS: [&str; 8] =
    ["switches", "critical-sections", "faults", "kworkers", "cgroup-throttling", "pressure", "cpu", "run-queue"];

const WINDOWS: u32 = 8;
const WINDOW_MS: u64 = 300;

/// The nice value of what hardly uses a CPU.
const IDLE: i32 = -20;
/// That of what would starve the kernel's own threads with a better one, and the collectors' work with them.
const BUSY: i32 = -5;

/// That of two that should have a CPU each.
const PAIR: i32 = -20;

/// Gives the thread, and what it starts from now on, precedence over the other work of the machine, whose load is a cause
/// too. Where the collectors cannot work, the test is ignored.
fn start(nice: i32) {
    match holdup_evidence::find("critical-sections").expect("it exists").probe(&CollectContext::default()) {
        Availability::Ready | Availability::Degraded { .. } => {}
        Availability::Unavailable { reason, .. } => {
            ignore(format!("critical-sections cannot work here: {reason}"));
        }
    }
    be(nice);
}

/// Gives this thread a nice value.
fn be(nice: i32) {
    let wanted = Scheduling { policy: Scheduling::OTHER, reset_on_fork: false, nice, priority: 0 };
    let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    if let Err(error) = Host::real().set_scheduling(tid, wanted) {
        println!("what else runs here is not kept away: {error}");
    }
}

/// What was induced; where that is not possible here, the test is ignored.
fn here<T>(induced: Result<T, holdup_model::Problem>) -> T {
    induced.unwrap_or_else(|problem| ignore(problem))
}

fn cpus() -> u32 {
    u32::try_from(std::thread::available_parallelism().expect("a number").get()).expect("it fits")
}

fn watch(pids: &[u32], collectors: &[&str]) -> BundleData {
    // Else it takes its turns among those that it watches, and its windows take as long.
    be(IDLE);
    let host = Host::real();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("bundle");
    let collectors: Vec<String> = collectors.iter().map(|id| (*id).to_owned()).collect();
    let watching = Watching::pids(&host, pids).expect("they run");
    let request = RecordRequest {
        host: &host,
        watching: &watching,
        postgres: None,
        duration_ns: u64::from(WINDOWS) * WINDOW_MS * 1_000_000,
        windows: WINDOWS,
        collectors: &collectors,
        options: CollectOptions::default(),
        maps: None,
        machine: holdup_host::machine(&host),
        out: &out,
        command: Vec::new(),
        wait: Duration::from_secs(60),
        cancel: Cancel::default(),
    };
    record(&request, &mut Silent).expect("it records");
    holdup_bundle::read(&out).expect("it reads")
}

/// Watches the processes of `lock-contention` under tas.
fn watch_contention(workers: u32, changes: &[(&str, Value)], collectors: &'static [&'static str]) -> BundleData {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("truth");
    let mut parameters: Parameters = lock_contention::Parameters::defaults(workers);
    parameters.set("truth", path.to_str().expect("UTF-8"));
    parameters.set("sharing", "processes");
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    let mut prepared = prepare("lock-contention", &parameters).expect("it can be prepared everywhere");
    // Until it was watched, which takes minutes where CPUs are emulated.
    let trial = Trial::new(&parameters, 600_000);
    let enough = trial.enough.clone();
    let (sender, receiver) = mpsc::channel();
    let mut on_open = || {
        let published = Published::read(&path).expect("it is published before the window opens");
        let pids: Vec<u32> = published.workers.iter().map(|w| w.tid).collect();
        let (sender, enough) = (sender.clone(), enough.clone());
        std::thread::spawn(move || {
            let bundle = std::panic::catch_unwind(|| watch(&pids, collectors));
            enough.cancel();
            sender.send(bundle).expect("the test waits for it");
        });
    };
    trial.run_with(&mut *prepared, &mut on_open).expect("it runs");
    receiver.recv().expect("the watcher ended").expect("it watched")
}

fn only_arm(bundle: &BundleData) -> ArmExplanation {
    let mut arms = explain(bundle).arms;
    assert_eq!(arms.len(), 1);
    arms.remove(0)
}

fn cause<'a>(arm: &'a ArmExplanation, id: &str) -> &'a Cause {
    arm.causes.iter().find(|c| c.id == id).expect("it was looked for")
}

/// Asserts that this cause is named and no other one.
fn named(bundle: &BundleData, id: &str) {
    let arm = only_arm(bundle);
    println!("{id}: {}", arm.answer);
    for cause in &arm.causes {
        println!("  {} {:?} {:?}: {}", cause.id, cause.verdict, cause.tasks_held_up, cause.sentence);
        if std::env::var_os("SHOW").is_some() {
            cause.details.iter().for_each(|detail| println!("    {detail}"));
        }
    }
    let is_of_host = |id| cause(&arm, id).verdict != FindingVerdict::Refuted;
    let of_others = match id {
        // Each has a CPU to itself: if they waited for one, others took it, from holders as well.
        "fault-under-lock" => is_of_host("oversubscription"),
        // With a cause of the whole host nothing cannot be said.
        "nothing" => is_of_host("steal") || is_of_host("kworker-behind-hog"),
        _ => false,
    };
    if of_others {
        ignore("no quiet machine");
    }
    // CPU time that the hypervisor takes meanwhile belongs to no task, here and there.
    let is_known = |c: &&Cause| c.verdict == FindingVerdict::Supported && c.id != "steal";
    let found: Vec<&str> = arm.causes.iter().filter(is_known).map(|c| c.id.as_str()).collect();
    assert!(found == [id], "{id}: {found:?} {arm:#?}");
    recording::keep(bundle, &recording::Demand { first: &[id], is_only: true, ..Default::default() });
}

/// Asserts that without these collectors the cause is neither named nor excluded, and one of them is asked for.
fn undecided_without(bundle: &BundleData, collectors: &[&str], id: &str) {
    let mut less = bundle.clone();
    less.plan.collectors.retain(|c| !collectors.contains(&c.as_str()));
    less.collectors.retain(|c| !collectors.contains(&c.id.as_str()));
    for trial in &mut less.trials {
        trial.evidence.retain(|c| !collectors.contains(&c.collector.as_str()));
    }
    asks_for(&only_arm(&less), collectors, id);
}

fn asks_for(arm: &ArmExplanation, collectors: &[&str], id: &str) {
    let cause = cause(arm, id);
    println!("  without {collectors:?}: {:?} {}", cause.verdict, cause.sentence);
    assert_eq!(cause.verdict, FindingVerdict::Undecided, "{cause:#?}");
    let is_asked = cause.missing.iter().any(|m| collectors.contains(&m.collector.as_str()) && !m.remedy.is_empty());
    assert!(is_asked, "{cause:#?}");
}

fn a_preempted_holder() {
    start(BUSY);
    let changes = [("section", 5_000.into()), ("think", 45_000.into())];
    let workers = 4 * cpus();
    let bundle = watch_contention(workers, &changes, &COLLECTORS);
    named(&bundle, "preempted-holder");
    undecided_without(&bundle, &["critical-sections"], "preempted-holder");
    undecided_without(&bundle, &["critical-sections"], "oversubscription");
}

fn a_fault_under_the_lock() {
    start(PAIR);
    if cpus() < 2 {
        ignore("with one CPU no task waits for a holder that runs");
    }
    let changes = [("faults", 16.into()), ("section", 100.into()), ("think", 100_000.into())];
    let bundle = watch_contention(2, &changes, &COLLECTORS);
    named(&bundle, "fault-under-lock");
    undecided_without(&bundle, &["faults"], "fault-under-lock");
    // Sections distinguish faults under a lock from others, so they are needed at the time.
    const LESS: [&str; 4] = ["switches", "faults", "cpu", "pressure"];
    let arm = only_arm(&watch_contention(2, &changes, &LESS));
    asks_for(&arm, &["faults", "critical-sections"], "fault-under-lock");
}

fn more_tasks_than_cpus() {
    start(BUSY);
    let busy = here(holdup_induce::oversubscription(4 * cpus() as usize));
    let bundle = watch(busy.pids(), &COLLECTORS);
    named(&bundle, "oversubscription");
    undecided_without(&bundle, &["switches", "run-queue"], "oversubscription");
}

fn a_cpu_limit() {
    start(BUSY);
    let limit = holdup_induce::throttling(Duration::from_millis(5), Duration::from_millis(25));
    let throttled = here(limit);
    let bundle = watch(throttled.pids(), &COLLECTORS);
    named(&bundle, "throttling");
    undecided_without(&bundle, &["cgroup-throttling", "switches"], "throttling");
}

fn a_task_of_a_higher_class() {
    start(BUSY);
    let busy = here(holdup_induce::oversubscription(1));
    Host::real().set_affinity(busy.pids()[0], &[0]).expect("CPU 0");
    let thief = holdup_induce::cpu_thief(0, Duration::from_millis(5), Duration::from_millis(10));
    let _thief = here(thief);
    let bundle = watch(busy.pids(), &COLLECTORS);
    named(&bundle, "stolen-by-higher-class");
    undecided_without(&bundle, &["switches"], "stolen-by-higher-class");
}

fn a_slow_disk() {
    start(IDLE);
    // Where the tests are built there is a disk; a temporary folder may be in memory.
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let reader = here(holdup_induce::slow_disk(folder, 2 << 20));
    let bundle = watch(reader.pids(), &COLLECTORS);
    named(&bundle, "slow-disk");
    undecided_without(&bundle, &["switches"], "slow-disk");
}

fn a_kernel_worker_behind_a_kernel_thread() {
    start(IDLE);
    if cpus() < 2 {
        ignore("with one CPU the watched process would be behind it, too");
    }
    let idle = here(holdup_induce::nothing());
    Host::real().set_affinity(idle.pids()[0], &[1]).expect("CPU 1");
    let hog = holdup_induce::kernel_hog(0, Duration::from_millis(5), Duration::from_millis(10), true);
    let _hog = here(hog);
    let _work = here(PerCpuWork::every(Duration::from_millis(2)));
    let bundle = watch(idle.pids(), &COLLECTORS);
    named(&bundle, "kworker-behind-hog");
    undecided_without(&bundle, &["kworkers"], "kworker-behind-hog");
}

fn nothing_at_all() {
    start(IDLE);
    let idle = here(holdup_induce::nothing());
    let bundle = watch(idle.pids(), &COLLECTORS);
    if cause(&only_arm(&bundle), "steal").verdict == FindingVerdict::Supported {
        ignore("the hypervisor took CPUs meanwhile, which is not nothing");
    }
    named(&bundle, "nothing");
    undecided_without(&bundle, &["switches"], "nothing");
}

holdup_testkit::tests!(
    truth:
    a_preempted_holder,
    a_fault_under_the_lock,
    more_tasks_than_cpus,
    a_cpu_limit,
    a_task_of_a_higher_class,
    a_slow_disk,
    a_kernel_worker_behind_a_kernel_thread,
    nothing_at_all
);
