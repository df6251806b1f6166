//! The coordinator's side of a trial: warm-up, window, end.
//!
//! Workers run from before the warm-up until after the window; nothing of theirs is stopped or reset at its edges. At
//! the begin and at the end of the window the coordinator reads what they have counted.

use crate::board::{Stage, phase};
use crate::worker_pool::WorkerPool;
use crate::{Cancel, TrialContext};
use holdup_model::Problem;
use std::time::{Duration, Instant};

/// How often the coordinator looks at its workers and at the flags that end a trial.
const LOOK: Duration = Duration::from_millis(20);

/// The workers of a trial, as its coordinator sees them.
pub trait Team {
    /// Why the trial is void, when one of them cannot continue.
    fn failed(&mut self) -> Option<String>;
    /// Stops all of them and waits until they have ended. `hurry` asks whether they should be ended by force.
    ///
    /// # Errors
    /// When one of them did not end well.
    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem>;
}

impl Team for WorkerPool {
    fn failed(&mut self) -> Option<String> {
        WorkerPool::failed(self)
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        WorkerPool::finish(self, hurry)
    }
}

/// Leads `workers` workers, which wait at `stage`, through warm-up and window, and ends them. `edge` reads what they have
/// counted so far; returned are its readings at the begin and at the end of the window.
///
/// # Errors
/// Of kind `Trial` when a worker failed, of kind `Interrupted` when the trial was cancelled.
pub fn through<E>(
    trial: TrialContext<'_>,
    stage: &Stage,
    workers: usize,
    mut team: impl Team,
    edge: impl Fn() -> E,
) -> Result<(E, E), Problem> {
    let cancel = trial.cancel.clone();
    while stage.ready() < workers {
        healthy(&mut team, &cancel)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    stage.enter(phase::WARM);
    watch(trial.warmup_ns, &mut team, &cancel, &trial.enough)?;
    trial.window.open(&[("load".to_owned(), std::process::id())])?;
    stage.enter(phase::OPEN);
    let begin = edge();
    let watched = watch(trial.duration_ns, &mut team, &cancel, &trial.enough);
    let end = edge();
    stage.enter(phase::CLOSED);
    let closed = trial.window.close();
    let took = watched?;
    closed?;
    on_time(trial.duration_ns, took)?;
    team.finish(&|| cancel.is_cancelled())?;
    if cancel.is_cancelled() {
        return Err(Problem::interrupted("the trial"));
    }
    Ok((begin, end))
}

/// Leads `workers` workers, which wait at `stage`, through work of a fixed amount, and ends them. The window is the work:
/// there is no warm-up, and it ends when `wait`, which waits at most for the time that it is given, returns that all is done.
/// What `edge` reads at both ends is returned.
pub fn through_work<E>(
    trial: TrialContext<'_>,
    stage: &Stage,
    workers: usize,
    mut team: impl Team,
    edge: impl Fn() -> E,
    wait: impl Fn(Duration) -> bool,
) -> Result<(E, E), Problem> {
    let cancel = trial.cancel.clone();
    while stage.ready() < workers {
        healthy(&mut team, &cancel)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    trial.window.open(&[("load".to_owned(), std::process::id())])?;
    let begin = edge();
    stage.enter(phase::OPEN);
    let mut worked = Ok(());
    while worked.is_ok() && !wait(LOOK) && !trial.enough.is_cancelled() {
        worked = healthy(&mut team, &cancel);
    }
    let end = edge();
    stage.enter(phase::CLOSED);
    let closed = trial.window.close();
    worked?;
    closed?;
    team.finish(&|| cancel.is_cancelled())?;
    if cancel.is_cancelled() {
        return Err(Problem::interrupted("the trial"));
    }
    Ok((begin, end))
}

fn healthy(team: &mut impl Team, cancel: &Cancel) -> Result<(), Problem> {
    if cancel.is_cancelled() {
        return Err(Problem::interrupted("the trial"));
    }
    match team.failed() {
        None => Ok(()),
        Some(why) => Err(Problem::trial("a worker is gone", why)),
    }
}

/// A window that took much longer than planned does not count: its coordinator was kept from closing it.
///
/// # Errors
/// Of kind `Trial`, when it took more than a tenth and 250 ms longer.
pub fn on_time(planned_ns: u64, took: Duration) -> Result<(), Problem> {
    let planned = Duration::from_nanos(planned_ns);
    if took <= planned + planned / 10 + Duration::from_millis(250) {
        return Ok(());
    }
    let why = format!("{:.1} s instead of {:.1} s", took.as_secs_f64(), planned.as_secs_f64());
    Err(Problem::trial("the window took too long", why))
}

/// Sleeps while the workers work; for how long it did.
fn watch(duration_ns: u64, team: &mut impl Team, cancel: &Cancel, enough: &Cancel) -> Result<Duration, Problem> {
    let begin = Instant::now();
    let duration = Duration::from_nanos(duration_ns);
    loop {
        healthy(team, cancel)?;
        let took = begin.elapsed();
        let left = duration.saturating_sub(took);
        if left.is_zero() || enough.is_cancelled() {
            return Ok(took);
        }
        std::thread::sleep(left.min(LOOK));
    }
}
