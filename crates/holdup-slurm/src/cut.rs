//! A schedule in parts.

use holdup_model::Schedule;
use serde::{Deserialize, Serialize};

/// A part of a schedule: the places of its first trial and of the one after its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub first: u32,
    /// The one after the last.
    pub end: u32,
}

impl Span {
    /// How many trials it has.
    pub fn len(self) -> u32 {
        self.end - self.first
    }

    /// True if it has none.
    pub fn is_empty(self) -> bool {
        self.end == self.first
    }

    /// The schedule of the part: all arms, and its trials with the numbers that they have in the whole.
    pub fn of(self, schedule: &Schedule) -> Schedule {
        let trials = schedule.trials.get(self.first as usize..self.end as usize).unwrap_or_default();
        Schedule { arms: schedule.arms.clone(), trials: trials.to_vec() }
    }
}

/// Cuts a schedule. What is measured is cut between sessions alone, because a session is set up once for all its trials;
/// what is computed is cut into at most `most` parts of the same size.
pub fn cut(schedule: &Schedule, is_simulated: bool, most: u32) -> Vec<Span> {
    let trials = u32::try_from(schedule.trials.len()).unwrap_or(u32::MAX);
    if is_simulated {
        return even(trials, most);
    }
    let mut spans = Vec::new();
    let mut first = 0;
    for session in schedule.trials.chunk_by(|a, b| a.session == b.session) {
        let end = first + session.len() as u32;
        spans.push(Span { first, end });
        first = end;
    }
    spans
}

/// At most this many parts of the same size.
pub fn even(trials: u32, most: u32) -> Vec<Span> {
    let parts = most.clamp(1, trials.max(1));
    let end = |part: u32| (u64::from(trials) * u64::from(part) / u64::from(parts)) as u32;
    (0..parts).map(|part| Span { first: end(part), end: end(part + 1) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::TrialSpec;
    use proptest::prelude::*;

    fn schedule(sessions: &[u32]) -> Schedule {
        let mut trials = Vec::new();
        for (session, count) in sessions.iter().enumerate() {
            for _ in 0..*count {
                let (seq, session) = (trials.len() as u32, session as u32);
                trials.push(TrialSpec { seq, session, boot: session, block: seq, position: 0, arm: 0 });
            }
        }
        Schedule { arms: Vec::new(), trials }
    }

    proptest! {
        #[test]
        fn every_trial_is_in_one_part(sessions in prop::collection::vec(1_u32..9, 1..9), most in 0_u32..40, simulated: bool) {
            let schedule = schedule(&sessions);
            let spans = cut(&schedule, simulated, most);
            let joined: Vec<TrialSpec> = spans.iter().flat_map(|span| span.of(&schedule).trials).collect();
            prop_assert_eq!(&joined, &schedule.trials);
            prop_assert!(spans.iter().all(|span| !span.is_empty()));
            if simulated {
                prop_assert!(spans.len() as u32 <= most.max(1));
                let (least, largest) = (spans.iter().map(|s| s.len()).min(), spans.iter().map(|s| s.len()).max());
                prop_assert!(largest.unwrap() - least.unwrap() <= 1);
            } else {
                prop_assert_eq!(spans.len(), sessions.len());
            }
        }
    }
}
