//! Opens the windows of all members at the same time.

use holdup_load::{Cancel, WindowHooks};
use holdup_model::{Problem, Window};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a wait looks whether the trial is cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// What the members know of each other.
#[derive(Debug, Default)]
struct State {
    /// How many backgrounds are warm and wait.
    warm: usize,
    /// True if the foreground's window is open.
    open: bool,
    /// Why a background has ended already.
    ended: Option<Problem>,
}

/// Where members wait for each other.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        // A member that panicked while it held the lock has left plain values behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `done`, looking at `cancel`.
    fn wait(&self, cancel: &Cancel, mut done: impl FnMut(&mut State) -> Result<bool, Problem>) -> Result<(), Problem> {
        let mut state = self.state();
        loop {
            if cancel.is_cancelled() {
                return Err(Problem::interrupted("the trial"));
            }
            if done(&mut state)? {
                return Ok(());
            }
            (state, _) = self.moved.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A background says that it has ended, and why when it failed.
    pub(crate) fn ended(&self, kind: &str, problem: Option<Problem>) {
        let early = || {
            Problem::trial(format!("background {kind}"), "it ended before the foreground did")
                .hint("let it run without an end, such as messages = 0 of messenger")
        };
        self.state().ended.get_or_insert_with(|| problem.unwrap_or_else(early));
        self.moved.notify_all();
    }

    /// Why a background has ended before it was asked to, if one did.
    pub(crate) fn why_ended(&self) -> Option<Problem> {
        self.state().ended.clone()
    }
}

/// The hooks of the foreground: its window opens when every background is warm.
pub(crate) struct Foreground<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) backgrounds: usize,
    pub(crate) cancel: Cancel,
    /// Set when the window is closed.
    pub(crate) enough: Cancel,
    pub(crate) hooks: &'a mut dyn WindowHooks,
}

impl WindowHooks for Foreground<'_> {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        let wanted = self.backgrounds;
        self.gate.wait(&self.cancel, |state| match state.ended.clone() {
            Some(problem) => Err(problem),
            None => Ok(state.warm >= wanted),
        })?;
        self.hooks.open(subjects)?;
        self.gate.state().open = true;
        self.gate.moved.notify_all();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        // Read before the backgrounds are asked to end: one that has ended by now did so by itself.
        let early = self.gate.why_ended();
        let window = self.hooks.close();
        self.enough.cancel();
        match early {
            Some(problem) => Err(problem),
            None => window,
        }
    }
}

/// The hooks of a background: it waits for the foreground, and has its own window.
pub(crate) struct Background<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) cancel: Cancel,
    opened: Option<(Instant, i64)>,
}

impl<'a> Background<'a> {
    pub(crate) fn new(gate: &'a Gate, cancel: Cancel) -> Self {
        Background { gate, cancel, opened: None }
    }
}

impl WindowHooks for Background<'_> {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        self.gate.state().warm += 1;
        self.gate.moved.notify_all();
        self.gate.wait(&self.cancel, |state| Ok(state.open))?;
        self.opened = Some((Instant::now(), unix_ns()));
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let (begin, begin_unix_ns) =
            self.opened.take().ok_or_else(|| Problem::internal("a background's window", "it was never opened"))?;
        let length_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(Window { begin_unix_ns, end_unix_ns: unix_ns(), length_ns })
    }
}

fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
