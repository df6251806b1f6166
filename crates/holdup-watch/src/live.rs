//! Watching without an end: windows as long as somebody wants them. What is watched may end and come back.

use crate::observed::{self, Observed};
use crate::record::{check, probe};
use crate::watching::Watching;
use crate::windows::{Cut, Windows};
use holdup_evidence::CollectOptions;
use holdup_host::{Host, facts, machine};
use holdup_load::Cancel;
use holdup_model::bundle::{CollectorState, OBSERVED};
use holdup_model::{BundleData, EnvironmentReading, Problem, Schedule, Trial};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What has stacks of tasks off the CPU.
const OFF_CPU: &str = "off-cpu";

/// How long it waits before it looks again for what is to be watched.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Finds what is to be watched, with the connection to its PostgreSQL server where there is one.
pub type Find<'a> = &'a (dyn Fn() -> Result<(Watching, Option<String>), Problem> + Sync);

/// All that live watching needs.
pub struct LiveRequest<'a> {
    pub host: &'a Host,
    /// Asked at the begin, and again after what was watched has ended.
    pub find: Find<'a>,
    /// True if it waits for what is not there yet; otherwise that is an error.
    pub is_patient: bool,
    /// The length of a window.
    pub window: Duration,
    /// The ids of the collectors.
    pub collectors: &'a [String],
    /// Whether the next window is to have call stacks of single tasks, on a CPU and off it, which cost more. Asked before each.
    pub has_stacks: &'a (dyn Fn() -> bool + Sync),
    /// What the user asked of collectors.
    pub options: CollectOptions,
    /// The folder in which section maps are kept; `None` to keep none.
    pub maps: Option<PathBuf>,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// Ends it.
    pub cancel: Cancel,
}

/// What happens while it watches.
pub enum Live {
    /// Watching begins, again after an end.
    Begin {
        /// What, in words: `all processes named nginx`.
        watched: String,
        /// A bundle that has no window yet.
        bundle: Box<BundleData>,
    },
    /// A window ended. Void ones come too: what they counted happened.
    Window(Box<Trial>),
    /// What was watched has ended, or is not there yet, with the reason.
    Gone(String),
}

/// Watches until it is cancelled.
///
/// # Errors
/// When a collector does not exist, or when nothing is there to be watched and it is not patient.
pub fn live(request: &LiveRequest<'_>, sink: &mut dyn FnMut(Live)) -> Result<(), Problem> {
    check(request.collectors)?;
    let mut said = None;
    let mut is_first = true;
    while !request.cancel.is_cancelled() {
        let found = (request.find)().and_then(|(watching, postgres)| {
            let subjects = watching.subjects(request.host);
            let subjects = subjects.map_err(|why| Problem::host(watching.in_words(), why))?;
            Ok((watching, postgres, subjects))
        });
        match found {
            Ok((watching, postgres, subjects)) => {
                let probe = |ids: &[String]| probe(request.host, ids, &subjects, postgres.as_ref(), &request.options);
                let (states, of_stacks) = (probe(request.collectors), probe(&[OFF_CPU.to_owned()]));
                said = Some(watch(request, &watching, postgres, (states, of_stacks), sink));
                sink(Live::Gone(said.clone().unwrap_or_default()));
            }
            Err(problem) if is_first && !request.is_patient => return Err(problem),
            Err(problem) => {
                let why = format!("{}: {}", problem.what, problem.why);
                if said.as_ref() != Some(&why) {
                    sink(Live::Gone(why.clone()));
                    said = Some(why);
                }
            }
        }
        is_first = false;
        pause(&request.cancel);
    }
    Ok(())
}

fn pause(cancel: &Cancel) {
    let end = Instant::now() + LOOK_AGAIN;
    while Instant::now() < end && !cancel.is_cancelled() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Watches these processes until they have ended or it is cancelled; returns why it stopped.
fn watch(
    request: &LiveRequest<'_>,
    watching: &Watching,
    postgres: Option<String>,
    (states, of_stacks): (Vec<CollectorState>, Vec<CollectorState>),
    sink: &mut dyn FnMut(Live),
) -> String {
    let usable = |states: &[CollectorState]| -> Vec<String> {
        states.iter().filter(|s| s.availability.is_usable()).map(|s| s.id.clone()).collect()
    };
    let mut with_stacks = usable(&of_stacks);
    let usable = usable(&states);
    with_stacks.retain(|id| !usable.contains(id));
    with_stacks.splice(0..0, usable.iter().cloned());
    let observed = Observed {
        watched: watching.in_words(),
        has_postgres: postgres.is_some(),
        window_ns: u64::try_from(request.window.as_nanos()).unwrap_or(u64::MAX),
        collectors: request.collectors.to_vec(),
        options: request.options.clone(),
    };
    let bundle = BundleData {
        plan_source: observed::SOURCE.to_owned(),
        metrics: observed.metrics(),
        collectors: states,
        environment: vec![EnvironmentReading { session: 0, boot: 0, facts: facts(request.host) }],
        ..BundleData::begun(
            observed::head(request.command.clone(), machine(request.host)),
            observed.plan(0),
            Schedule::of_windows(OBSERVED, 0),
        )
    };
    sink(Live::Begin { watched: observed.watched.clone(), bundle: Box::new(bundle) });
    let with = (postgres, request.maps.clone());
    let mut windows =
        Windows::new(request.host, &observed, &usable, with, request.cancel.clone()).with_stacks(&with_stacks);
    loop {
        let subjects = match watching.subjects(request.host) {
            Ok(subjects) => subjects,
            Err(why) => return why,
        };
        let (mut trial, cut) = windows.next(&subjects, (request.has_stacks)(), false);
        observed.measure(&mut trial);
        sink(Live::Window(Box::new(trial)));
        match cut {
            None => {}
            Some(Cut::Asked) => return "the user ended it".to_owned(),
            Some(Cut::Gone) => {
                return watching
                    .subjects(request.host)
                    .err()
                    .unwrap_or_else(|| "the watched processes ended".to_owned());
            }
        }
    }
}
