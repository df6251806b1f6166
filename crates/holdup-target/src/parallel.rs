//! Boots side by side: several guests at once, on request.
//!
//! Guests that run at the same time take CPU time from each other, so this is for many short questions on a large
//! machine and never the default. Each worker walks whole boots; the bundle is written by the thread that started them,
//! in the order in which trials end.

use crate::run::{After, Broken, trial_seed};
use crate::session::{Closed, SessionRequest, Target, TrialDraft};
use holdup_model::{Event, Fact, Observer, Problem, ProblemKind, TrialSpec};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What a worker tells.
pub(crate) enum Told {
    /// Something slow begins.
    Step(String),
    /// Something worth keeping.
    Note(String),
    /// The environment of a boot.
    Environment(TrialSpec, Vec<Fact>),
    /// A trial is over.
    Draft(TrialSpec, u32, TrialDraft),
    /// A session is closed.
    Closed(TrialSpec, Closed),
    /// The run cannot go on.
    Failed(Problem),
}

/// Boots with their trials, in the order of the schedule.
fn boots(trials: &[TrialSpec]) -> Vec<&[TrialSpec]> {
    trials.chunk_by(|a, b| (a.session, a.boot) == (b.session, b.boot)).collect()
}

/// Runs all boots, `workers` at a time, and hands what is told to `hear`, which says whether to go on.
///
/// # Errors
/// The first problem that ends the run.
pub(crate) fn run(
    target: &dyn Target,
    request: &SessionRequest<'_>,
    workers: u32,
    hear: &mut dyn FnMut(Told) -> Result<bool, Problem>,
) -> Result<(), Problem> {
    let pieces = boots(&request.schedule.trials);
    let next = Mutex::new(pieces.iter());
    let (tell, told): (Sender<Told>, Receiver<Told>) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (tell, next) = (tell.clone(), &next);
            scope.spawn(move || {
                loop {
                    let piece = next.lock().unwrap_or_else(PoisonError::into_inner).next().copied();
                    let Some(piece) = piece.filter(|_| !request.cancel.is_cancelled()) else { return };
                    if let Err(problem) = walk(target, request, piece, &tell) {
                        // A receiver that is gone has ended the run already.
                        let _ended = tell.send(Told::Failed(problem));
                        return;
                    }
                }
            });
        }
        drop(tell);
        let mut result = Ok(());
        for message in told {
            let go_on = match message {
                _ if result.is_err() => continue,
                Told::Failed(problem) => Err(problem),
                other => hear(other),
            };
            match go_on {
                Ok(true) => {}
                Ok(false) => request.cancel.cancel(),
                Err(problem) => {
                    request.cancel.cancel();
                    result = Err(problem);
                }
            }
        }
        result
    })
}

/// The trials of one boot.
fn walk(
    target: &dyn Target,
    request: &SessionRequest<'_>,
    piece: &[TrialSpec],
    tell: &Sender<Told>,
) -> Result<(), Problem> {
    let retries = request.plan.design.retries;
    let mut broken = Broken::default();
    let mut next = 0;
    while let Some(at) = piece.get(next) {
        let mut session = target.open(request, at, &mut Relay(tell))?;
        // A receiver that is gone has ended the run; the session is closed below all the same.
        let _ended = tell.send(Told::Environment(*at, session.environment()));
        let mut breaks = None;
        'trials: while let Some(spec) = piece.get(next) {
            for attempt in 0..=retries {
                if request.cancel.is_cancelled() {
                    break 'trials;
                }
                let arm = &request.schedule.arms[spec.arm as usize];
                let seed = trial_seed(request.plan.design.seed, spec.seq.wrapping_add(attempt << 24));
                let draft = session.trial(arm, spec, seed);
                let problem = draft.problem.clone();
                let _ended = tell.send(Told::Draft(*spec, attempt, draft));
                match problem {
                    None => break,
                    Some(p) if p.kind == ProblemKind::Trial => {}
                    Some(p) => {
                        breaks = Some(p);
                        break 'trials;
                    }
                }
            }
            next += 1;
        }
        let _ended = tell.send(Told::Closed(*at, session.close()));
        if request.cancel.is_cancelled() {
            return Ok(());
        }
        if let Some(problem) = breaks {
            match broken.at(next, retries) {
                After::GiveUp => return Err(problem),
                after => {
                    let text = format!("the session broke and is opened anew: {}: {}", problem.what, problem.why);
                    let _ended = tell.send(Told::Note(text));
                    next += usize::from(after == After::LeaveOut);
                }
            }
        }
    }
    Ok(())
}

struct Relay<'a>(&'a Sender<Told>);

impl Observer for Relay<'_> {
    fn event(&mut self, event: Event<'_>) {
        let told = match event {
            Event::Step(text) => Told::Step(text.to_owned()),
            Event::Note(text) => Told::Note(text.to_owned()),
            _ => return,
        };
        let _ended = self.0.send(told);
    }
}
