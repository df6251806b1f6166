//! Windows of one watch, one after the other.

use crate::observed::Observed;
use crate::window::{self, CollectorHooks, unix_ns};
use holdup_evidence::{CollectOptions, Subject};
use holdup_host::{Host, process};
use holdup_load::{Cancel, WindowHooks};
use holdup_model::plan::DEFAULT_MAX_STEAL_SHARE;
use holdup_model::{Problem, Trial, TrialStatus, text};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A window that was cut short counts from this part of its length on.
const COUNTS_FROM: f64 = 0.5;

/// How often the watched processes are looked for inside a window, in looks of 20 ms at whether to end.
const LOOKS: u32 = 10;

/// After how long collectors that could not start are tried again; doubled each time up to the second one. All are started
/// anew for that, which leaves a gap.
const TRY_AGAIN: [Duration; 2] = [Duration::from_secs(10), Duration::from_mins(10)];

/// Why a window ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Asked,
    Gone,
}

/// Collectors at work, and the roots of the processes that they watch.
struct Watch<'a> {
    hooks: CollectorHooks<'a>,
    roots: Vec<(String, u32)>,
    has_stacks: bool,
    /// When the next window ends.
    until: Instant,
    /// When a collector that could not start is tried again.
    try_again: Option<Instant>,
}

/// What windows have in common.
pub(crate) struct Windows<'a> {
    host: &'a Host,
    /// The ids of the collectors, usable ones.
    collectors: &'a [String],
    /// Those of windows that have stacks of single tasks.
    with_stacks: &'a [String],
    postgres: Option<String>,
    options: CollectOptions,
    maps: Option<PathBuf>,
    length_ns: u64,
    cancel: Cancel,
    watch: Option<Watch<'a>>,
    /// How long the next wait for a collector that could not start is.
    patience: Duration,
}

impl<'a> Windows<'a> {
    /// No window yet. `collectors` are those of what is observed that work here.
    pub(crate) fn new(
        host: &'a Host,
        observed: &Observed,
        collectors: &'a [String],
        (postgres, maps): (Option<String>, Option<PathBuf>),
        cancel: Cancel,
    ) -> Self {
        let (options, length_ns) = (observed.options.clone(), observed.window_ns);
        let (with_stacks, patience) = (collectors, TRY_AGAIN[0]);
        Windows { host, collectors, with_stacks, postgres, options, maps, length_ns, cancel, watch: None, patience }
    }

    /// The same with the collectors of windows that have stacks of single tasks.
    pub(crate) fn with_stacks(self, with_stacks: &'a [String]) -> Self {
        Windows { with_stacks, ..self }
    }

    /// The watch of the last window where it still watches the same processes in the same way, or a new one.
    fn open(&mut self, roots: Vec<(String, u32)>, has_stacks: bool) -> Result<Watch<'a>, Problem> {
        let is_same = |watch: &Watch<'_>| watch.roots == roots && watch.has_stacks == has_stacks;
        let is_good = |watch: &Watch<'_>| is_same(watch) && watch.try_again.is_none_or(|at| Instant::now() < at);
        if let Some(watch) = self.watch.take().filter(is_good) {
            return Ok(watch);
        }
        let collectors = if has_stacks { self.with_stacks } else { self.collectors };
        let options = CollectOptions { by_task: has_stacks, ..self.options.clone() };
        let mut hooks =
            CollectorHooks::new(self.host, collectors, self.postgres.clone()).with_options(options, self.maps.clone());
        hooks.open(&roots)?;
        let until = hooks.begun().unwrap_or_else(Instant::now);
        let try_again = (!hooks.is_complete()).then(|| until + self.patience);
        self.patience = match try_again {
            Some(_) => (self.patience * 2).min(TRY_AGAIN[1]),
            None => TRY_AGAIN[0],
        };
        Ok(Watch { hooks, roots, has_stacks, until, try_again })
    }

    /// One window of these subjects, with stacks of single tasks or without. After the last one nothing is watched any more.
    pub(crate) fn next(&mut self, subjects: &[Subject], has_stacks: bool, is_last: bool) -> (Trial, Option<Cut>) {
        let mut trial = Trial::begun(unix_ns());
        let roots = subjects.iter().map(|s| (s.role.clone(), s.pid)).collect::<Vec<_>>();
        let (cut, watched) = match self.open(roots, has_stacks) {
            Ok(mut watch) => {
                watch.until += Duration::from_nanos(self.length_ns);
                let cut = self.wait(watch.until, &watch.roots);
                if is_last || cut.is_some() || !watch.hooks.can_be_cut() {
                    let closed = watch.hooks.close();
                    (cut, closed.map(|_| watch.hooks.finish()))
                } else {
                    let watched = watch.hooks.cut();
                    self.watch = Some(watch);
                    (cut, watched)
                }
            }
            Err(problem) => (None, Err(problem)),
        };
        if let Some(reason) = self.void(&watched, cut) {
            trial.status = TrialStatus::Void { reason };
        }
        if let Ok(watched) = watched {
            (trial.evidence, trial.window) = (watched.evidence, watched.window);
        }
        trial.notes.push(format!("watched: {}", text::count(subjects.len(), "process tree")));
        trial.ended_unix_ns = unix_ns();
        (trial, cut)
    }

    /// Why a window does not count.
    fn void(&self, watched: &Result<window::Watched, Problem>, cut: Option<Cut>) -> Option<String> {
        let watched = match watched {
            Ok(watched) => watched,
            Err(problem) => return Some(format!("{}: {}", problem.what, problem.why)),
        };
        let seen = watched.window.map_or(0.0, |w| w.length_ns as f64) / self.length_ns.max(1) as f64;
        match cut {
            Some(Cut::Gone) => Some("what was watched ended in it".to_owned()),
            Some(Cut::Asked) if seen < COUNTS_FROM => Some("it was interrupted".to_owned()),
            _ => {
                let steady = watched.steady(DEFAULT_MAX_STEAL_SHARE);
                steady.err().map(|problem| format!("{}: {}", problem.what, problem.why))
            }
        }
    }

    /// Waits for a window's end, or for what ends it early.
    fn wait(&self, until: Instant, roots: &[(String, u32)]) -> Option<Cut> {
        let looks = Cell::new(0_u32);
        let gone = Cell::new(false);
        let is_cut = || {
            looks.set(looks.get() + 1);
            // One that runs is enough: the search ends with the first.
            if looks.get().is_multiple_of(LOOKS) && !roots.iter().any(|(_, pid)| runs(self.host, *pid)) {
                gone.set(true);
            }
            gone.get() || self.cancel.is_cancelled()
        };
        let left = until.saturating_duration_since(Instant::now());
        if window::sleep(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX), &is_cut) {
            return None;
        }
        Some(if gone.get() { Cut::Gone } else { Cut::Asked })
    }
}

fn runs(host: &Host, pid: u32) -> bool {
    process::stat(host, pid).is_ok_and(|s| !matches!(s.state, 'Z' | 'X'))
}
