//! The short way of most segments: the next one of a connection that goes on.
//!
//! No rule marks such a segment, so only what it acknowledges and what is in flight after it is looked at, and what later segments
//! are judged by is kept. It comes to the same as the long way ([`super::judge`]).

use super::marks::{Kinds, Marks};
use super::sacks::Sacks;
use super::state::{Connection, SHIFT_NONE, SHIFT_UNKNOWN, Side, connection, side};
use super::unacked::{Sent, Unacked};
use super::{HEADER_BYTES, complete};
use crate::kinds::Kind;
use crate::segment::{ACK, FIN, PSH, RST, SYN, Segment};
use crate::sequence::{is_after, is_up_to};
use std::num::{NonZeroI64, NonZeroU32};

/// The payload of a segment that has an ACK and no other flag that matters here, no option that does, and is whole.
#[inline]
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

/// Whether the segment is the next one of its direction, acknowledges no less than before and nothing unseen, and neither answers
/// a probe nor fills a window nor is longer than the MSS.
#[inline]
fn goes_on(segment: &Segment, length: u32, sender: &Side, receiver: &Side) -> bool {
    let is_next = segment.seq == sender.next
        && sender.next != 0
        && sender.seen != 0
        && sender.flags & (side::HAS_BASE | side::HAS_ONLY_SYN) == side::HAS_BASE
        && receiver.flags & (side::HAS_BASE | side::WAS_KEEP_ALIVE | side::WAS_PROBE) == side::HAS_BASE
        && (receiver.seen == 0 || !is_after(segment.ack, receiver.seen))
        && length <= sender.mss as u32;
    if length == 0 {
        return is_next && segment.ack != sender.ack;
    }
    let end = segment.seq.wrapping_add(length);
    is_next
        && (receiver.ack == 0 || !is_up_to(end, receiver.ack))
        && receiver.window() != 0
        && !sender.unacked.is_full()
        && !fills_window(end, receiver)
}

/// Whether payload up to here fills the window of the receiver.
#[inline]
pub(super) fn fills_window(end: u32, receiver: &Side) -> bool {
    let shift = match receiver.shift {
        SHIFT_UNKNOWN => return false,
        SHIFT_NONE => 0,
        _ if receiver.has(side::HAS_ONLY_SYN) => 0,
        shift => shift as u32,
    };
    end == receiver.ack.wrapping_add(receiver.window().wrapping_shl(shift))
}

/// Judges a plain segment with so much payload, if it is as usual; else nothing is changed, but that the sender's last selective
/// acknowledgement is forgotten, as with every segment.
#[inline(always)]
pub(super) fn judge(
    segment: &Segment,
    length: u32,
    from: usize,
    connection: &mut Connection,
    unacked: &mut Unacked,
    sacks: &mut Sacks,
) -> Option<Marks> {
    // While the handshake is not timed, the next ACK may end it.
    if !connection.has(connection::HAS_RTT) && connection.syn_or_rtt_ns != 0 {
        return None;
    }
    let rtt_ns = connection.rtt_ns();
    let (sender, receiver) = connection.sides(from);
    sacks.forget(sender);
    if !goes_on(segment, length, sender, receiver) {
        return None;
    }
    receiver.flags |= side::IN_FLIGHT_IS_KNOWN;
    let mut marks = Marks::default();
    keep(segment, length, sender, unacked);
    if let Some(acknowledged) = unacked.acknowledge(&mut receiver.unacked, segment.ack) {
        marks.acks_frame = NonZeroU32::new(acknowledged.frame);
        marks.ack_rtt_ns = NonZeroI64::new(segment.at_ns - acknowledged.at_ns);
        marks.initial_rtt_ns = NonZeroI64::new(rtt_ns);
        if acknowledged.is_partial | acknowledged.was_sent_again {
            let partial = if acknowledged.is_partial { Kinds::of(Kind::PartialAck) } else { Kinds::NONE };
            let again = if acknowledged.was_sent_again { Kinds::of(Kind::AmbiguousAck) } else { Kinds::NONE };
            marks.kinds = partial.with(again);
        }
    }
    if length > 0 && sender.has(side::IN_FLIGHT_IS_KNOWN) {
        let before = if sender.has(side::HAS_PUSHED) { 0 } else { sender.push_bytes };
        sender.push_bytes = before.wrapping_add(length);
        sender.set(side::HAS_PUSHED, segment.has(PSH));
        let extent = unacked.extent(sender.unacked, sender.base).unwrap_or(0);
        marks.initial_rtt_ns = NonZeroI64::new(rtt_ns);
        let in_flight_bytes = extent.wrapping_sub(sacks.of(receiver).bytes());
        if in_flight_bytes < super::judge::IN_FLIGHT_BOUND {
            marks.bytes_in_flight = NonZeroU32::new(in_flight_bytes);
            marks.push_bytes_sent = marks.bytes_in_flight.and(NonZeroU32::new(sender.push_bytes));
        }
    }
    marks.completeness = connection.completeness;
    connection.completeness |= if length > 0 { complete::DATA } else { complete::ACK };
    Some(marks)
}

/// Keeps what later segments are judged by.
#[inline]
fn keep(segment: &Segment, length: u32, sender: &mut Side, unacked: &mut Unacked) {
    let Segment { seq, ack, frame, at_ns, window, .. } = *segment;
    if ack != sender.ack {
        (sender.ack, sender.ack_frame, sender.repeats) = (ack, frame, 0);
    }
    if length > 0 {
        let end = seq.wrapping_add(length);
        unacked.push(&mut sender.unacked, Sent { at_ns, frame, seq, end, was_sent_again: false });
        // A number that wrapped to 0 is taken for none at all, and one that did not get further is no new one.
        if is_after(end, seq) {
            if sender.seen == seq {
                sender.seen = end;
            }
            sender.next_payload_bytes = length as u8;
            (sender.next, sender.next_frame, sender.next_at_ns) = (end, frame, at_ns);
        }
    }
    (sender.window, sender.last_at_ns) = (window, at_ns);
    sender.flags = (sender.flags | side::HAS_WINDOW) & !(side::WAS_PROBE | side::WAS_KEEP_ALIVE);
}
