//! The fast path of most segments: the next one of an established connection.
//!
//! No rule marks such a segment, so only its acknowledgement, the bytes in flight and the state for later segments are
//! computed. The result is that of the full judgement ([`super::judge`]).

use super::HEADER_BYTES;
use super::marks::Marks;
use super::sacks::Sacks;
use super::state::{Connection, SHIFT_NONE, SHIFT_UNKNOWN, Side, connection, side};
use super::unacked::{Acknowledged, SPAN, Unacked};
use crate::kinds::Kind;
use crate::segment::{ACK, FIN, PSH, RST, SYN, Segment};
use crate::sequence::{is_after, is_up_to};
use std::num::{NonZeroI64, NonZeroU32};

/// The payload of a complete segment with ACK and no other relevant flag or option.
#[inline(always)]
pub(super) fn plain_payload(segment: &Segment) -> Option<u32> {
    let options = &segment.options;
    let is_plain = segment.flags & (SYN | FIN | RST | ACK) == ACK
        && segment.window != 0
        && !(segment.in_error | segment.is_fragment)
        && segment.header_bytes >= HEADER_BYTES
        && segment.header_captured_bytes >= segment.header_bytes
        && options.sack_count == 0
        && options.mss.is_none()
        && options.window_shift.is_none()
        && !(options.sack_permitted | options.sacks_are_cut | options.mss_is_odd | options.fast_open_cookie);
    if is_plain { segment.payload_bytes } else { None }
}

/// The initial round trip, ns, 0 if unknown. `None` if the fast path does not apply: during the handshake the next ACK may
/// complete it, and a connection that is over takes no segments.
#[inline(always)]
pub(super) fn rtt_ns(connection: &Connection) -> Option<i64> {
    match connection.flags & (connection::HAS_RTT | connection::IS_OVER) {
        connection::HAS_RTT => Some(connection.syn_or_rtt_ns),
        0 if connection.syn_or_rtt_ns == 0 => Some(0),
        _ => None,
    }
}

/// True if the segment is next in its direction, acknowledges no less than before and nothing unseen, and neither answers a
/// probe nor fills a window nor exceeds the MSS, and no list is laborious.
#[inline(always)]
pub(super) fn applies<const HAS_PAYLOAD: bool>(segment: &Segment, length: u32, sender: &Side, receiver: &Side) -> bool {
    let is_next = segment.seq == sender.next
        && sender.next != 0
        && sender.seen != 0
        && sender.flags & (side::HAS_BASE | side::HAS_ONLY_SYN) == side::HAS_BASE
        && receiver.flags & (side::HAS_BASE | side::WAS_KEEP_ALIVE | side::WAS_PROBE) == side::HAS_BASE
        && (receiver.seen == 0 || !is_after(segment.ack, receiver.seen))
        && !receiver.unacked.is_laborious()
        && length <= sender.mss as u32;
    if !HAS_PAYLOAD {
        return is_next && segment.ack != sender.ack;
    }
    let end = segment.seq.wrapping_add(length);
    is_next
        && (receiver.ack == 0 || !is_up_to(end, receiver.ack))
        && receiver.window() != 0
        && !sender.unacked.is_full()
        && !sender.unacked.is_laborious()
        && length <= SPAN
        && !fills_window(end, receiver)
}

/// True if payload up to here fills the receiver's window.
#[inline(always)]
pub(super) fn fills_window(end: u32, receiver: &Side) -> bool {
    let shift = match receiver.shift {
        SHIFT_UNKNOWN => return false,
        SHIFT_NONE => 0,
        _ if receiver.has(side::HAS_ONLY_SYN) => 0,
        shift => shift as u32,
    };
    end == receiver.ack.wrapping_add(receiver.window().wrapping_shl(shift))
}

/// Judges a segment on the fast path.
#[inline(always)]
pub(super) fn judge<const HAS_PAYLOAD: bool>(
    segment: &Segment,
    length: u32,
    rtt_ns: i64,
    (sender, receiver): (&mut Side, &mut Side),
    unacked: &mut Unacked,
    sacks: &Sacks,
    mut marks: Marks,
) -> Marks {
    receiver.flags |= side::IN_FLIGHT_IS_KNOWN;
    let gone = side::WAS_PROBE | side::WAS_KEEP_ALIVE | side::LAST_WAS_DATA;
    let mut flags = sender.flags & !gone | side::HAS_WINDOW;
    if HAS_PAYLOAD {
        let extent = unacked.push_next(sender, segment, length);
        if flags & side::IN_FLIGHT_IS_KNOWN != 0 {
            let before = if flags & side::HAS_PUSHED != 0 { 0 } else { sender.push_bytes };
            sender.push_bytes = before.wrapping_add(length);
            flags = flags & !side::HAS_PUSHED | if segment.has(PSH) { side::HAS_PUSHED } else { 0 };
            marks.initial_rtt_ns = NonZeroI64::new(rtt_ns);
            let in_flight_bytes = extent.wrapping_sub(sacks.bytes_of(receiver));
            if in_flight_bytes < super::judge::IN_FLIGHT_BOUND {
                marks.bytes_in_flight = NonZeroU32::new(in_flight_bytes);
                marks.push_bytes_sent = marks.bytes_in_flight.and(NonZeroU32::new(sender.push_bytes));
            }
        }
        flags |= side::LAST_WAS_DATA;
    }
    sender.flags = flags;
    keep::<HAS_PAYLOAD>(segment, length, sender);
    // Duplicated, so that the more frequent branch stays in registers.
    if receiver.unacked.is_alone() {
        let acknowledged = unacked.acknowledge_alone(receiver, segment.ack);
        acknowledge(acknowledged, segment.at_ns, rtt_ns, &mut marks);
    } else {
        let acknowledged = unacked.acknowledge(&mut receiver.unacked, segment.ack);
        acknowledge(acknowledged, segment.at_ns, rtt_ns, &mut marks);
    }
    marks
}

#[inline(always)]
fn acknowledge(acknowledged: Option<Acknowledged>, at_ns: i64, rtt_ns: i64, marks: &mut Marks) {
    let Some(acknowledged) = acknowledged else { return };
    marks.acks_frame = NonZeroU32::new(acknowledged.frame);
    marks.ack_rtt_ns = NonZeroI64::new(at_ns - acknowledged.at_ns);
    marks.initial_rtt_ns = NonZeroI64::new(rtt_ns);
    if acknowledged.is_partial {
        marks.kinds.add(Kind::PartialAck);
    }
    if acknowledged.was_retransmitted {
        marks.kinds.add(Kind::AmbiguousAck);
    }
}

/// Updates the state except for the flags.
#[inline(always)]
fn keep<const HAS_PAYLOAD: bool>(segment: &Segment, length: u32, sender: &mut Side) {
    let Segment { seq, ack, frame, at_ns, window, .. } = *segment;
    if ack != sender.ack {
        (sender.ack, sender.ack_frame, sender.repeats) = (ack, frame, 0);
    }
    if HAS_PAYLOAD {
        // A number that wrapped to 0 counts as none.
        let end = seq.wrapping_add(length);
        if sender.seen == seq {
            sender.seen = end;
        }
        sender.next_payload_bytes = length as u8;
        (sender.next, sender.next_frame, sender.next_at_ns) = (end, frame, at_ns);
    }
    (sender.window, sender.last_at_ns) = (window, at_ns);
}
