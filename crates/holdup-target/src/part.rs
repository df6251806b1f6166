//! A part of a schedule: what it takes over from earlier attempts, and what its sessions say of the node.

use crate::head::Clock;
use crate::run::{Part, Walk};
use crate::session::Session;
use holdup_bundle::Reader;
use holdup_model::{Fact, Problem, Schedule, Trial, TrialSpec, TrialStatus};

impl Walk<'_> {
    /// Takes over what earlier attempts at this part left, and gives the place in the schedule from which on is to be run.
    ///
    /// Computed trials count, as they would come out the same again. Those that were measured are void: their session
    /// is set up anew, perhaps on another node, and is measured as a whole.
    pub(crate) fn take_over(&mut self) -> Result<usize, Problem> {
        let Some(part) = &self.request.part else { return Ok(0) };
        let Some((reader, why_void)) = fullest(part) else { return Ok(0) };
        let mut place = 0;
        let mut last = None;
        for seq in 0..reader.trials() {
            // What is damaged is run again.
            let Ok(mut trial) = reader.trial(seq) else { break };
            let schedule = self.request.schedule;
            let Some(spec) = planned(schedule, place, &trial, self.clock) else { break };
            if last != Some(trial.boot) {
                last = Some(trial.boot);
                for reading in reader.data().environment.iter().filter(|reading| reading.boot == trial.boot) {
                    self.writer.add_environment(reading.session, reading.boot, &reading.facts)?;
                }
            }
            trial.seq = self.seq;
            if self.clock == Clock::Host && trial.is_done() {
                trial.status = TrialStatus::Void { reason: why_void.to_owned() };
            }
            match trial.is_done() {
                true => self.done += 1,
                false => self.void += 1,
            }
            self.writer.add_trial(&trial)?;
            self.seq += 1;
            *self.attempts.entry(spec.seq).or_default() = trial.attempt + 1;
            place += usize::from(self.clock == Clock::Simulated);
        }
        Ok(place)
    }

    /// The environment at the begin of a session, with what the part adds to that of a host.
    pub(crate) fn facts_of(&self, session: &mut dyn Session) -> Vec<Fact> {
        let mut facts = session.environment();
        if let (Some(part), Clock::Host) = (&self.request.part, self.clock) {
            facts.extend(part.facts.iter().cloned());
        }
        facts
    }
}

/// The earlier attempt that came furthest, each of which holds what those before it left.
fn fullest(part: &Part) -> Option<(Reader, &str)> {
    let readers = part.earlier.iter().filter_map(|earlier| Some((Reader::open(&earlier.path).ok()?, &*earlier.why_void)));
    readers.max_by_key(|(reader, _)| reader.trials())
}

/// The planned trial that a trial is of; of a simulation it must be the next one.
fn planned<'s>(schedule: &'s Schedule, place: usize, trial: &Trial, clock: Clock) -> Option<&'s TrialSpec> {
    let is_of = |spec: &&TrialSpec| {
        (spec.session, spec.boot, spec.block, spec.position, spec.arm)
            == (trial.session, trial.boot, trial.block, trial.position, trial.arm)
    };
    match clock {
        Clock::Simulated => schedule.trials.get(place).filter(is_of),
        Clock::Host => schedule.trials.iter().find(is_of),
    }
}
