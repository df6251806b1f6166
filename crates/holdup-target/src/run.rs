//! The run loop: walks the schedule, repeats void trials, keeps the budget, writes the bundle.

use crate::budget::Pace;
use crate::head::{Clock, head};
use crate::parallel::WorkerEvent;
use crate::qemu::BootCache;
use crate::servers;
use crate::session::{Closed, GuestOptions, Readiness, Session, SessionRequest, Target, TrialDraft};
use holdup_bundle::Writer;
use holdup_host::Host;
use holdup_host::lock::HostLock;
use holdup_load::{Cancel, PostgresOptions};
use holdup_model::bundle::{BundleData, BundleHead, Ending};
use holdup_model::plan::StopRule;
use holdup_model::{
    Event, Fact, Machine, Observer, Plan, Problem, ProblemKind, Schedule, Trial, TrialSpec, TrialStatus,
};
use holdup_ssh::SshOptions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// All that a run needs.
pub struct RunRequest<'a> {
    pub host: &'a Host,
    pub plan: &'a Plan,
    /// The plan as TOML.
    pub plan_source: &'a str,
    pub schedule: &'a Schedule,
    pub machine: Machine,
    /// The bundle to write; it must not exist.
    pub out: &'a Path,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// What is worth keeping in the bundle's log from before the run: factors left out, for example.
    pub notes: Vec<String>,
    pub postgres: PostgresOptions,
    /// Where large temporary files go.
    pub workdir: PathBuf,
    /// Where guests get their kernels and files from.
    pub guests: GuestOptions,
    /// How other hosts are worked on.
    pub ssh: SshOptions,
    /// How long to wait for another run on this host to end; zero refuses immediately.
    pub wait: Duration,
    /// What is run here when the schedule is a part of another one.
    pub part: Option<Part>,
    pub cancel: Cancel,
    /// Whether the trials so far give every headline its verdict; asked after each block of a plan that stops then.
    /// Trials come without histograms and evidence.
    pub is_decided: &'a dyn Fn(&BundleData) -> bool,
}

/// What a run knows that does a part of another one.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// What earlier attempts at this part left, if there were some.
    pub earlier: Vec<Earlier>,
    /// What each session has among its facts, unless its trials are computed.
    pub facts: Vec<Fact>,
    /// On how many threads trials are computed.
    pub threads: Option<usize>,
}

/// The bundle of an attempt at a part that ended early.
#[derive(Debug, Clone)]
pub struct Earlier {
    /// The bundle.
    pub path: PathBuf,
    /// Why its trials do not count where they were measured: its session is repeated as a whole.
    pub why_void: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// How it ended; the same as in the bundle.
    pub ending: Ending,
    /// Trials that count.
    pub trials_done: u32,
    pub trials_void: u32,
    /// What could not be put back on the host, with the commands that would do it.
    pub left: Vec<String>,
}

/// Runs a plan and writes its bundle.
///
/// # Errors
/// Before the first trial: when something that the plan needs cannot work here (nothing was touched
/// then), when another run is under way, when the bundle cannot be made. Later errors end the run and
/// are the bundle's ending; only a bundle that cannot be written is an error then.
pub fn run(request: &RunRequest<'_>, observer: &mut dyn Observer) -> Result<RunOutcome, Problem> {
    let target = find_target(&request.plan.target)?;
    if let holdup_model::Availability::Unavailable { reason, remedy } = target.probe_for(request.host, request.plan) {
        let problem = Problem::host(format!("target {}", request.plan.target), reason);
        return Err(match remedy {
            Some(remedy) => problem.hint(remedy),
            None => problem,
        });
    }
    let postgres = servers::with_builds(request, target.is_simulated() || target.is_elsewhere(), observer)?;
    let sessions = SessionRequest {
        clients: None,
        host: request.host,
        plan: request.plan,
        schedule: request.schedule,
        postgres: &postgres,
        workdir: request.workdir.clone(),
        guests: &request.guests,
        boot_cache: BootCache::default(),
        threads: request.part.as_ref().and_then(|part| part.threads),
        ssh: &request.ssh,
        cancel: request.cancel.clone(),
    };
    let clock = if target.is_simulated() { Clock::Simulated } else { Clock::Host };
    // Another host has its own lock and its own journal, which its agent takes and carries out.
    let is_here = clock == Clock::Host && !target.is_elsewhere();
    let lock = || match is_here {
        false => Ok(None),
        true => HostLock::take(request.wait, &|| request.cancel.is_cancelled()).map(Some),
    };
    // A guest that boots for the checks would disturb another run; checks of this host touch nothing, so they come
    // before waiting for the lock.
    let early = request.plan.guest.is_some().then(lock).transpose()?;
    let readiness = target.ready(&sessions, observer)?;
    for note in &readiness.notes {
        observer.event(Event::Note(note));
    }
    let _lock = early.map_or_else(lock, Ok)?;
    if is_here {
        for note in crate::local::recover(request.host)? {
            observer.event(Event::Note(&note));
        }
    }
    let head = BundleHead { emulated: readiness.emulated.clone(), ..head(request, clock) };
    let RunRequest { out, plan, plan_source, schedule, .. } = request;
    let writer = Writer::create(out, &head, plan, plan_source, schedule, &readiness.metrics, &readiness.collectors)?;
    let mut walk = Walk::new(request, clock, writer, so_far(request, &readiness, head));
    for note in &request.notes {
        walk.log(note, observer)?;
    }
    let taken_over = walk.take_over()?;
    let estimate_ns =
        walk.pace.left_ns(walk.planned() - taken_over as u32).min(request.plan.design.budget_ns.unwrap_or(u64::MAX));
    let at_most = request.plan.design.stop == StopRule::Decided;
    observer.event(Event::Begin { trials: walk.planned(), at_most, estimate_ns });
    let ending = walk.sessions(target, &sessions, taken_over, observer)?;
    observer.event(Event::End);
    let Walk { writer, done, void, left, .. } = walk;
    writer.finish(&ending)?;
    Ok(RunOutcome { ending, trials_done: done, trials_void: void, left })
}

pub(crate) fn find_target(id: &str) -> Result<&'static dyn Target, Problem> {
    crate::find(id).ok_or_else(|| {
        let known: Vec<&str> = crate::targets::ALL.iter().map(|t| t.meta().id).collect();
        Problem::usage(format!("target `{id}`"), "there is no such target")
            .hint(format!("targets: {}", known.join(", ")))
    })
}

/// What the stop rule looks at; `None` for a plan that runs a fixed number of blocks.
fn so_far(request: &RunRequest<'_>, readiness: &Readiness, head: BundleHead) -> Option<BundleData> {
    (request.plan.design.stop == StopRule::Decided).then(|| BundleData {
        head,
        plan: request.plan.clone(),
        plan_source: request.plan_source.to_owned(),
        schedule: request.schedule.clone(),
        metrics: readiness.metrics.clone(),
        collectors: Vec::new(),
        environment: Vec::new(),
        trials: Vec::new(),
        log: Vec::new(),
        boot_logs: Vec::new(),
        ending: None,
    })
}

/// The state of a run under way.
pub(crate) struct Walk<'a> {
    pub(crate) request: &'a RunRequest<'a>,
    pub(crate) clock: Clock,
    pub(crate) writer: Writer,
    /// For the stop rule.
    so_far: Option<BundleData>,
    pace: Pace,
    begun: Instant,
    pub(crate) seq: u32,
    pub(crate) done: u32,
    pub(crate) void: u32,
    left: Vec<String>,
    /// How often each planned trial was attempted, over all sessions that broke.
    pub(crate) attempts: BTreeMap<u32, u32>,
}

/// What stops a session half way.
enum Halt {
    /// The session cannot continue; another may be opened.
    Broken(Problem),
    /// The bundle cannot be written; there is no point in measuring more.
    Unwritable(Problem),
}

/// Forwards events and records the notes among them, for the bundle's log.
struct NoteRecorder<'a> {
    observer: &'a mut dyn Observer,
    notes: Vec<String>,
}

impl Observer for NoteRecorder<'_> {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Note(note) = &event {
            self.notes.push((*note).to_owned());
        }
        self.observer.event(event);
    }
}

/// Why a walk through one session ended.
enum Turn {
    /// All its blocks were run.
    Through,
    /// The run ends.
    Ends(Ending),
}

/// How often sessions may break in a row, without a trial that went through, before the run gives up.
const BREAKS_IN_A_ROW: u32 = 4;

/// What to do after a session broke.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Open it anew and repeat the trial.
    Repeat,
    /// Open it anew and go on with the next trial.
    LeaveOut,
    /// End the run.
    GiveUp,
}

/// Where sessions broke.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    /// The trial at which the last one broke.
    at: Option<usize>,
    /// How often at this trial.
    here: u32,
    /// How often since a trial went through.
    in_a_row: u32,
}

impl Broken {
    /// A session broke at the trial `next`. A trial that breaks one session after the other is left out after as many
    /// repeats as a void trial gets.
    pub(crate) fn at(&mut self, next: usize, retries: u32) -> After {
        if self.at == Some(next) {
            self.here += 1;
            self.in_a_row += 1;
        } else {
            // Some trial went through since, unless the one before was left out.
            let left_out = self.at.is_some_and(|at| at + 1 == next) && self.here > retries;
            self.in_a_row = if left_out { self.in_a_row + 1 } else { 1 };
            (self.at, self.here) = (Some(next), 1);
        }
        if self.in_a_row >= BREAKS_IN_A_ROW {
            After::GiveUp
        } else if self.here > retries {
            After::LeaveOut
        } else {
            After::Repeat
        }
    }
}

impl<'a> Walk<'a> {
    fn new(request: &'a RunRequest<'a>, clock: Clock, writer: Writer, so_far: Option<BundleData>) -> Self {
        let design = &request.plan.design;
        let planned_ns = design.settle_ns.saturating_add(design.warmup_ns).saturating_add(design.duration_ns);
        Walk {
            request,
            clock,
            writer,
            so_far,
            pace: Pace::new(planned_ns),
            begun: Instant::now(),
            seq: 0,
            done: 0,
            void: 0,
            left: Vec::new(),
            attempts: BTreeMap::new(),
        }
    }

    fn planned(&self) -> u32 {
        u32::try_from(self.request.schedule.trials.len()).unwrap_or(u32::MAX)
    }

    fn log(&mut self, text: &str, observer: &mut dyn Observer) -> Result<(), Problem> {
        observer.event(Event::Note(text));
        self.writer.log(self.clock.unix_ns(), text)
    }

    /// Runs every session from a trial on, boot by boot. The error is a bundle that cannot be written; the host is restored then too.
    fn sessions(
        &mut self,
        target: &dyn Target,
        sessions: &SessionRequest<'_>,
        mut next: usize,
        observer: &mut dyn Observer,
    ) -> Result<Ending, Problem> {
        if sessions.guests.parallel > 1 {
            return self.side_by_side(target, sessions, observer);
        }
        let trials = &self.request.schedule.trials;
        let mut broken = Broken::default();
        while next < trials.len() {
            let at = trials[next];
            let mut recorder = NoteRecorder { observer, notes: Vec::new() };
            let opened = target.open(sessions, &at, &mut recorder);
            for note in recorder.notes {
                self.writer.log(self.clock.unix_ns(), &note)?;
            }
            let mut session = match opened {
                Ok(session) => session,
                Err(problem) if problem.kind == ProblemKind::Interrupted => return Ok(Ending::Interrupted),
                Err(problem) if problem.kind == ProblemKind::Trial => {
                    let draft = TrialDraft { trial: crate::local::never_begun(&problem), problem: None };
                    if let Err(Halt::Unwritable(problem)) = self.keep(draft, &at, observer) {
                        return Err(problem);
                    }
                    match broken.at(next, self.request.plan.design.retries) {
                        After::GiveUp => return Ok(Ending::Failed { reason: problem.to_string() }),
                        after => next += usize::from(after == After::LeaveOut),
                    }
                    continue;
                }
                Err(problem) => return Ok(Ending::Failed { reason: problem.to_string() }),
            };
            let facts = self.facts_of(session.as_mut());
            let turn = self
                .writer
                .add_environment(at.session, at.boot, &facts)
                .map_err(Halt::Unwritable)
                .and_then(|()| self.blocks(session.as_mut(), &at, &mut next, observer));
            let closed = self.keep_closed(session.close(), &at, observer);
            match turn {
                Ok(Turn::Through) => {}
                Ok(Turn::Ends(ending)) => {
                    closed?;
                    return Ok(ending);
                }
                Err(Halt::Broken(problem)) => match broken.at(next, self.request.plan.design.retries) {
                    After::GiveUp => return Ok(Ending::Failed { reason: problem.to_string() }),
                    after => {
                        self.log(&opened_anew(&problem), observer)?;
                        next += usize::from(after == After::LeaveOut);
                    }
                },
                Err(Halt::Unwritable(problem)) => return Err(problem),
            }
            closed?;
        }
        Ok(Ending::Complete)
    }

    /// Runs every session with several boots at the same time. The stop rule does not apply: blocks do not end in order.
    fn side_by_side(
        &mut self,
        target: &dyn Target,
        sessions: &SessionRequest<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Ending, Problem> {
        let workers = sessions.guests.parallel;
        let note = match target.is_elsewhere() {
            true => format!("up to {workers} hosts ran trials at the same time"),
            false => format!("up to {workers} guests ran at the same time: they took CPU time from each other"),
        };
        self.log(&note, observer)?;
        let budget_ns = self.request.plan.design.budget_ns;
        let mut unwritable = None;
        let mut out_of_time = false;
        let ended = crate::parallel::run(target, sessions, workers, &mut |event| {
            if let Err(problem) = self.handle(event, observer) {
                unwritable = Some(problem.clone());
                return Err(problem);
            }
            let over = budget_ns.is_some_and(|ns| self.begun.elapsed().as_nanos() > u128::from(ns));
            out_of_time |= over && !self.request.cancel.is_cancelled();
            Ok(!out_of_time)
        });
        match (unwritable, ended) {
            (Some(problem), _) => Err(problem),
            _ if out_of_time => Ok(Ending::Budget),
            (None, Err(problem)) if problem.kind != ProblemKind::Interrupted => {
                Ok(Ending::Failed { reason: problem.to_string() })
            }
            _ if self.request.cancel.is_cancelled() => Ok(Ending::Interrupted),
            _ => Ok(Ending::Complete),
        }
    }

    /// Handles an event of one of several boots. The error is a bundle that cannot be written.
    fn handle(&mut self, event: WorkerEvent, observer: &mut dyn Observer) -> Result<(), Problem> {
        match event {
            WorkerEvent::Step(text) => observer.event(Event::Step(&text)),
            WorkerEvent::Note(text) => self.log(&text, observer)?,
            WorkerEvent::Environment(at, facts) => self.writer.add_environment(at.session, at.boot, &facts)?,
            WorkerEvent::Draft(spec, draft) => match self.keep(draft, &spec, observer) {
                Ok(_) => {}
                Err(Halt::Unwritable(problem) | Halt::Broken(problem)) => return Err(problem),
            },
            WorkerEvent::Closed(at, closed) => self.keep_closed(closed, &at, observer)?,
            WorkerEvent::Failed(problem) => self.log(&problem.to_string(), observer)?,
        }
        Ok(())
    }

    fn keep_closed(&mut self, closed: Closed, at: &TrialSpec, observer: &mut dyn Observer) -> Result<(), Problem> {
        for note in closed.notes {
            self.log(&note, observer)?;
        }
        for (name, text) in closed.logs {
            self.writer.add_boot_log(at.boot, &name, &text)?;
        }
        if let Some(problem) = closed.left {
            let text = problem.to_string();
            self.left.push(text.clone());
            self.log(&text, observer)?;
        }
        Ok(())
    }

    /// Runs the blocks of one boot from `next` on.
    fn blocks(
        &mut self,
        session: &mut dyn Session,
        at: &TrialSpec,
        next: &mut usize,
        observer: &mut dyn Observer,
    ) -> Result<Turn, Halt> {
        let trials = &self.request.schedule.trials;
        while let Some(spec) = trials.get(*next).filter(|s| (s.session, s.boot) == (at.session, at.boot)) {
            if self.begins_piece(spec) {
                // Before the budget: a run that has its answer did not run out of time.
                if self.is_decided() {
                    return Ok(Turn::Ends(Ending::Decided));
                }
                if !self.has_time_for_piece(spec) {
                    return Ok(Turn::Ends(Ending::Budget));
                }
            }
            match self.trial(session, spec, observer)? {
                Turn::Through => *next += 1,
                ends @ Turn::Ends(_) => return Ok(ends),
            }
        }
        Ok(Turn::Through)
    }

    fn is_decided(&self) -> bool {
        self.so_far.as_ref().is_some_and(|so_far| !so_far.trials.is_empty() && (self.request.is_decided)(so_far))
    }

    /// True if a trial is the first of what is only of use as a whole: a block, or a session whose arms boot in turn.
    fn begins_piece(&self, spec: &TrialSpec) -> bool {
        let first_of_block = spec.position == 0;
        let trials = &self.request.schedule.trials;
        let before = trials.partition_point(|t| t.seq < spec.seq).checked_sub(1).and_then(|place| trials.get(place));
        first_of_block && (!self.boots_in_turn(spec.session) || before.is_none_or(|b| b.session != spec.session))
    }

    fn boots_in_turn(&self, session: u32) -> bool {
        let mut boots = self.request.schedule.trials.iter().filter(|t| t.session == session).map(|t| t.boot);
        let first = boots.next();
        boots.any(|boot| Some(boot) != first)
    }

    fn has_time_for_piece(&self, spec: &TrialSpec) -> bool {
        let in_turn = self.boots_in_turn(spec.session);
        let same = |t: &&TrialSpec| if in_turn { t.session == spec.session } else { t.block == spec.block };
        let size = self.request.schedule.trials.iter().filter(same).count();
        let spent_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // The first block is always begun: a budget that is too small must still give an answer, "undecided".
        self.seq == 0
            || self.pace.fits(self.request.plan.design.budget_ns, spent_ns, u32::try_from(size).unwrap_or(u32::MAX))
    }

    /// Runs one planned trial with its repeats.
    fn trial(
        &mut self,
        session: &mut dyn Session,
        spec: &TrialSpec,
        observer: &mut dyn Observer,
    ) -> Result<Turn, Halt> {
        let arm = &self.request.schedule.arms[spec.arm as usize];
        for _ in 0..=self.request.plan.design.retries {
            if self.request.cancel.is_cancelled() {
                return Ok(Turn::Ends(Ending::Interrupted));
            }
            let first = self.request.schedule.trials.first().map_or(0, |t| t.seq);
            let left = self.planned().saturating_sub(spec.seq - first);
            observer.event(Event::TrialBegin {
                number: self.seq + 1,
                of: self.planned().max(self.seq + 1),
                arm,
                left_ns: self.pace.left_ns(left),
            });
            let began = Instant::now();
            let draft = session.trial(arm, spec, trial_seed(self.request.plan.design.seed, self.seq));
            for note in session.news() {
                observer.event(Event::Note(&note));
            }
            let problem = self.keep(draft, spec, observer)?;
            self.pace.saw(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            match problem {
                None => return Ok(Turn::Through),
                Some(p) if p.kind == ProblemKind::Interrupted => return Ok(Turn::Ends(Ending::Interrupted)),
                Some(p) if p.kind == ProblemKind::Trial => {}
                Some(p) => return Err(Halt::Broken(p)),
            }
        }
        Ok(Turn::Through)
    }

    /// Numbers a trial, writes it, reports it. Returns the problem that made it void.
    fn keep(
        &mut self,
        draft: TrialDraft,
        spec: &TrialSpec,
        observer: &mut dyn Observer,
    ) -> Result<Option<Problem>, Halt> {
        let mut trial = draft.trial;
        trial.seq = self.seq;
        trial.session = spec.session;
        trial.boot = spec.boot;
        trial.block = spec.block;
        trial.position = spec.position;
        trial.arm = spec.arm;
        let attempts = self.attempts.entry(spec.seq).or_default();
        trial.attempt = *attempts;
        *attempts += 1;
        self.seq += 1;
        match trial.status {
            TrialStatus::Done => self.done += 1,
            TrialStatus::Void { .. } => self.void += 1,
        }
        self.writer.add_trial(&trial).map_err(Halt::Unwritable)?;
        if let Some(so_far) = &mut self.so_far {
            so_far.trials.push(Trial { histograms: Vec::new(), evidence: Vec::new(), ..trial.clone() });
        }
        observer.event(Event::TrialEnd { trial: &trial, arm: &self.request.schedule.arms[spec.arm as usize] });
        Ok(draft.problem)
    }
}

/// The note in the log for a session that broke and is not the last.
pub(crate) fn opened_anew(problem: &Problem) -> String {
    format!("the session broke and is opened anew: {}: {}", problem.what, problem.why)
}

/// A seed for each trial, from the plan's seed and the trial's place: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) fn trial_seed(seed: u64, seq: u32) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(seq) + 1));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(breaks_at: &[usize], retries: u32) -> Vec<After> {
        let mut broken = Broken::default();
        breaks_at.iter().map(|next| broken.at(*next, retries)).collect()
    }

    #[test]
    fn a_trial_that_breaks_its_session_is_repeated_then_left_out() {
        assert_eq!(walk(&[7, 7, 7], 2), [After::Repeat, After::Repeat, After::LeaveOut]);
        assert_eq!(walk(&[7], 0), [After::LeaveOut]);
    }

    #[test]
    fn breaks_with_good_trials_between_never_end_the_run() {
        let far_apart: Vec<usize> = (0..20).map(|n| n * 3).collect();
        assert!(walk(&far_apart, 2).iter().all(|after| *after == After::Repeat));
    }

    #[test]
    fn a_guest_that_never_works_ends_the_run() {
        assert_eq!(walk(&[0, 0, 0, 1], 2).last(), Some(&After::GiveUp));
        assert_eq!(walk(&[0, 1, 2, 3], 0).last(), Some(&After::GiveUp));
    }
}
