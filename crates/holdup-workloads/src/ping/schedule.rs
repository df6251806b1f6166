//! When messages are to be sent, and how long they are.

use crate::ping::playback::Recorded;
use std::sync::Arc;

/// When the messages of a trial are due.
pub(crate) enum Schedule {
    /// Each as soon as the one before is sent.
    AtOnce { size: usize },
    /// Messages per second, in bursts.
    Even(Even),
    /// As recorded, over and over.
    Recorded {
        recorded: Arc<Recorded>,
        /// When the current round began, CLOCK_MONOTONIC.
        round_ns: u64,
        /// The next message of the round.
        next: usize,
    },
}

/// The steps of an even rate: whole ns, and what is left of a division is carried.
pub(crate) struct Even {
    size: usize,
    burst: u64,
    rate: u64,
    /// The length of one burst's turn: ns, and `rate`-ths of an ns.
    turn_ns: u64,
    turn_rest: u64,
    due_ns: u64,
    due_rest: u64,
    /// How many of the burst have gone.
    gone: u64,
}

/// One message's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// When it is due; `None` for immediately.
    pub(crate) due_ns: Option<u64>,
    /// Its size in bytes.
    pub(crate) size: usize,
}

impl Schedule {
    /// `rate` messages of this size per second, in bursts; 0 for as fast as can be.
    pub(crate) fn of_rate(rate: u64, burst: u64, size: usize) -> Self {
        if rate == 0 {
            return Schedule::AtOnce { size };
        }
        let burst_ns = burst.max(1).saturating_mul(1_000_000_000);
        let (turn_ns, turn_rest) = (burst_ns / rate, burst_ns % rate);
        Schedule::Even(Even { size, burst: burst.max(1), rate, turn_ns, turn_rest, due_ns: 0, due_rest: 0, gone: 0 })
    }

    pub(crate) fn of_recorded(recorded: Arc<Recorded>) -> Self {
        Schedule::Recorded { recorded, round_ns: 0, next: 0 }
    }

    /// The first message is due now.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        match self {
            Schedule::AtOnce { .. } => (),
            Schedule::Even(even) => even.due_ns = now_ns,
            Schedule::Recorded { round_ns, .. } => *round_ns = now_ns,
        }
    }

    /// The turn that is next.
    #[inline]
    pub(crate) fn turn(&self) -> Turn {
        match self {
            Schedule::AtOnce { size } => Turn { due_ns: None, size: *size },
            Schedule::Even(even) => Turn { due_ns: Some(even.due_ns), size: even.size },
            Schedule::Recorded { recorded, round_ns, next } => {
                let (at_ns, size) = recorded.message(*next);
                Turn { due_ns: Some(round_ns + at_ns), size }
            }
        }
    }

    /// The turn is over, also when its message was not sent.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match self {
            Schedule::AtOnce { .. } => (),
            Schedule::Even(even) => even.advance(),
            Schedule::Recorded { recorded, round_ns, next } => {
                *next += 1;
                if *next == recorded.len() {
                    *next = 0;
                    *round_ns += recorded.round_ns();
                }
            }
        }
    }
}

impl Even {
    #[inline]
    fn advance(&mut self) {
        self.gone += 1;
        if self.gone < self.burst {
            return;
        }
        self.gone = 0;
        self.due_ns = self.due_ns.saturating_add(self.turn_ns);
        self.due_rest += self.turn_rest;
        if self.due_rest >= self.rate {
            self.due_rest -= self.rate;
            self.due_ns = self.due_ns.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(mut schedule: Schedule, turns: usize) -> Vec<Option<u64>> {
        schedule.begin(1_000);
        let mut seen = Vec::new();
        for _ in 0..turns {
            seen.push(schedule.turn().due_ns);
            schedule.advance();
        }
        seen
    }

    #[test]
    fn messages_are_due_at_an_even_rate_without_drift() {
        assert_eq!(due(Schedule::of_rate(0, 1, 14), 2), [None, None]);
        assert_eq!(due(Schedule::of_rate(1_000_000, 1, 14), 3), [Some(1_000), Some(2_000), Some(3_000)]);
        let bursts = due(Schedule::of_rate(1_000_000, 2, 14), 4);
        assert_eq!(bursts, [Some(1_000), Some(1_000), Some(3_000), Some(3_000)]);
        let thirds = due(Schedule::of_rate(3, 1, 14), 7);
        assert_eq!((thirds[3], thirds[6]), (Some(1_000_001_000), Some(2_000_001_000)), "exact after each second");
    }

    #[test]
    fn what_was_recorded_is_played_over_and_over() {
        let recorded = Recorded::parse(b"1.0,14\n1.5,20\n", 8, 100).expect("valid");
        let mut schedule = Schedule::of_recorded(Arc::new(recorded));
        schedule.begin(0);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let turn = schedule.turn();
            seen.push((turn.due_ns.unwrap(), turn.size));
            schedule.advance();
        }
        assert_eq!(seen, [(0, 14), (500_000_000, 20), (1_000_000_000, 14), (1_500_000_000, 20)]);
    }
}
