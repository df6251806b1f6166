//! The way of a run through the queue: submit, watch, repeat what was lost, hand on what is whole.

use crate::client::Slurm;
use crate::decide::{Act, View, decide};
use crate::folder::RunFolder;
use crate::job::Job;
use crate::queue::{State, Task};
use crate::stage::Courier;
use holdup_model::{Event, Observer, Problem};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// A part that is handed on.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// It is in this file.
    Whole(&'a Path),
    /// It is missing for good, for this reason.
    Missing(&'a Problem),
}

/// What became of a part that was handed on.
pub enum Collected {
    /// It is in the bundle.
    Whole,
    /// No further part is needed.
    Decides,
    /// It is damaged: it must be run again, and all parts are handed on anew from the first.
    Damaged(Problem),
}

/// All that following needs.
pub struct Follow<'a> {
    pub slurm: Slurm,
    pub folder: &'a RunFolder,
    pub job: &'a Job,
    /// Whether the user wants to end it.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// The shortest and the longest time between two looks at the queue: one question for all tasks.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// The longest time where nodes wait for what is brought to them.
const STAGED_LOOKS: Duration = Duration::from_secs(4);
/// The time between two looks at the folder: a part that is whole need not wait for the next question to the queue.
const GLANCES: Duration = Duration::from_secs(1);
/// How long Slurm may be silent.
const SILENCE: Duration = Duration::from_secs(600);

/// Follows a run until all its parts were handed on, in the order of the schedule; submits what was never submitted and what
/// was lost. Parts that cannot be run are handed on as missing when all others are there; gives why, if there are any.
///
/// # Errors
/// When the user interrupts it (then its jobs continue), no part can be run, Slurm cannot be asked for ten minutes, or a
/// part cannot be handed on.
pub fn follow(
    request: &Follow<'_>,
    observer: &mut dyn Observer,
    collect: &mut dyn FnMut(u32, Piece<'_>) -> Result<Collected, Problem>,
) -> Result<Option<Problem>, Problem> {
    let mut state = Following::new(request);
    loop {
        state.look(observer)?;
        if state.whole.is_empty() && state.is_given_up() {
            return Err(state
                .why_missing(state.parts)
                .unwrap_or_else(|| Problem::internal("the run", "it has no parts")));
        }
        if state.hand_on(observer, collect)? {
            return Ok(state.why_missing(state.next));
        }
        state.submit(observer)?;
        state.rest()?;
    }
}

struct Following<'a> {
    request: &'a Follow<'a>,
    name: String,
    parts: u32,
    /// The next part to hand on.
    next: u32,
    whole: BTreeSet<u32>,
    tasks: BTreeMap<u32, Task>,
    submitted: BTreeMap<u32, u32>,
    /// The job of each part that was submitted here, the last one.
    jobs: BTreeMap<u32, u32>,
    ended: BTreeMap<u32, Instant>,
    failed: BTreeMap<u32, Problem>,
    to_submit: Vec<u32>,
    last_word: Instant,
    pause: Duration,
    said: String,
    /// Where the jobs bring what they need.
    courier: Option<Courier<'a>>,
}

impl<'a> Following<'a> {
    fn new(request: &'a Follow<'a>) -> Self {
        Following {
            request,
            name: request.job.name(),
            parts: u32::try_from(request.job.parts.len()).unwrap_or(u32::MAX),
            next: 0,
            whole: BTreeSet::new(),
            tasks: BTreeMap::new(),
            submitted: BTreeMap::new(),
            jobs: BTreeMap::new(),
            ended: BTreeMap::new(),
            failed: BTreeMap::new(),
            to_submit: Vec::new(),
            last_word: Instant::now(),
            pause: LOOKS.0,
            said: String::new(),
            courier: request.job.stage.as_ref().map(|_| Courier::new(request.slurm, request.folder, request.job)),
        }
    }

    /// Looks at the queue and the folder, and decides what is to be done about each part that is not whole.
    fn look(&mut self, observer: &mut dyn Observer) -> Result<(), Problem> {
        self.to_submit.clear();
        match self.request.slurm.tasks(&self.name) {
            Ok((tasks, cancelled)) => {
                (self.tasks, self.last_word) = (tasks, Instant::now());
                self.note_cancelled(&cancelled);
            }
            Err(problem) if self.last_word.elapsed() > SILENCE || self.submitted.is_empty() => return Err(problem),
            Err(problem) => {
                observer.event(Event::Step(&format!("{}: {}; asked again", problem.what, problem.why)));
                return Ok(());
            }
        }
        if let Some(courier) = &mut self.courier {
            for (number, problem) in courier.serve(&self.tasks) {
                observer.event(Event::Note(&format!("part {number}: {}: {}; tried again", problem.what, problem.why)));
            }
        }
        // After the queue: a part that ends between both looks is seen as running and whole.
        self.whole = self.request.folder.whole().into_iter().collect();
        let mut accounted = None;
        for number in (0..self.parts).filter(|number| !self.whole.contains(number)).collect::<Vec<_>>() {
            if self.failed.contains_key(&number) {
                continue;
            }
            if !self.tasks.contains_key(&number) && self.submitted.contains_key(&number) {
                let known = accounted.get_or_insert_with(|| self.request.slurm.accounted(&self.name));
                self.tasks.extend(known.remove(&number).map(|task| (number, task)));
            }
            match decide(&self.view(number)) {
                Act::Wait => {}
                Act::Submit(why) => {
                    if !why.is_empty() {
                        observer.event(Event::Note(&format!("part {number} is repeated: {why}")));
                    }
                    self.to_submit.push(number);
                }
                Act::Fail(problem) => {
                    observer.event(Event::Note(&format!("{}: {}", problem.what, problem.why)));
                    self.failed.insert(number, problem);
                }
                Act::FailAll(problem) => {
                    self.request.slurm.cancel(&self.name)?;
                    let missing = (0..self.parts).filter(|number| !self.whole.contains(number));
                    self.failed.extend(missing.map(|number| (number, problem.clone())));
                    self.to_submit.clear();
                    break;
                }
            }
        }
        self.say(observer);
        Ok(())
    }

    /// Adds the tasks of jobs that were cancelled before they began, which the queue does not list.
    fn note_cancelled(&mut self, cancelled: &BTreeSet<u32>) {
        for (number, job) in self.jobs.iter().filter(|(_, job)| cancelled.contains(job)) {
            if self.tasks.get(number).is_none_or(|known| known.job < *job) {
                self.tasks.insert(*number, Task { job: *job, ..Task::new(State::Cancelled) });
            }
        }
    }

    fn view(&mut self, number: u32) -> View<'_> {
        let task = self.tasks.get(&number);
        if task.is_some_and(|task| task.state.is_live()) {
            self.ended.remove(&number);
            // One that another holdup submitted is followed as if this one had.
            self.submitted.entry(number).or_insert(1);
        } else {
            self.ended.entry(number).or_insert_with(Instant::now);
        }
        let failed = task.filter(|task| task.state == State::Failed);
        View {
            number,
            task,
            problem: failed.and_then(|_| self.request.folder.problem(number)),
            trouble: self.courier.as_ref().and_then(|courier| courier.trouble(number)),
            exit_code: failed.and_then(|task| self.request.slurm.exit_code(task.job, number)),
            submitted: self.submitted.get(&number).copied().unwrap_or_default(),
            ended: self.ended.get(&number).map_or(Duration::ZERO, Instant::elapsed),
            is_simulated: self.request.job.is_simulated,
            folder: self.request.folder.path().to_str().unwrap_or_default(),
        }
    }

    /// One line about how far it is, when that changed.
    fn say(&mut self, observer: &mut dyn Observer) {
        let live = |state: State| self.tasks.values().filter(|task| task.state == state).count();
        let (running, waiting) = (live(State::Running), live(State::Pending));
        let reason = self.tasks.values().find(|task| task.state == State::Pending).map(|task| task.reason.as_str());
        let why = reason
            .filter(|_| running == 0)
            .filter(|why| !why.is_empty())
            .map_or(String::new(), |why| format!(" ({why})"));
        let said = format!("{} of {} parts, {running} running, {waiting} waiting{why}", self.whole.len(), self.parts);
        let is_begun = !self.tasks.is_empty() || !self.whole.is_empty();
        if said != self.said && is_begun {
            observer.event(Event::Step(&said));
            (self.said, self.pause) = (said, LOOKS.0);
        }
    }

    /// Hands on the parts that are whole, as far as none before them is missing that may still come. Whether that was all.
    fn hand_on(
        &mut self,
        observer: &mut dyn Observer,
        collect: &mut dyn FnMut(u32, Piece<'_>) -> Result<Collected, Problem>,
    ) -> Result<bool, Problem> {
        let is_given_up = self.is_given_up();
        while self.next < self.parts {
            if (self.request.is_cancelled)() {
                return Err(Problem::interrupted("following the jobs"));
            }
            let path = self.request.folder.part(self.next);
            let piece = match self.failed.get(&self.next) {
                _ if self.whole.contains(&self.next) => Piece::Whole(&path),
                Some(problem) if is_given_up => Piece::Missing(problem),
                _ => break,
            };
            match collect(self.next, piece)? {
                Collected::Whole => self.next += 1,
                Collected::Decides => {
                    observer.event(Event::Note("every headline has its verdict: what still runs is cancelled"));
                    self.request.slurm.cancel(&self.name)?;
                    return Ok(true);
                }
                Collected::Damaged(problem) => {
                    let number = self.next;
                    observer.event(Event::Note(&format!("part {number} is repeated: {}", problem.why)));
                    self.request.folder.put_aside(number)?;
                    self.whole.remove(&number);
                    self.to_submit.push(number);
                    self.next = 0;
                    return Ok(false);
                }
            }
        }
        Ok(self.next == self.parts)
    }

    fn submit(&mut self, observer: &mut dyn Observer) -> Result<(), Problem> {
        if self.to_submit.is_empty() {
            return Ok(());
        }
        self.to_submit.sort_unstable();
        self.to_submit.dedup();
        for number in &self.to_submit {
            self.request.folder.forget_problem(*number);
        }
        let job =
            self.request.slurm.submit(&self.request.job.sbatch, &self.to_submit, &self.request.folder.script())?;
        for number in self.to_submit.drain(..) {
            *self.submitted.entry(number).or_default() += 1;
            self.jobs.insert(number, job);
            self.ended.remove(&number);
        }
        self.pause = LOOKS.0;
        observer.event(Event::Note(&format!("submitted as job {job}")));
        Ok(())
    }

    /// True if some parts are missing for good, and no other is under way.
    fn is_given_up(&self) -> bool {
        let mut missing = (0..self.parts).filter(|number| !self.whole.contains(number));
        !self.failed.is_empty() && missing.all(|number| self.failed.contains_key(&number))
    }

    /// Why parts before this one are missing for good, if any are. Those after it may not be needed.
    fn why_missing(&self, end: u32) -> Option<Problem> {
        let mut missing = self.failed.range(..end).filter(|(number, _)| !self.whole.contains(number));
        let (_, first) = missing.next()?;
        let others = match missing.count() {
            0 => String::new(),
            more => format!(" (and {more} more parts)"),
        };
        Some(Problem { why: format!("{}{others}", first.why), ..first.clone() })
    }

    fn rest(&mut self) -> Result<(), Problem> {
        let begun = Instant::now();
        let mut glance = begun;
        while begun.elapsed() < self.pause {
            if (self.request.is_cancelled)() {
                return Err(Problem::interrupted("following the jobs"));
            }
            std::thread::sleep(Duration::from_millis(20).min(self.pause));
            if glance.elapsed() >= GLANCES {
                glance = Instant::now();
                if self.request.folder.whole().len() != self.whole.len() {
                    break;
                }
            }
        }
        // Nodes wait for what is brought to them.
        let most = if self.courier.is_some() { STAGED_LOOKS } else { LOOKS.1 };
        self.pause = (self.pause * 3 / 2).min(most);
        Ok(())
    }
}
