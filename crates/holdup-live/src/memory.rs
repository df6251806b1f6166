//! The last windows of a watch, in bounded memory.

use crate::size;
use holdup_analysis::explain;
use holdup_model::account::StateClass;
use holdup_model::bundle::{Ending, OBSERVED};
use holdup_model::explanation::ArmExplanation;
use holdup_model::{BundleData, Schedule, Trial};
use std::collections::VecDeque;
use std::sync::Arc;

/// Lines of the log that are kept.
const LOG_LINES: usize = 200;

/// The time of sessions at work in one window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bar {
    /// The end of the window, ns since 1970.
    pub end_unix_ns: i64,
    pub length_s: f64,
    /// Whose time it is: `sessions` of PostgreSQL, or `the watched tasks`.
    pub of: String,
    /// The time in each state, s: its name, what kind it is, and the time.
    pub states: Vec<(String, StateClass, f64)>,
}

struct Kept {
    trial: Arc<Trial>,
    bar: Bar,
    bytes: usize,
}

/// The last windows of a watch. Windows from before an interruption stay.
pub struct Memory {
    limit_bytes: usize,
    /// What is watched, without windows; `None` before the first watch has begun.
    watch: Option<BundleData>,
    windows: VecDeque<Kept>,
    bytes: usize,
    log: VecDeque<(i64, String)>,
}

impl Memory {
    /// An empty memory that keeps windows of this many bytes in all, and one at least.
    pub fn new(limit_bytes: usize) -> Self {
        Memory { limit_bytes, watch: None, windows: VecDeque::new(), bytes: 0, log: VecDeque::new() }
    }

    /// A watch begins, with what a bundle of it says of itself.
    pub fn begin(&mut self, watch: BundleData) {
        self.watch = Some(watch);
    }

    /// Keeps a window and lets the oldest go that have no room. Gives what can be said about this window alone; `None` where it
    /// has no evidence or does not count.
    pub fn push(&mut self, mut trial: Trial) -> Option<ArmExplanation> {
        size::shrink(&mut trial);
        let trial = Arc::new(trial);
        let alone = self.bundle_of(std::iter::once(&trial)).and_then(|b| explain(&b).arms.into_iter().next());
        let bar = bar(&trial, alone.as_ref());
        let bytes = size::trial(&trial);
        self.bytes += bytes;
        self.windows.push_back(Kept { trial, bar, bytes });
        while self.bytes > self.limit_bytes && self.windows.len() > 1 {
            self.bytes -= self.windows.pop_front().map_or(0, |kept| kept.bytes);
        }
        alone
    }

    /// Keeps a line of the log: an interruption, a trigger. `unix_ns` is ns since 1970.
    pub fn log(&mut self, unix_ns: i64, line: impl Into<String>) {
        self.log.push_back((unix_ns, line.into()));
        if self.log.len() > LOG_LINES {
            self.log.pop_front();
        }
    }

    /// What is watched, without windows.
    pub fn watch(&self) -> Option<&BundleData> {
        self.watch.as_ref()
    }

    /// The windows, oldest first, void ones too.
    pub fn windows(&self) -> impl DoubleEndedIterator<Item = &Arc<Trial>> + ExactSizeIterator {
        self.windows.iter().map(|kept| &kept.trial)
    }

    /// The time of sessions in each of these windows; one that does not count has no states.
    pub fn bars(&self) -> impl DoubleEndedIterator<Item = &Bar> + ExactSizeIterator {
        self.windows.iter().map(|kept| &kept.bar)
    }

    /// The memory of the windows, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How far back the windows reach, ns of wall-clock time; 0 without windows.
    pub fn reach_ns(&self) -> u64 {
        let first = self.windows().find_map(|t| t.window).map(|w| w.begin_unix_ns);
        let last = self.windows().rev().find_map(|t| t.window).map(|w| w.end_unix_ns);
        first.zip(last).map_or(0, |(first, last)| u64::try_from(last.saturating_sub(first)).unwrap_or(0))
    }

    /// These windows as a bundle of a record; `None` before a watch has begun. Its log has the interruptions among them.
    pub fn bundle_of<'a>(&self, windows: impl Iterator<Item = &'a Arc<Trial>>) -> Option<BundleData> {
        self.bundle(windows.map(|trial| Trial::clone(trial)).collect())
    }

    fn bundle(&self, mut trials: Vec<Trial>) -> Option<BundleData> {
        let mut bundle = self.watch.clone()?;
        for (n, trial) in (0..).zip(&mut trials) {
            (trial.seq, trial.block) = (n, n);
        }
        let since = trials.first().map_or(i64::MAX, |t| t.started_unix_ns);
        bundle.plan.design.blocks = u32::try_from(trials.len()).unwrap_or(u32::MAX);
        bundle.schedule = Schedule::of_windows(OBSERVED, bundle.plan.design.blocks);
        bundle.head.created_unix_ns = since.min(bundle.head.created_unix_ns);
        bundle.log = self.log.iter().filter(|(at, _)| *at >= since).cloned().collect();
        bundle.ending = Some(Ending::Complete);
        bundle.trials = trials;
        Some(bundle)
    }

    /// The last windows as a bundle of a record.
    pub fn last(&self, windows: usize) -> Option<BundleData> {
        let skipped = self.windows.len().saturating_sub(windows);
        self.bundle_of(self.windows().skip(skipped))
    }
}

fn bar(trial: &Trial, alone: Option<&ArmExplanation>) -> Bar {
    let account = alone.and_then(|arm| arm.account.as_ref());
    let of = account.map(|account| account.of.clone()).unwrap_or_default();
    // Small states stand among the others as one; here each counts.
    let states = account.into_iter().flat_map(|account| account.states.iter().chain(&account.small));
    let states = states.filter(|state| state.class != StateClass::Other);
    Bar {
        end_unix_ns: trial.window.map_or(trial.ended_unix_ns, |w| w.end_unix_ns),
        length_s: trial.window.map_or(0.0, |w| w.length_ns as f64 / 1e9),
        of,
        states: states.map(|state| (state.name.clone(), state.class, state.time_s)).collect(),
    }
}
