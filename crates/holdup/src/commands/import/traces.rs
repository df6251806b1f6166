//! Traces of the scheduler.

use super::results::files;
use super::{input, out, write};
use crate::cli::MemoryLimit;
use crate::output;
use holdup_model::text::count;
use holdup_model::{MemoryBudget, Problem, TooLarge};
use holdup_target::open_trace;
use holdup_traces::account::{Account, Selection};
use holdup_traces::{Trace, bundle, read};
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Traces {
    /// The traces; those with one NAME are one arm. The first is the baseline
    #[arg(value_name = "[NAME=]FILE", required = true)]
    files: Vec<String>,
    /// Account for tasks of this name; others are what they wait behind
    #[arg(long, value_name = "NAME")]
    comm: Vec<String>,
    /// Account for this process
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Write this bundle [default: import-N.holdup]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryLimit,
}

/// All that was counted, of which the identity of the bundle is made.
struct WindowText<'a>(&'a [Trace]);

impl fmt::Display for WindowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|trace| write!(f, "{} {:?}", trace.name, trace.finished.windows))
    }
}

pub(super) fn run(args: &Traces) -> anyhow::Result<u8> {
    let out = out(args.out.as_ref())?;
    let files = files(&args.files)?;
    let selection = Selection::new(&args.comm, &args.pid);
    let (mut traces, budget) = (Vec::with_capacity(files.len()), args.memory.budget());
    for (name, path) in &files {
        let name = name.map_or_else(|| input::short(path), str::to_owned);
        let trace = trace(name, path, &selection, &budget)?;
        for note in trace.head.notes.iter().chain(&trace.finished.notes) {
            output::say(&format!("{}: {note}", input::short(path)));
        }
        traces.push(trace);
    }
    let command: Vec<String> = std::env::args().collect();
    let head = holdup_target::head_of_import(&WindowText(&traces), None, &command);
    let (all, switches) = (traces.len(), traces.iter().map(|trace| trace.finished.seen.switches).sum::<u64>());
    let bundle = bundle(traces, &selection.in_words(), head);
    write(&bundle, &out)?;
    let (all, windows) = (count(all, "trace"), count(bundle.trials.len(), "window"));
    output::say(&format!("bundle: {} ({all}, {windows}, {switches} switches)", out.display()));
    Ok(0)
}

fn trace(name: String, path: &Path, selection: &Selection, budget: &MemoryBudget) -> Result<Trace, Problem> {
    let shown = path.display().to_string();
    let bytes = open_trace(path, budget)?;
    let mut account = Account::new(selection.clone(), budget);
    let of = |refused: TooLarge| refused.of(shown.as_str());
    let head = read(&shown, &*bytes, budget, &mut |event| account.add(&event).map_err(of))?;
    let finished = account.finish(&head.frames).map_err(of)?;
    if finished.seen.switches == 0 {
        return Err(Problem::usage(shown, "there is no switch in it")
            .hint("perf sched record, or trace-cmd record -e sched_switch -e sched_waking"));
    }
    Ok(Trace { name, head, finished })
}
