//! Boots in parallel: several guests at the same time, on request.
//!
//! Guests that run at the same time take CPU time from each other, so this is for many short questions on a large
//! machine and never the default. Each worker walks whole boots; the bundle is written by the thread that started them,
//! in the order in which trials end.

use crate::run::{After, Broken, opened_anew, trial_seed};
use crate::session::{Closed, SessionRequest, Target, TrialDraft};
use holdup_model::{Event, Fact, Observer, Problem, ProblemKind, TrialSpec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// What a worker reports.
pub(crate) enum WorkerEvent {
    /// Something slow begins.
    Step(String),
    /// Something worth keeping.
    Note(String),
    /// The environment of a boot.
    Environment(TrialSpec, Vec<Fact>),
    /// A trial is over.
    Draft(TrialSpec, TrialDraft),
    /// A session is closed.
    Closed(TrialSpec, Closed),
    /// The run cannot continue.
    Failed(Problem),
}

/// Boots with their trials, in the order of the schedule.
fn boots(trials: &[TrialSpec]) -> Vec<&[TrialSpec]> {
    trials.chunk_by(|a, b| (a.session, a.boot) == (b.session, b.boot)).collect()
}

/// Runs all boots, `workers` at a time, and passes their events to `handle`, which returns whether to continue.
///
/// # Errors
/// The first problem that ends the run.
pub(crate) fn run(
    target: &dyn Target,
    request: &SessionRequest<'_>,
    workers: u32,
    handle: &mut dyn FnMut(WorkerEvent) -> Result<bool, Problem>,
) -> Result<(), Problem> {
    let pieces = boots(&request.schedule.trials);
    let next = Mutex::new(pieces.iter());
    let (sender, events): (Sender<WorkerEvent>, Receiver<WorkerEvent>) = channel();
    // Set when no new boot is to begin: what runs is measured to its end.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                loop {
                    let piece = next.lock().unwrap_or_else(PoisonError::into_inner).next().copied();
                    let Some(piece) = piece.filter(|_| !request.cancel.is_cancelled() && !stop.load(Ordering::SeqCst))
                    else {
                        return;
                    };
                    if let Err(problem) = walk(target, request, piece, &sender) {
                        // A receiver that is gone has ended the run already.
                        let _ended = sender.send(WorkerEvent::Failed(problem));
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut failed: Option<Problem> = None;
        let mut is_ending = false;
        for message in events {
            let go_on = match message {
                // Trials of other boots that are on their way still count.
                WorkerEvent::Failed(problem) => {
                    failed.get_or_insert(problem);
                    Ok(false)
                }
                _ if is_ending => Ok(false),
                other => handle(other),
            };
            match go_on {
                Ok(true) => {}
                Ok(false) => stop.store(true, Ordering::SeqCst),
                Err(problem) => {
                    stop.store(true, Ordering::SeqCst);
                    is_ending = true;
                    failed = Some(problem);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    })
}

/// The trials of one boot.
fn walk(
    target: &dyn Target,
    request: &SessionRequest<'_>,
    piece: &[TrialSpec],
    sender: &Sender<WorkerEvent>,
) -> Result<(), Problem> {
    let retries = request.plan.design.retries;
    let mut broken = Broken::default();
    let mut next = 0;
    // Repeats, of all trials of this boot: each gets its own seed.
    let mut made = 0_u32;
    while let Some(at) = piece.get(next) {
        let mut session = match target.open(request, at, &mut Relay(sender)) {
            Ok(session) => session,
            Err(problem) if problem.kind == ProblemKind::Trial => {
                let draft = TrialDraft { trial: crate::local::never_begun(&problem), problem: None };
                let _ended = sender.send(WorkerEvent::Draft(*at, draft));
                match broken.at(next, retries) {
                    After::GiveUp => return Err(problem),
                    after => next += usize::from(after == After::LeaveOut),
                }
                continue;
            }
            Err(problem) => return Err(problem),
        };
        // A receiver that is gone has ended the run; the session is closed below all the same.
        let _ended = sender.send(WorkerEvent::Environment(*at, session.environment()));
        let mut breaks = None;
        'trials: while let Some(spec) = piece.get(next) {
            for _ in 0..=retries {
                if request.cancel.is_cancelled() {
                    break 'trials;
                }
                let arm = &request.schedule.arms[spec.arm as usize];
                let seed = trial_seed(request.plan.design.seed, spec.seq.wrapping_add(made << 24));
                made += 1;
                let draft = session.trial(arm, spec, seed);
                let problem = draft.problem.clone();
                let _ended = sender.send(WorkerEvent::Draft(*spec, draft));
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
        let _ended = sender.send(WorkerEvent::Closed(*at, session.close()));
        if request.cancel.is_cancelled() {
            return Ok(());
        }
        if let Some(problem) = breaks {
            match broken.at(next, retries) {
                After::GiveUp => return Err(problem),
                after => {
                    let _ended = sender.send(WorkerEvent::Note(opened_anew(&problem)));
                    next += usize::from(after == After::LeaveOut);
                }
            }
        }
    }
    Ok(())
}

struct Relay<'a>(&'a Sender<WorkerEvent>);

impl Observer for Relay<'_> {
    fn event(&mut self, event: Event<'_>) {
        let event = match event {
            Event::Step(text) => WorkerEvent::Step(text.to_owned()),
            Event::Note(text) => WorkerEvent::Note(text.to_owned()),
            _ => return,
        };
        let _ended = self.0.send(event);
    }
}
