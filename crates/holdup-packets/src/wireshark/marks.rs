//! What is told of one segment.

use crate::kinds::Kind;
use std::num::{NonZeroI64, NonZeroU32};

/// A set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds(u64);

const _: () = assert!(Kind::ALL.len() <= 64, "a set of kinds has 64 bits");

impl Kinds {
    /// None of them.
    pub const NONE: Kinds = Kinds(0);

    /// The set of one kind.
    pub const fn of(kind: Kind) -> Kinds {
        Kinds(1 << kind as u32)
    }

    /// Adds a kind.
    #[inline]
    pub fn add(&mut self, kind: Kind) {
        self.0 |= Kinds::of(kind).0;
    }

    /// Takes a kind away.
    #[inline]
    pub fn remove(&mut self, kind: Kind) {
        self.0 &= !Kinds::of(kind).0;
    }

    /// Whether a kind is in it.
    #[inline]
    pub fn has(self, kind: Kind) -> bool {
        self.0 & Kinds::of(kind).0 != 0
    }

    /// Whether any of these is in it.
    #[inline]
    pub fn has_any(self, others: Kinds) -> bool {
        self.0 & others.0 != 0
    }

    /// What is in either.
    #[inline]
    #[must_use]
    pub const fn with(self, others: Kinds) -> Kinds {
        Kinds(self.0 | others.0)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All in it, in the order of the catalogue.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let kind = Kind::ALL.get(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(*kind)
        })
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Kinds {
        kinds.into_iter().fold(Kinds::NONE, |all, kind| all.with(Kinds::of(kind)))
    }
}

/// What Wireshark tells of one segment when it goes through a capture once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// `tcp.stream`: the number of its connection, from 0.
    pub stream: u32,
    /// Which way it goes: 0 as the first segment of the connection that was seen, 1 back.
    pub direction: u8,
    /// `tcp.completeness` as it was before this segment: 1 SYN, 2 SYN-ACK, 4 ACK, 8 data, 16 FIN, 32 RST.
    pub completeness: u8,
    /// Its marks.
    pub kinds: Kinds,
    /// Of a duplicate ACK: which it is.
    pub duplicate_ack: Option<DuplicateAck>,
    /// `tcp.analysis.acks_frame`: the frame of the segment that it acknowledges.
    pub acks_frame: Option<NonZeroU32>,
    /// `tcp.analysis.ack_rtt`: the time since that frame, ns; negative where the capture is not in order.
    pub ack_rtt_ns: Option<NonZeroI64>,
    /// `tcp.analysis.initial_rtt`, ns.
    pub initial_rtt_ns: Option<NonZeroI64>,
    /// `tcp.analysis.rto`: the time since the frame that it sends again, ns.
    pub rto_ns: Option<NonZeroI64>,
    /// `tcp.analysis.rto_frame`: that frame.
    pub rto_frame: Option<NonZeroU32>,
    /// `tcp.analysis.bytes_in_flight`: what its sender has sent and nobody has acknowledged.
    pub bytes_in_flight: Option<NonZeroU32>,
    /// `tcp.analysis.push_bytes_sent`: bytes since the last PSH.
    pub push_bytes_sent: Option<NonZeroU32>,
}

/// Which duplicate ACK it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateAck {
    /// `tcp.analysis.duplicate_ack_frame`: the frame that first had that number; 0 for a number 0 that was never another one.
    pub first_frame: u32,
    /// `tcp.analysis.duplicate_ack_num`: how many have followed it.
    pub number: NonZeroU32,
}

const _: () = assert!(size_of::<Marks>() <= 64, "the marks of a segment are one line of the cache");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_what_was_put_in_in_the_order_of_the_catalogue() {
        let mut kinds: Kinds = [Kind::AckNonzero, Kind::Retransmission, Kind::Syn].into_iter().collect();
        assert_eq!(kinds.iter().collect::<Vec<_>>(), [Kind::Retransmission, Kind::Syn, Kind::AckNonzero]);
        kinds.remove(Kind::Syn);
        assert!(!kinds.has(Kind::Syn) && kinds.has(Kind::AckNonzero) && !kinds.is_empty());
        assert_eq!(Kinds::NONE.iter().next(), None);
    }
}
