//! What Wireshark tells of what was found.

use super::judge::Findings;
use super::marks::{Kinds, Marks};
use crate::kinds::Kind;

/// The kinds that Wireshark also shows as a retransmission.
const ALSO_RETRANSMISSION: Kinds = Kinds::of(Kind::FastRetransmission).with(Kinds::of(Kind::SpuriousRetransmission));

/// Tells what was found of a segment that came at a time, in a connection with an initial round trip (0: not known).
pub(super) fn tell(findings: &Findings, rtt_ns: i64, at_ns: i64, marks: &mut Marks) {
    if !findings.is_recorded {
        return;
    }
    marks.initial_rtt_ns = some(rtt_ns);
    if let Some(acknowledged) = findings.acknowledged
        && acknowledged.frame != 0
    {
        marks.acks_frame = Some(acknowledged.frame);
        marks.ack_rtt_ns = some(at_ns - acknowledged.at_ns);
        if acknowledged.is_partial {
            marks.kinds.add(Kind::PartialAck);
        }
        if acknowledged.was_sent_again {
            marks.kinds.add(Kind::AmbiguousAck);
        }
    }
    if findings.in_flight_bytes > 0 {
        marks.bytes_in_flight = Some(findings.in_flight_bytes);
        marks.push_bytes_sent = Some(findings.push_bytes);
    }
    let kinds = findings.kinds;
    if kinds.has(Kind::DuplicateAck) {
        marks.duplicate_ack = Some(findings.duplicate_ack);
    }
    let (sent_ns, frame) = findings.sent_before;
    if kinds.has(Kind::Retransmission)
        && let Some(rto_ns) = some(at_ns - sent_ns)
    {
        (marks.rto_ns, marks.rto_frame) = (Some(rto_ns), Some(frame));
    }
    marks.kinds = marks.kinds.with(kinds);
    if kinds.has_any(ALSO_RETRANSMISSION) {
        marks.kinds.add(Kind::Retransmission);
    }
}

/// A time that is not 0.
fn some(ns: i64) -> Option<i64> {
    (ns != 0).then_some(ns)
}
