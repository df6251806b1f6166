//! The marks and values that Wireshark shows for findings.

use super::judge::Findings;
use super::marks::{DuplicateAck, Kinds, Marks};
use crate::kinds::Kind;
use std::num::{NonZeroI64, NonZeroU32};

/// Wireshark shows these as retransmissions too.
const ALSO_RETRANSMISSION: Kinds = Kinds::of(Kind::FastRetransmission).with(Kinds::of(Kind::SpuriousRetransmission));

/// `rtt_ns` is the initial round trip, 0 if unknown.
#[inline]
pub(super) fn emit_marks(findings: &Findings, rtt_ns: i64, at_ns: i64, marks: &mut Marks) {
    if !findings.is_recorded {
        return;
    }
    marks.initial_rtt_ns = NonZeroI64::new(rtt_ns);
    if let Some(acknowledged) = findings.acknowledged {
        marks.acks_frame = NonZeroU32::new(acknowledged.frame);
        marks.ack_rtt_ns = NonZeroI64::new(at_ns - acknowledged.at_ns);
        if acknowledged.is_partial {
            marks.kinds.add(Kind::PartialAck);
        }
        if acknowledged.was_retransmitted {
            marks.kinds.add(Kind::AmbiguousAck);
        }
    }
    marks.bytes_in_flight = NonZeroU32::new(findings.in_flight_bytes);
    if findings.in_flight_bytes > 0 {
        marks.push_bytes_sent = NonZeroU32::new(findings.push_bytes);
    }
    let kinds = findings.kinds;
    if kinds.is_empty() {
        return;
    }
    if kinds.has(Kind::DuplicateAck) {
        let (first_frame, number) = findings.duplicate_ack;
        marks.duplicate_ack = NonZeroU32::new(number).map(|number| DuplicateAck { first_frame, number });
    }
    let (sent_ns, frame) = findings.sent_before;
    if kinds.has(Kind::Retransmission) && at_ns != sent_ns {
        (marks.rto_ns, marks.rto_frame) = (NonZeroI64::new(at_ns - sent_ns), NonZeroU32::new(frame));
    }
    marks.kinds = marks.kinds.with(kinds);
    if kinds.has_any(ALSO_RETRANSMISSION) {
        marks.kinds.add(Kind::Retransmission);
    }
}
