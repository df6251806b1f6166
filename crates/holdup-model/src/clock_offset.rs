//! How far a clock of one host is off another one's.

use serde::{Deserialize, Serialize};

/// How far a clock is off another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The remote clock less the own one, ns.
    pub offset_ns: i64,
    /// The true offset is at most this far from `offset_ns`, however the round trip was divided, ns.
    pub error_ns: i64,
}

impl ClockOffset {
    /// From one round trip: sent and answered by the own clock, received and sent back by the remote one (RFC 5905, section 8).
    pub fn of(sent_ns: i64, received_ns: i64, sent_back_ns: i64, answered_ns: i64) -> Self {
        let there = sent_back_ns.saturating_sub(received_ns).max(0);
        let way = answered_ns.saturating_sub(sent_ns).saturating_sub(there).max(0);
        let error_ns = way / 2 + way % 2;
        ClockOffset { offset_ns: received_ns.saturating_sub(sent_ns.saturating_add(way / 2)), error_ns }
    }

    /// The more exact one.
    #[must_use]
    pub fn better(self, other: Option<Self>) -> Self {
        other.filter(|other| other.error_ns <= self.error_ns).unwrap_or(self)
    }

    /// How far this clock is ahead of another, both against the same third one.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        ClockOffset {
            offset_ns: self.offset_ns.saturating_sub(other.offset_ns),
            error_ns: self.error_ns.saturating_add(other.error_ns),
        }
    }

    /// The most that the true offset is off `applied_ns`.
    pub fn error_of(self, applied_ns: i64) -> i64 {
        self.offset_ns.saturating_sub(applied_ns).saturating_abs().saturating_add(self.error_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_offset_is_within_the_error_however_the_round_trip_was_divided() {
        for (out_ns, back_ns) in [(0, 1_000), (1_000, 0), (400, 601), (1, 0)] {
            for (offset_ns, there_ns) in [(-7_200_000_000_000, 0), (0, 5), (5, 100_000)] {
                let sent_ns = 1_000_000;
                let received_ns = sent_ns + out_ns + offset_ns;
                let answered_ns = sent_ns + out_ns + there_ns + back_ns;
                let clock = ClockOffset::of(sent_ns, received_ns, received_ns + there_ns, answered_ns);
                assert!(
                    (clock.offset_ns - offset_ns).abs() <= clock.error_ns && clock.error_ns <= 501,
                    "{out_ns} {back_ns} {offset_ns} {clock:?}"
                );
            }
        }
    }

    #[test]
    fn an_offset_that_is_applied_later_is_off_by_the_drift_as_well() {
        let clock = ClockOffset { offset_ns: 1_000, error_ns: 30 };
        assert_eq!([900, 1_000, 1_100].map(|applied_ns| clock.error_of(applied_ns)), [130, 30, 130]);
        assert_eq!(
            clock.less(ClockOffset { offset_ns: 400, error_ns: 5 }),
            ClockOffset { offset_ns: 600, error_ns: 35 }
        );
        assert_eq!(clock.better(Some(ClockOffset { error_ns: 31, ..clock })), clock);
    }
}
