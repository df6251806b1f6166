//! Traces of the scheduler.

use super::results::files;
use super::{input, out};
use crate::output;
use holdup_model::Problem;
use holdup_model::text::count;
use holdup_target::open_trace;
use holdup_traces::account::{Account, Selection};
use holdup_traces::{Trace, bundle, read};
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
}

pub(super) fn run(args: &Traces) -> anyhow::Result<u8> {
    let out = out(args.out.as_ref())?;
    let files = files(&args.files)?;
    let selection = Selection::new(&args.comm, &args.pid);
    let mut traces = Vec::with_capacity(files.len());
    for (name, path) in &files {
        let name = name.map_or_else(|| input::short(path), str::to_owned);
        let trace = trace(name, path, &selection)?;
        for note in trace.head.notes.iter().chain(&trace.finished.notes) {
            output::say(&format!("{}: {note}", input::short(path)));
        }
        traces.push(trace);
    }
    let words: String = traces.iter().map(|trace| format!("{} {:?}", trace.name, trace.finished.windows)).collect();
    let command: Vec<String> = std::env::args().collect();
    let head = holdup_target::head_of_import(&words, None, &command);
    let (all, switches) = (traces.len(), traces.iter().map(|trace| trace.finished.seen.switches).sum::<u64>());
    let bundle = bundle(traces, &selection.in_words(), head);
    holdup_watch::write(&bundle, &out)?;
    let (all, windows) = (count(all, "trace"), count(bundle.trials.len(), "window"));
    output::say(&format!("bundle: {} ({all}, {windows}, {switches} switches)", out.display()));
    Ok(0)
}

fn trace(name: String, path: &Path, selection: &Selection) -> Result<Trace, Problem> {
    let shown = path.display().to_string();
    let bytes = open_trace(path)?;
    let mut account = Account::new(selection.clone());
    let head = read(&shown, &*bytes, &mut |event| {
        account.add(&event);
        Ok(())
    })?;
    let finished = account.finish(&head.frames);
    if finished.seen.switches == 0 {
        return Err(Problem::usage(shown, "there is no switch in it")
            .hint("perf sched record, or trace-cmd record -e sched_switch -e sched_waking"));
    }
    Ok(Trace { name, head, finished })
}
