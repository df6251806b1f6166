//! What searches share: their folders, how one continues, the host that their trials are of, the runs that they make.

use super::run::{Place, Run};
use crate::cli::{self, Cli, Command};
use crate::output;
use crate::world::World;
use clap::Parser;
use holdup_files::Folder;
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::bundle::Ending;
use holdup_model::{Event, Observer, Plan, Problem, ProblemKind, Schedule, WorkloadUse};
use holdup_search::{Line, Log};
use holdup_target::RunOutcome;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn numbered<L: Line>(n: u32) -> PathBuf {
    PathBuf::from(format!("{}-{n}", L::COMMAND))
}

/// The first free folder `COMMAND-N`.
pub(super) fn free_folder<L: Line>() -> PathBuf {
    (1..)
        .map(numbered::<L>)
        .find(|path| path.symlink_metadata().is_err())
        .expect("one of four thousand million names is free")
}

/// The newest folder `COMMAND-N` here that is this user's own. In a folder such as /tmp others can make one of that name.
pub(super) fn newest_folder<L: Line>() -> Result<PathBuf, Problem> {
    let there = (1..).map(numbered::<L>).take_while(|path| path.symlink_metadata().is_ok());
    there.filter(|path| Folder::open_own(path).is_ok()).last().ok_or_else(|| {
        let why = format!("there is no {} of yours in this folder", numbered::<L>(1).display());
        Problem::usage("no search", why).hint("name the folder of the search")
    })
}

/// `5%` or `0.05`, not below zero.
pub(super) fn share(text: &str) -> Result<f64, String> {
    cli::share(text, 10.0).ok_or_else(|| "not a share such as 1%".to_owned())
}

/// Notes down which host this is, unless what was measured so far is of the same.
pub(super) fn note_host<L: Line>(
    log: &mut Log<L>,
    (host, world): (&Host, &World),
    observer: &mut dyn Observer,
) -> Result<(), Problem> {
    let kernel = host.read_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let machine = world.machine;
    let now = format!("{} CPUs, {} MB, Linux {}", machine.cpus, machine.memory_bytes >> 20, kernel.trim());
    let last = log.entries().iter().rev().find_map(|line| line.host().map(str::to_owned));
    if last.as_ref() == Some(&now) {
        return Ok(());
    }
    if let Some(last) = last {
        let before = log.entries().iter().filter(|line| line.is_measurement()).count();
        let what = holdup_model::text::count(before, L::MEASURED);
        observer.event(Event::Note(&format!("the host changed ({last}; now {now}): {what} void")));
    }
    log.add(L::of_host(now))
}

/// A search that is continued.
pub(super) struct Again<L: Line> {
    pub(super) log: Log<L>,
    /// What it was begun with.
    pub(super) command: Command,
    /// Its folder as it was named, so that paths in plans stay the same.
    pub(super) folder: PathBuf,
    /// The same, for errors.
    pub(super) what: String,
}

/// Takes up a search in the folder and with the command line that it was begun with. One that has its answer prints it, and
/// the error is its exit code.
pub(super) fn again<L: Line>(folder: Option<&Path>) -> anyhow::Result<Result<Again<L>, u8>> {
    let folder = std::path::absolute(folder.map_or_else(newest_folder::<L>, |folder| Ok(folder.to_owned()))?)?;
    let log: Log<L> = Log::open(&folder)?;
    if let Some((sentence, code)) = log.entries().iter().rev().find_map(Line::answer) {
        output::data(sentence)?;
        return Ok(Err(code));
    }
    let (words, begun_in) = L::command(log.begin());
    std::env::set_current_dir(begun_in).map_err(|e| Problem::host(format!("folder {begun_in}"), e.to_string()))?;
    let cli = Cli::try_parse_from(words)
        .map_err(|e| Problem::usage(format!("the command line of {}", folder.display()), e.to_string()))?;
    let what = format!("search {}", folder.display());
    let folder = folder.strip_prefix(begun_in).map_or(folder.clone(), Path::to_owned);
    Ok(Ok(Again { log, command: cli.command, folder, what }))
}

/// A plan and all that follows from it.
pub(super) struct Planned {
    pub(super) plan: Plan,
    /// As TOML.
    pub(super) source: String,
    pub(super) schedule: Schedule,
}

impl Planned {
    /// Runs it, and writes its bundle to `out`. Nothing stays changed, and an interruption is a problem.
    ///
    /// # Errors
    /// As for [`Place::run`]; when the host is not as it was, or the run was interrupted.
    pub(super) fn run<L: Line>(
        &self,
        (place, patience): (&Place, Duration),
        at: (&Host, &World),
        (out, folder): (&Path, &Path),
        cancel: Cancel,
        observer: &mut dyn Observer,
    ) -> Result<RunOutcome, Problem> {
        let Planned { plan, source, schedule } = self;
        let outcome =
            place.run(Run { plan, source, schedule, notes: Vec::new(), patience }, at, out, cancel, observer)?;
        if !outcome.left.is_empty() {
            return Err(Problem::new(ProblemKind::NotRestored, "what the search changed", outcome.left.join("; ")));
        }
        if outcome.ending == Ending::Interrupted {
            let hint = format!("holdup {} --continue {}", L::COMMAND, folder.display());
            return Err(Problem::interrupted("the search").hint(hint));
        }
        Ok(outcome)
    }
}

/// The workload of a plan that has one.
pub(super) fn only_workload(plan: &Plan) -> Result<&WorkloadUse, Problem> {
    match plan.workloads.as_slice() {
        [used] => Ok(used),
        several => Err(Problem::usage("the plan", format!("it has {} workloads", several.len()))
            .hint("a search follows one metric of one workload")),
    }
}

/// The run of an answer shows its trials, and not its end: more comes after it.
pub(super) struct Endless<'a>(pub(super) &'a mut dyn Observer);

impl Observer for Endless<'_> {
    fn event(&mut self, event: Event<'_>) {
        if !matches!(event, Event::End) {
            self.0.event(event);
        }
    }
}

/// Prints a log as one JSON document.
pub(super) fn print_json<L: Line>(schema: &str, begin: &L::Begin, entries: &[L]) -> anyhow::Result<u8> {
    let document = serde_json::json!({"schema": schema, "begin": begin, "entries": entries});
    output::data(&serde_json::to_string_pretty(&document)?)?;
    Ok(0)
}

pub(super) fn write_page(file: &Path, page: &str) -> anyhow::Result<u8> {
    holdup_files::write_output(file, page.as_bytes())
        .map_err(|e| Problem::usage(format!("page {}", file.display()), e.to_string()))?;
    output::say(&format!("page: {}", file.display()));
    Ok(0)
}
