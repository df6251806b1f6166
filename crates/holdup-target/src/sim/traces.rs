//! The traces that a plan replays: read, made work of, and what bundles say of them.

use super::parameters_of;
use crate::trace_file::open_trace;
use holdup_catalogue::replay;
use holdup_model::{Arm, Fact, MemoryBudget, Parameters, Plan, Problem, Replay};
use holdup_sim::workloads::Files;
use holdup_traces::Reduction;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The workload that replays them.
pub(crate) const KIND: &str = replay::DECLARED.id;
/// How much longer than its trace a trial may take, unless the plan says.
const MOST_TIMES: u64 = 10;
/// What short traces have beside that, ns.
const LEAST_NS: u64 = 1_000_000_000;

struct TraceFile {
    replay: Arc<Replay>,
    format: String,
    sha256: String,
    notes: Vec<String>,
}

/// Every trace of a plan's arms.
#[derive(Default)]
pub(super) struct Traces(BTreeMap<PathBuf, Arc<TraceFile>>);

/// Those that this process has read: a run asks for them before it begins, for its estimate, and in each session, and one can
/// have a gigabyte.
static READ: Mutex<BTreeMap<PathBuf, Arc<TraceFile>>> = Mutex::new(BTreeMap::new());

/// The parameters of an arm that replays; `None` for any other.
fn replayed(plan: &Plan, arm: &Arm) -> Result<Option<replay::Parameters>, Problem> {
    let (workload, parameters) = parameters_of(plan, arm)?;
    if workload.id() == KIND { replay::Parameters::read(&parameters).map(Some) } else { Ok(None) }
}

impl Traces {
    /// Reads what arms name.
    ///
    /// # Errors
    /// When a file cannot be read, or is no trace with switches in it.
    pub(super) fn read<'a>(plan: &Plan, arms: impl IntoIterator<Item = &'a Arm>) -> Result<Self, Problem> {
        let mut all = Traces::default();
        for arm in arms {
            let Some(replay::Parameters { trace, .. }) = replayed(plan, arm)? else { continue };
            let file = match READ.lock().unwrap_or_else(PoisonError::into_inner).entry(trace.clone()) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => {
                    let file = Arc::new(read(&trace)?);
                    new.insert(file).clone()
                }
            };
            all.0.insert(trace, file);
        }
        Ok(all)
    }

    /// What the simulator needs of files, and how long a trial may take that is no window of the plan's, ns.
    ///
    /// # Errors
    /// When the parameters cannot be read.
    pub(super) fn of(&self, kind: &str, parameters: &Parameters) -> Result<(Files, Option<u64>), Problem> {
        if kind != KIND {
            return Ok((Files::default(), None));
        }
        let replay::Parameters { trace, timeout } = replay::Parameters::read(parameters)?;
        let trace = self.0.get(&trace).map(|file| file.replay.clone());
        let span_ns = trace.as_ref().map_or(0, |trace| trace.span_ns);
        let at_most_ns = timeout.unwrap_or(LEAST_NS.saturating_add(span_ns.saturating_mul(MOST_TIMES)));
        Ok((Files { trace }, Some(at_most_ns)))
    }

    /// What is to be said of them before a run.
    pub(super) fn notes(&self, cpus: u32) -> Vec<String> {
        let mut notes = Vec::new();
        for (path, file) in &self.0 {
            let name = short(path);
            let replay = &*file.replay;
            notes.push(format!(
                "trace {name}: {}, {:.3} s, {} tasks, {} switches; {} sleeps that another task ends, {} that end by \
                 themselves",
                file.format,
                replay.span_ns as f64 / 1e9,
                replay.tasks.len(),
                replay.switches,
                replay.relations,
                replay.timed,
            ));
            notes.push(format!("trace {name}: waits for a CPU there: {}", waits(replay)));
            notes.extend(file.notes.iter().chain(&replay.notes).map(|note| format!("trace {name}: {note}")));
            let beyond = replay.tasks.iter().filter(|task| task.is_bound && task.cpu >= cpus).count();
            if beyond > 0 {
                notes.push(format!(
                    "trace {name}: {beyond} threads of the kernel are bound to CPUs that the machine does not have: that of \
                     CPU N is bound to CPU N modulo {cpus}"
                ));
            }
        }
        notes
    }

    /// What they are, as facts.
    pub(super) fn facts(&self) -> Vec<Fact> {
        self.0.iter().flat_map(|(path, file)| self.facts_of(path, file)).collect()
    }

    fn facts_of(&self, path: &Path, file: &TraceFile) -> Vec<Fact> {
        let name = short(path);
        let of = if self.0.len() > 1 { format!(" of {name}") } else { String::new() };
        let replay = &*file.replay;
        let us = |ns: Option<f64>| ns.map(|ns| format!("{:.3}", ns / 1e3));
        let quantile = |q| us(replay.waits.quantile_ns(q).map(|ns| ns as f64));
        let some = |value: String| Some(value);
        let values = [
            ("file", some(name)),
            ("sha256", some(file.sha256.clone())),
            ("format", some(file.format.clone())),
            ("span_s", some(format!("{:.6}", replay.span_ns as f64 / 1e9))),
            ("cpus", some(replay.cpus.to_string())),
            ("tasks", some(replay.tasks.len().to_string())),
            ("switches", some(replay.switches.to_string())),
            ("sleeps_ended_by_tasks", some(replay.relations.to_string())),
            ("sleeps_ended_by_themselves", some(replay.timed.to_string())),
            ("waits", some(replay.waits.count().to_string())),
            ("wait_mean_us", us(replay.waits.mean_ns())),
            ("wait_p50_us", quantile(0.5)),
            ("wait_p90_us", quantile(0.9)),
            ("wait_p99_us", quantile(0.99)),
        ];
        let fact = |(key, value): (&str, Option<String>)| {
            let key = format!("replay.{key}{of}");
            match value {
                Some(value) => Fact::read(key, value, "the trace"),
                None => Fact::absent(key, "the trace", "no wait in it has a begin and an end"),
            }
        };
        values.into_iter().map(fact).collect()
    }
}

/// A file's name without its folder, which is not part of what is simulated.
fn short(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn waits(replay: &Replay) -> String {
    let Some(mean_ns) = replay.waits.mean_ns() else { return "none has a begin and an end".to_owned() };
    let us = |quantile| replay.waits.quantile_ns(quantile).unwrap_or(0) as f64 / 1e3;
    let (count, mean_us) = (replay.waits.count(), mean_ns / 1e3);
    format!("{count}, mean {mean_us:.1} us, p50 {:.1} us, p90 {:.1} us, p99 {:.1} us", us(0.5), us(0.9), us(0.99))
}

fn read(path: &Path) -> Result<TraceFile, Problem> {
    let shown = path.display().to_string();
    if path == Path::new("-") {
        return Err(Problem::usage("trace -", "a trace that is replayed is read more than once").hint("name a file"));
    }
    let budget = MemoryBudget::default();
    let bytes = open_trace(path, &budget)?;
    let mut reduction = Reduction::default();
    let head = holdup_traces::read(&shown, &*bytes, &budget, &mut |event| {
        reduction.add(&event);
        Ok(())
    })?;
    let replay = Arc::new(reduction.finish(&shown)?);
    let sha256 = holdup_kernels::sha256(path).map_err(|e| Problem::usage(&shown, e.to_string()))?;
    Ok(TraceFile { replay, format: head.format, sha256, notes: head.notes })
}
