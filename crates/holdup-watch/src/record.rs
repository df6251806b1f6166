//! Watching a live system: windows one after the other, no load, no knobs, nothing changed.

use crate::observed::{self, Observed};
use crate::watching::Watching;
use crate::window::unix_ns;
use crate::windows::{Cut, Windows};
use holdup_bundle::Writer;
use holdup_evidence::{CollectContext, CollectOptions, Subject};
use holdup_host::lock::HostLock;
use holdup_host::{Host, facts};
use holdup_load::Cancel;
use holdup_model::bundle::{CollectorState, Ending, OBSERVED};
use holdup_model::{Event, Machine, Observer, Problem, Schedule};
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

/// All that a record needs.
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
    check(request.collectors)?;
    if request.windows == 0 {
        return Err(Problem::usage("--windows 0", "nothing would be watched"));
    }
    let _lock = HostLock::take(request.wait, &|| request.cancel.is_cancelled()).map_err(beside_a_run)?;
    let subjects =
        request.watching.subjects(request.host).map_err(|why| Problem::host(request.watching.in_words(), why))?;
    let states = probe(request.host, request.collectors, &subjects, request.postgres.as_ref(), &request.options);
    for state in &states {
        if let Some(reason) = state.availability.limit() {
            observer.event(Event::Note(&format!("{}: {reason}", state.id)));
        }
    }
    let observed = observed(request);
    let (plan, schedule) = (observed.plan(request.windows), Schedule::of_windows(OBSERVED, request.windows));
    let head = observed::head(request.command.clone(), request.machine);
    let metrics = observed.metrics();

    let mut writer = Writer::create(request.out, &head, &plan, observed::SOURCE, &schedule, &metrics, &states)?;
    writer.add_environment(0, 0, &facts(request.host))?;
    observer.event(Event::Begin { trials: request.windows, at_most: false, estimate_ns: request.duration_ns });
    let (ending, windows_done) = walk(request, &observed, &schedule, &states, &mut writer, observer)?;
    observer.event(Event::End);
    writer.finish(&ending)?;
    Ok(RecordOutcome { ending, windows_done })
}

/// Refuses collectors that do not exist.
pub(crate) fn check(collectors: &[String]) -> Result<(), Problem> {
    if let Some(unknown) = collectors.iter().find(|id| holdup_evidence::find(id).is_none()) {
        let known: Vec<&str> = holdup_evidence::collectors::ALL.iter().map(|c| c.meta().id).collect();
        return Err(Problem::usage(format!("collector `{unknown}`"), "there is no such collector")
            .hint(format!("collectors: {}", known.join(", "))));
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

fn observed(request: &RecordRequest<'_>) -> Observed {
    Observed {
        watched: request.watching.in_words(),
        has_postgres: request.postgres.is_some(),
        window_ns: request.duration_ns / u64::from(request.windows),
        collectors: request.collectors.to_vec(),
        options: request.options.clone(),
    }
}

/// What the collectors can do here with these subjects.
pub(crate) fn probe(
    host: &Host,
    collectors: &[String],
    subjects: &[Subject],
    postgres: Option<&String>,
    options: &CollectOptions,
) -> Vec<CollectorState> {
    let context = CollectContext {
        host: host.clone(),
        subjects: subjects.to_vec(),
        postgres: postgres.cloned(),
        options: options.clone(),
        ..CollectContext::default()
    };
    let found = collectors.iter().filter_map(|id| holdup_evidence::find(id));
    found.map(|c| CollectorState { id: c.meta().id.to_owned(), availability: c.probe(&context) }).collect()
}

fn walk(
    request: &RecordRequest<'_>,
    observed: &Observed,
    schedule: &Schedule,
    states: &[CollectorState],
    writer: &mut Writer,
    observer: &mut dyn Observer,
) -> Result<(Ending, u32), Problem> {
    let usable: Vec<String> = states.iter().filter(|s| s.availability.is_usable()).map(|s| s.id.clone()).collect();
    let mut done = 0;
    let (postgres, maps) = (request.postgres.clone(), request.maps.clone());
    let mut windows = Windows::new(request.host, observed, &usable, (postgres, maps), request.cancel.clone());
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
        let left_ns = observed.window_ns.saturating_mul(u64::from(request.windows - spec.seq));
        observer.event(Event::TrialBegin { number: spec.seq + 1, of: request.windows, arm, left_ns });
        let is_last = spec.seq + 1 == request.windows;
        let (mut trial, cut) = windows.next(&subjects, false, is_last);
        (trial.seq, trial.block) = (spec.seq, spec.block);
        observed.measure(&mut trial);
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
