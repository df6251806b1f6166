//! One bundle of the bundles of parts: the same bytes in any order in which the parts were run.

use crate::head::{Clock, head};
use crate::run::{RunOutcome, RunRequest, find_target};
use holdup_bundle::{Reader, Writer};
use holdup_model::bundle::{BundleData, BundleHead, Ending};
use holdup_model::plan::StopRule;
use holdup_model::{EnvironmentReading, MemoryBudget, Problem, Trial, TrialSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// When and under which name a run of parts was begun.
#[derive(Debug, Clone)]
pub struct Begun {
    /// The random name of the run.
    pub run_id: String,
    /// ns since 1970.
    pub unix_ns: i64,
    /// True if the bundle takes the place of one: of the same run, with trials missing.
    pub replaces: bool,
}

/// What became of a part that was added.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in the bundle.
    Whole,
    /// It is in the bundle as far as was needed: every headline has its verdict, and no further part is needed.
    Decides,
}

/// A part that cannot be added.
#[derive(Debug)]
pub enum NotAdded {
    /// The part is damaged: it must be run again, and the merge begun again.
    Damaged(Problem),
    /// The bundle cannot be written.
    Unwritable(Problem),
}

/// A bundle under way to which parts are added in the order of the schedule. It gets its name when it is whole.
pub struct Merger<'a> {
    request: &'a RunRequest<'a>,
    clock: Clock,
    begun: Begun,
    writer: Option<Writer>,
    so_far: Option<BundleData>,
    /// The sessions whose arms boot in turn.
    in_turn: BTreeSet<u32>,
    last: Option<Trial>,
    last_readings: BTreeMap<u32, EnvironmentReading>,
    seq: u32,
    done: u32,
    void: u32,
    /// Trials that are missing and come before the first part that is there, each with the reason.
    ahead: Vec<(TrialSpec, Problem)>,
    /// How many trials are missing, and why the first of them is.
    missing: usize,
    why_missing: Option<Problem>,
    /// How the run ends that the parts so far make up.
    ending: Ending,
}

impl<'a> Merger<'a> {
    /// Begins a bundle.
    ///
    /// # Errors
    /// When there is no such target, or the bundle is there already.
    pub fn new(request: &'a RunRequest<'a>, begun: Begun) -> Result<Self, Problem> {
        let target = find_target(&request.plan.target)?;
        let clock = if target.is_simulated() { Clock::Simulated } else { Clock::Host };
        if !begun.replaces && request.out.symlink_metadata().is_ok() {
            return Err(holdup_bundle::taken(request.out));
        }
        Ok(Merger {
            request,
            clock,
            begun,
            writer: None,
            so_far: None,
            in_turn: in_turn(request),
            last: None,
            last_readings: BTreeMap::new(),
            seq: 0,
            done: 0,
            void: 0,
            ahead: Vec::new(),
            missing: 0,
            why_missing: None,
            ending: Ending::Complete,
        })
    }

    /// Adds the next part.
    ///
    /// # Errors
    /// When the part is damaged or the bundle cannot be written; then the merge is over.
    pub fn add(&mut self, part: &Path) -> Result<Added, NotAdded> {
        let reader = Reader::open(part, &MemoryBudget::default()).map_err(NotAdded::Damaged)?;
        if reader.data().ending.is_none() {
            let problem = Problem::host(format!("part {}", part.display()), "it has no ending");
            return Err(NotAdded::Damaged(problem));
        }
        if self.writer.is_none() {
            self.begin(&reader).map_err(NotAdded::Unwritable)?;
            for (spec, problem) in std::mem::take(&mut self.ahead) {
                self.missing_trial(&spec, &problem).map_err(NotAdded::Unwritable)?;
            }
        }
        for seq in 0..reader.trials() {
            let trial = reader.trial(seq).map_err(NotAdded::Damaged)?;
            if self.begins_piece(&trial) && self.is_decided() {
                self.ending = Ending::Decided;
                return Ok(Added::Decides);
            }
            self.trial(trial, &reader).map_err(NotAdded::Unwritable)?;
        }
        self.rest(&reader).map_err(NotAdded::Unwritable)?;
        if let Some(Ending::Budget | Ending::Failed { .. }) = &reader.data().ending {
            self.ending = reader.data().ending.clone().unwrap_or(Ending::Complete);
        }
        Ok(Added::Whole)
    }

    /// Notes that trials are missing, which come next in the schedule: each is in the bundle as void, with the reason.
    ///
    /// # Errors
    /// When the bundle cannot be written.
    pub fn miss(&mut self, trials: &[TrialSpec], problem: &Problem) -> Result<(), Problem> {
        self.missing += trials.len();
        self.why_missing.get_or_insert_with(|| problem.clone());
        for spec in trials {
            match self.writer {
                Some(_) => self.missing_trial(spec, problem)?,
                // What a bundle begins with is known from a part.
                None => self.ahead.push((*spec, problem.clone())),
            }
        }
        Ok(())
    }

    fn missing_trial(&mut self, spec: &TrialSpec, problem: &Problem) -> Result<(), Problem> {
        let TrialSpec { session, boot, block, position, arm, .. } = *spec;
        let (started_unix_ns, ended_unix_ns) = (self.clock.unix_ns(), self.clock.unix_ns());
        let never = crate::local::never_begun(problem);
        self.write(Trial { session, boot, block, position, arm, started_unix_ns, ended_unix_ns, ..never })
    }

    /// Ends the bundle and puts it in its place.
    ///
    /// # Errors
    /// When it cannot be written, no part was added, or another bundle took its place.
    pub fn finish(mut self) -> Result<RunOutcome, Problem> {
        let out = self.request.out;
        if let Some(Problem { what, why, .. }) = &self.why_missing {
            let (missing, all) = (self.missing, self.request.schedule.trials.len());
            self.ending = Ending::Failed { reason: format!("{missing} of {all} trials are missing: {what}: {why}") };
        }
        let Some(writer) = self.writer else {
            return Err(Problem::internal(format!("bundle {}", out.display()), "no part was added to it"));
        };
        writer.end(Some(&self.ending), self.begun.replaces)?;
        Ok(RunOutcome { ending: self.ending, trials_done: self.done, trials_void: self.void, left: Vec::new() })
    }

    fn begin(&mut self, first: &Reader) -> Result<(), Problem> {
        let RunRequest { plan, plan_source, schedule, notes, .. } = self.request;
        let of_parts = first.data();
        let mut head = BundleHead { emulated: of_parts.head.emulated.clone(), ..head(self.request, self.clock) };
        if self.clock == Clock::Host {
            (head.run_id, head.created_unix_ns) = (self.begun.run_id.clone(), self.begun.unix_ns);
        }
        let (metrics, collectors) = (&of_parts.metrics, &of_parts.collectors);
        let mut writer =
            Writer::create_copy(self.request.out, &head, plan, plan_source, schedule, metrics, collectors)?;
        for note in notes {
            writer.log(head.created_unix_ns, note)?;
        }
        self.so_far = (plan.design.stop == StopRule::Decided).then(|| BundleData {
            head,
            plan: (*plan).clone(),
            plan_source: (*plan_source).to_owned(),
            schedule: (*schedule).clone(),
            metrics: metrics.clone(),
            ..of_parts.clone()
        });
        if let Some(so_far) = &mut self.so_far {
            (so_far.environment, so_far.log, so_far.ending) = (Vec::new(), Vec::new(), None);
        }
        self.writer = Some(writer);
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut Writer, Problem> {
        self.writer.as_mut().ok_or_else(|| Problem::internal("a merge", "it was not begun"))
    }

    fn trial(&mut self, trial: Trial, from: &Reader) -> Result<(), Problem> {
        if self.last.as_ref().is_none_or(|last| last.boot != trial.boot) || trial.seq == 0 {
            self.readings(trial.boot, from)?;
        }
        self.write(trial)
    }

    fn write(&mut self, mut trial: Trial) -> Result<(), Problem> {
        trial.seq = self.seq;
        self.writer()?.add_trial(&trial)?;
        self.seq += 1;
        match trial.is_done() {
            true => self.done += 1,
            false => self.void += 1,
        }
        let slim = Trial { histograms: Vec::new(), evidence: Vec::new(), ..trial };
        if let Some(so_far) = &mut self.so_far {
            so_far.trials.push(slim.clone());
        }
        self.last = Some(slim);
        Ok(())
    }

    /// The readings of a boot. A simulated one that several parts have in common is the same each time.
    fn readings(&mut self, boot: u32, from: &Reader) -> Result<(), Problem> {
        for reading in from.data().environment.iter().filter(|reading| reading.boot == boot) {
            if self.clock == Clock::Simulated && self.last_readings.get(&boot) == Some(reading) {
                continue;
            }
            self.writer()?.add_environment(reading.session, boot, &reading.facts)?;
            self.last_readings.insert(boot, reading.clone());
        }
        Ok(())
    }

    /// What a part has beside its trials.
    fn rest(&mut self, from: &Reader) -> Result<(), Problem> {
        let writer = self.writer()?;
        for (unix_ns, text) in &from.data().log {
            writer.log(*unix_ns, text)?;
        }
        writer.copy_boot_logs(from)
    }

    /// True if a trial is the first of a block, or of a session whose arms boot in turn.
    fn begins_piece(&self, trial: &Trial) -> bool {
        let Some(last) = &self.last else { return false };
        let begins_session = last.session != trial.session;
        let begins_block = last.block != trial.block && trial.position == 0;
        begins_session || (begins_block && !self.in_turn.contains(&trial.session))
    }

    fn is_decided(&self) -> bool {
        self.so_far.as_ref().is_some_and(|so_far| !so_far.trials.is_empty() && (self.request.is_decided)(so_far))
    }
}

fn in_turn(request: &RunRequest<'_>) -> BTreeSet<u32> {
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    let mut several = BTreeSet::new();
    for trial in &request.schedule.trials {
        if *first.entry(trial.session).or_insert(trial.boot) != trial.boot {
            several.insert(trial.session);
        }
    }
    several
}
