//! Watching a live system: windows one after the other, no load, no knobs, nothing changed.

use crate::watching::Watching;
use crate::window::{self, CollectorHooks, unix_ns};
use holdup_bundle::Writer;
use holdup_evidence::{CollectContext, CollectOptions, Subject};
use holdup_host::lock::HostLock;
use holdup_host::{Host, facts, process};
use holdup_load::{Cancel, WindowHooks};
use holdup_model::bundle::{BundleHead, CollectorState, Ending, OBSERVED};
use holdup_model::metric::{Measured, Measurement};
use holdup_model::{
    Arm, Availability, Collected, Design, Direction, Event, Machine, Metric, Observer, Plan, Problem, Schedule, Trial,
    TrialSpec, TrialStatus, text,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Windows of a record when nothing else is asked for: as many as a 95 % interval needs to be worth something.
pub const DEFAULT_WINDOWS: u32 = 10;

/// The collectors of a record, where they exist, when none are named.
const COLLECTORS: [&str; 10] = [
    "account",
    "switches",
    "critical-sections",
    "faults",
    "cpu-profile",
    "run-queue",
    "cpu",
    "cgroup-throttling",
    "pressure",
    "kworkers",
];

/// Those that ask the server, where it answers.
const OF_A_SERVER: [&str; 4] = ["wait-events", "blockers", "queries", "postgres-statistics"];

/// A window that was cut short counts from this part of its length on.
const COUNTS_FROM: f64 = 0.5;

/// How often the watched processes are looked for inside a window, in looks of 20 ms at whether to end.
const LOOKS: u32 = 10;

/// All that a record needs.
#[expect(missing_docs, reason = "fields without a comment are what their names say")]
pub struct RecordRequest<'a> {
    pub host: &'a Host,
    pub watching: &'a Watching,
    /// How to ask the PostgreSQL server that is watched.
    pub postgres: Option<String>,
    /// How long it watches, ns, all windows together.
    pub duration_ns: u64,
    /// Windows that this is cut into.
    pub windows: u32,
    /// The ids of the collectors.
    pub collectors: &'a [String],
    pub options: CollectOptions,
    /// The folder in which section maps are kept; `None` to keep none.
    pub maps: Option<PathBuf>,
    pub machine: Machine,
    /// The bundle to write; it must not exist.
    pub out: &'a Path,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// How long to wait for a run on this host to end; zero refuses immediately.
    pub wait: Duration,
    pub cancel: Cancel,
}

/// How a record ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordOutcome {
    /// How it ended; the same as in the bundle.
    pub ending: Ending,
    /// Windows that count.
    pub windows_done: u32,
}

/// The collectors that a record runs when none are named: those that exist here. With a PostgreSQL server that answers,
/// its statistics as well. `run-queue` reads a file of every thread at every edge of a window (14 us each, 0.14 s for 10,000), so
/// it is there where `switches`, which shows the same, cannot work.
pub fn default_collectors(has_postgres: bool) -> Vec<String> {
    let of_server = if has_postgres { &OF_A_SERVER[..] } else { &[] };
    let has_switches =
        holdup_evidence::find("switches").is_some_and(|c| c.probe(&CollectContext::default()).is_usable());
    COLLECTORS
        .iter()
        .chain(of_server)
        .copied()
        .filter(|id| holdup_evidence::find(id).is_some() && !(*id == "run-queue" && has_switches))
        .map(str::to_owned)
        .collect()
}

/// Watches and writes the bundle.
///
/// # Errors
/// Before the first window: when nothing is there to be watched, a run is under way, a collector does not exist, or the
/// bundle cannot be made. Later only when the bundle cannot be written; all else is its ending.
pub fn record(request: &RecordRequest<'_>, observer: &mut dyn Observer) -> Result<RecordOutcome, Problem> {
    check(request)?;
    let _lock = HostLock::take(request.wait, &|| request.cancel.is_cancelled()).map_err(beside_a_run)?;
    let subjects =
        request.watching.subjects(request.host).map_err(|why| Problem::host(request.watching.in_words(), why))?;
    let states = probe(request, &subjects);
    for state in &states {
        if let Availability::Unavailable { reason, .. } | Availability::Degraded { reason } = &state.availability {
            observer.event(Event::Note(&format!("{}: {reason}", state.id)));
        }
    }
    let (plan, schedule) = plan(request);
    let head = BundleHead {
        run_id: format!("{:016x}{:08x}", unix_ns(), std::process::id()),
        holdup_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: request.command.clone(),
        created_unix_ns: unix_ns(),
        target: "local".to_owned(),
        emulated: None,
        machine: request.machine,
    };
    let metrics = metrics(request);
    let source = "# This bundle was recorded from a system that ran already: there is no plan to run again.\n";
    let mut writer = Writer::create(request.out, &head, &plan, source, &schedule, &metrics, &states)?;
    writer.add_environment(0, 0, &facts(request.host))?;
    observer.event(Event::Begin { trials: request.windows, at_most: false, estimate_ns: request.duration_ns });
    let (ending, windows_done) = walk(request, &plan, &schedule, &states, &mut writer, observer)?;
    observer.event(Event::End);
    writer.finish(&ending)?;
    Ok(RecordOutcome { ending, windows_done })
}

fn check(request: &RecordRequest<'_>) -> Result<(), Problem> {
    if let Some(unknown) = request.collectors.iter().find(|id| holdup_evidence::find(id).is_none()) {
        let known: Vec<&str> = holdup_evidence::collectors::ALL.iter().map(|c| c.meta().id).collect();
        return Err(Problem::usage(format!("collector `{unknown}`"), "there is no such collector")
            .hint(format!("collectors: {}", known.join(", "))));
    }
    if request.windows == 0 {
        return Err(Problem::usage("--windows 0", "nothing would be watched"));
    }
    Ok(())
}

fn beside_a_run(problem: Problem) -> Problem {
    if problem.kind != holdup_model::ProblemKind::Host {
        return problem;
    }
    Problem { why: format!("{}: watching would be measured by it", problem.why), ..problem }
        .hint("wait for it to end, or give --wait")
}

fn probe(request: &RecordRequest<'_>, subjects: &[Subject]) -> Vec<CollectorState> {
    let context = CollectContext {
        host: request.host.clone(),
        subjects: subjects.to_vec(),
        postgres: request.postgres.clone(),
        options: request.options.clone(),
        ..CollectContext::default()
    };
    let found = request.collectors.iter().filter_map(|id| holdup_evidence::find(id));
    found.map(|c| CollectorState { id: c.meta().id.to_owned(), availability: c.probe(&context) }).collect()
}

/// The metric that needs no connection.
const CPUS_USED: &str = "cpus_used";

/// One arm, and a block for each window.
fn plan(request: &RecordRequest<'_>) -> (Plan, Schedule) {
    let question = format!("What holds up {}?", request.watching.in_words());
    let mut blank = Plan::observational("record", question, OBSERVED, "local");
    for workload in &mut blank.workloads {
        // More or less of it is neither better nor worse.
        workload.semantics.diagnostics.push(CPUS_USED.to_owned());
    }
    let plan = Plan {
        design: Design {
            blocks: request.windows,
            duration_ns: request.duration_ns / u64::from(request.windows),
            ..blank.design
        },
        collectors: request.collectors.to_vec(),
        collect: request.options.clone(),
        ..blank
    };
    let arm = Arm {
        id: 0,
        label: OBSERVED.to_owned(),
        workload: OBSERVED.to_owned(),
        axes: BTreeMap::new(),
        factors: BTreeMap::new(),
        replica: None,
    };
    let trial = |n| TrialSpec { seq: n, session: 0, boot: 0, block: n, position: 0, arm: 0 };
    (plan, Schedule { arms: vec![arm], trials: (0..request.windows).map(trial).collect() })
}

/// What collectors can give as metrics.
fn metrics(request: &RecordRequest<'_>) -> Vec<(String, Metric)> {
    let has = |id: &str| request.collectors.iter().any(|c| c == id);
    let metric = |id: &str, unit: &str, better, summary: &str| {
        let metric = Metric { id: id.to_owned(), unit: unit.to_owned(), better, summary: summary.to_owned() };
        (OBSERVED.to_owned(), metric)
    };
    let mut all = Vec::new();
    if has("postgres-statistics") && request.postgres.is_some() {
        all.push(metric("tps", "1/s", Direction::Higher, "transactions committed each second (pg_stat_database)"));
    }
    if has("cpu") {
        all.push(metric(CPUS_USED, "cpus", Direction::Lower, "CPUs that the watched processes used"));
    }
    all
}

fn measure(id: &str, evidence: &[Collected], length_s: f64) -> Measurement {
    let (collector, item, label) = match id {
        "tps" => ("postgres-statistics", "postgres", Some("database xact_commit")),
        _ => ("cpu", "cpu_used", None),
    };
    let Some(found) = evidence.iter().find(|c| c.collector == collector) else {
        return Measurement::absent(id, format!("collector {collector} did not run"));
    };
    let mut sum = None;
    for item in found.items.iter().filter(|i| i.name == item && (label.is_none() || i.label.as_deref() == label)) {
        match &item.value {
            Measured::Value(value) => sum = Some(sum.unwrap_or(0.0) + value),
            Measured::Absent(why) => return Measurement::absent(id, why.clone()),
        }
    }
    match sum {
        Some(sum) if id == "tps" => Measurement::new(id, sum / length_s),
        Some(sum) => Measurement::new(id, sum),
        None => Measurement::absent(id, format!("{collector} brought no {item}")),
    }
}

/// Why a window ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Asked,
    Gone,
}

/// Collectors at work, and the roots of the processes that they watch.
struct Watch<'a> {
    hooks: CollectorHooks<'a>,
    roots: Vec<(String, u32)>,
    /// When the next window ends.
    until: Instant,
}

fn walk(
    request: &RecordRequest<'_>,
    plan: &Plan,
    schedule: &Schedule,
    states: &[CollectorState],
    writer: &mut Writer,
    observer: &mut dyn Observer,
) -> Result<(Ending, u32), Problem> {
    let usable: Vec<String> = states.iter().filter(|s| s.availability.is_usable()).map(|s| s.id.clone()).collect();
    let metrics = metrics(request);
    let mut done = 0;
    let mut watch: Option<Watch<'_>> = None;
    let begun = Instant::now();
    for spec in &schedule.trials {
        let gone =
            |why: &str, done: u32, writer: &mut Writer, observer: &mut dyn Observer| -> Result<Ending, Problem> {
                let reason = format!("{why} after {:.1} s", begun.elapsed().as_secs_f64());
                if done == 0 {
                    return Ok(Ending::Failed { reason });
                }
                writer.log(unix_ns(), &reason)?;
                observer.event(Event::Note(&reason));
                Ok(Ending::Complete)
            };
        if request.cancel.is_cancelled() {
            return Ok((Ending::Interrupted, done));
        }
        // Looked for again each time: processes of a name or of a group come and go.
        let subjects = match request.watching.subjects(request.host) {
            Ok(subjects) => subjects,
            Err(why) => return Ok((gone(&why, done, writer, observer)?, done)),
        };
        let arm = &schedule.arms[0];
        let left_ns = plan.design.duration_ns.saturating_mul(u64::from(request.windows - spec.seq));
        observer.event(Event::TrialBegin { number: spec.seq + 1, of: request.windows, arm, left_ns });
        let is_last = spec.seq + 1 == request.windows;
        let (mut trial, cut) = one_window(request, plan, &usable, &subjects, &mut watch, is_last);
        (trial.seq, trial.block) = (spec.seq, spec.block);
        let length_s = trial.window.map_or(0.0, |w| w.length_ns as f64 / 1e9);
        trial.measurements = metrics.iter().map(|(_, m)| measure(&m.id, &trial.evidence, length_s)).collect();
        done += u32::from(trial.is_done());
        writer.add_trial(&trial)?;
        observer.event(Event::TrialEnd { trial: &trial, arm });
        match cut {
            None => {}
            Some(Cut::Asked) => return Ok((Ending::Interrupted, done)),
            Some(Cut::Gone) => {
                let why = request.watching.subjects(request.host).err();
                let why = why.as_deref().unwrap_or("the watched processes ended");
                return Ok((gone(why, done, writer, observer)?, done));
            }
        }
    }
    Ok((Ending::Complete, done))
}

/// The watch of the last window where it still watches the same processes, or a new one.
fn open<'a>(
    request: &'a RecordRequest<'_>,
    collectors: &'a [String],
    roots: Vec<(String, u32)>,
    last: Option<Watch<'a>>,
) -> Result<Watch<'a>, Problem> {
    if let Some(watch) = last.filter(|watch| watch.roots == roots) {
        return Ok(watch);
    }
    let mut hooks = CollectorHooks::new(request.host, collectors, request.postgres.clone())
        .with_options(request.options.clone(), request.maps.clone());
    hooks.open(&roots)?;
    let until = hooks.begun().unwrap_or_else(Instant::now);
    Ok(Watch { hooks, roots, until })
}

fn one_window<'a>(
    request: &'a RecordRequest<'_>,
    plan: &Plan,
    collectors: &'a [String],
    subjects: &[Subject],
    last: &mut Option<Watch<'a>>,
    is_last: bool,
) -> (Trial, Option<Cut>) {
    let mut trial = Trial::begun(unix_ns());
    let roots = subjects.iter().map(|s| (s.role.clone(), s.pid)).collect::<Vec<_>>();
    let length_ns = plan.design.duration_ns;
    let (cut, watched) = match open(request, collectors, roots, last.take()) {
        Ok(mut watch) => {
            watch.until += Duration::from_nanos(length_ns);
            let cut = wait(request, watch.until, &watch.roots);
            if is_last || cut.is_some() || !watch.hooks.can_be_cut() {
                let closed = watch.hooks.close();
                (cut, closed.map(|_| watch.hooks.finish()))
            } else {
                let watched = watch.hooks.cut();
                *last = Some(watch);
                (cut, watched)
            }
        }
        Err(problem) => (None, Err(problem)),
    };
    let void = match &watched {
        Err(problem) => Some(format!("{}: {}", problem.what, problem.why)),
        Ok(watched) => {
            let seen = watched.window.map_or(0.0, |w| w.length_ns as f64) / length_ns.max(1) as f64;
            match cut {
                Some(Cut::Gone) => Some("what was watched ended in it".to_owned()),
                Some(Cut::Asked) if seen < COUNTS_FROM => Some("it was interrupted".to_owned()),
                _ => {
                    let steady = watched.steady(plan.design.max_steal_share);
                    steady.err().map(|problem| format!("{}: {}", problem.what, problem.why))
                }
            }
        }
    };
    if let Ok(watched) = watched {
        (trial.evidence, trial.window) = (watched.evidence, watched.window);
    }
    if let Some(reason) = void {
        trial.status = TrialStatus::Void { reason };
    }
    trial.notes.push(format!("watched: {}", text::count(subjects.len(), "process tree")));
    trial.ended_unix_ns = unix_ns();
    (trial, cut)
}

/// Waits for a window's end, or for what ends it early.
fn wait(request: &RecordRequest<'_>, until: Instant, roots: &[(String, u32)]) -> Option<Cut> {
    let looks = Cell::new(0_u32);
    let gone = Cell::new(false);
    let is_cut = || {
        looks.set(looks.get() + 1);
        // One that runs is enough: the search ends with the first.
        if looks.get().is_multiple_of(LOOKS) && !roots.iter().any(|(_, pid)| runs(request.host, *pid)) {
            gone.set(true);
        }
        gone.get() || request.cancel.is_cancelled()
    };
    let left = until.saturating_duration_since(Instant::now());
    if window::sleep(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX), &is_cut) {
        return None;
    }
    Some(if gone.get() { Cut::Gone } else { Cut::Asked })
}

fn runs(host: &Host, pid: u32) -> bool {
    process::stat(host, pid).is_ok_and(|s| !matches!(s.state, 'Z' | 'X'))
}
