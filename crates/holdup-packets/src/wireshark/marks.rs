//! The marks and values of one segment.

use crate::kinds::Kind;
use std::num::{NonZeroI64, NonZeroU32};

/// A set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds(u64);

const _: () = assert!(Kind::ALL.len() <= 64, "a set of kinds has 64 bits");

impl Kinds {
    /// The empty set.
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

    /// Removes a kind.
    #[inline]
    pub fn remove(&mut self, kind: Kind) {
        self.0 &= !Kinds::of(kind).0;
    }

    /// True if it contains a kind.
    #[inline]
    pub fn has(self, kind: Kind) -> bool {
        self.0 & Kinds::of(kind).0 != 0
    }

    /// True if it contains any of these.
    #[inline]
    pub fn has_any(self, others: Kinds) -> bool {
        self.0 & others.0 != 0
    }

    /// The union.
    #[inline]
    #[must_use]
    pub const fn with(self, others: Kinds) -> Kinds {
        Kinds(self.0 | others.0)
    }

    /// True if it is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its kinds, in the order of the catalogue.
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

/// What Wireshark shows for a segment in one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// `tcp.stream`.
    pub stream: u32,
    /// 0 for the direction of the connection's first captured segment, 1 for the other.
    pub direction: u8,
    /// `tcp.completeness` before this segment: 1 SYN, 2 SYN-ACK, 4 ACK, 8 data, 16 FIN, 32 RST.
    pub completeness: u8,
    /// Its marks.
    pub kinds: Kinds,
    /// The number of a duplicate ACK.
    pub duplicate_ack: Option<DuplicateAck>,
    /// `tcp.analysis.acks_frame`.
    pub acks_frame: Option<NonZeroU32>,
    /// `tcp.analysis.ack_rtt`, ns; negative if the capture is not in order.
    pub ack_rtt_ns: Option<NonZeroI64>,
    /// `tcp.analysis.initial_rtt`, ns.
    pub initial_rtt_ns: Option<NonZeroI64>,
    /// `tcp.analysis.rto`, ns.
    pub rto_ns: Option<NonZeroI64>,
    /// `tcp.analysis.rto_frame`.
    pub rto_frame: Option<NonZeroU32>,
    /// `tcp.analysis.bytes_in_flight`.
    pub bytes_in_flight: Option<NonZeroU32>,
    /// `tcp.analysis.push_bytes_sent`.
    pub push_bytes_sent: Option<NonZeroU32>,
}

/// The number of a duplicate ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateAck {
    /// `tcp.analysis.duplicate_ack_frame`; 0 for an acknowledgement number 0 that never changed.
    pub first_frame: u32,
    /// `tcp.analysis.duplicate_ack_num`.
    pub number: NonZeroU32,
}

const _: () = assert!(size_of::<Marks>() <= 64, "the marks of a segment are one line of the cache");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_order_of_the_catalogue() {
        let mut kinds: Kinds = [Kind::AckNonzero, Kind::Retransmission, Kind::Syn].into_iter().collect();
        assert_eq!(kinds.iter().collect::<Vec<_>>(), [Kind::Retransmission, Kind::Syn, Kind::AckNonzero]);
        kinds.remove(Kind::Syn);
        assert!(!kinds.has(Kind::Syn) && kinds.has(Kind::AckNonzero) && !kinds.is_empty());
        assert_eq!(Kinds::NONE.iter().next(), None);
    }
}
