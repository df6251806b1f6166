//! The judgement of a segment from the state of its connection.
//!
//! The rules are those of Wireshark 4.6 (`epan/dissectors/packet-tcp.c`) with its default preferences, derived by comparing its
//! output packet by packet; docs/packets.md lists them.

use super::fast_path::fills_window;
use super::marks::Kinds;
use super::sacks::Blocks;
use super::state::{Side, side};
use super::unacked::{Acknowledged, Sent, Unacked};
use crate::kinds::Kind;
use crate::segment::{ACK, FIN, PSH, RST, SYN, Segment};
use crate::sequence::{is_after, is_before, is_from, is_up_to};

/// Wireshark's limit for a fast retransmission after an acknowledgement, ns.
const FAST_NS: u64 = 20_000_000;
/// Wireshark's limit for out-of-order segments without an initial round trip, ns.
const OUT_OF_ORDER_NS: u64 = 3_000_000;
/// Larger numbers of bytes in flight are errors.
pub(super) const IN_FLIGHT_BOUND: u32 = 2_000_000_000;

const SENT_AGAIN: Kinds = Kinds::of(Kind::Retransmission)
    .with(Kinds::of(Kind::FastRetransmission))
    .with(Kinds::of(Kind::SpuriousRetransmission));

/// The findings about one segment.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// True if Wireshark has a record of the segment. Without one it does not even show the initial round trip.
    pub(super) is_recorded: bool,
    /// Its marks from sequence number analysis; `Retransmission` only if it is neither fast nor spurious.
    pub(super) kinds: Kinds,
    /// The first frame with that ACK, and the number of this duplicate.
    pub(super) duplicate_ack: (u32, u32),
    pub(super) acknowledged: Option<Acknowledged>,
    /// Time and frame of the original of a retransmission.
    pub(super) sent_before: (i64, u32),
    /// 0 if unknown.
    pub(super) in_flight_bytes: u32,
    pub(super) push_bytes: u32,
    /// True if it has a D-SACK.
    pub(super) is_duplicate_sack: bool,
    /// True if it could not be tracked as unacknowledged.
    pub(super) is_given_up: bool,
}

impl Findings {
    pub(super) fn add(&mut self, kind: Kind) {
        self.is_recorded = true;
        self.kinds.add(kind);
    }
}

/// The inputs of a judgement.
pub(super) struct Judge<'a> {
    pub(super) segment: &'a Segment,
    pub(super) length: u32,
    pub(super) sender: &'a mut Side,
    pub(super) receiver: &'a mut Side,
    pub(super) unacked: &'a mut Unacked,
    pub(super) unacked_most: usize,
    /// The receiver's last SACK.
    pub(super) blocks: &'a Blocks,
    /// The initial round trip, ns; 0 if unknown.
    pub(super) rtt_ns: i64,
}

impl Judge<'_> {
    /// Judges the segment and updates the state.
    pub(super) fn judge(mut self, findings: &mut Findings) {
        if self.has(ACK) {
            self.receiver.set(side::IN_FLIGHT_IS_KNOWN, true);
        }
        self.probes_and_windows(findings);
        self.count_repeats();
        let ack = self.segment.ack;
        if self.has(ACK) && self.receiver.seen != 0 && is_after(ack, self.receiver.seen) {
            self.acknowledged_unseen(findings);
        }
        if self.length > 0 || self.has(SYN | FIN) {
            self.retransmission(findings);
        }
        self.update(findings);
        self.after(findings);
    }

    /// Restarts the count of duplicate ACKs with another number.
    #[inline]
    fn count_repeats(&mut self) {
        if self.segment.ack != self.sender.ack {
            (self.sender.ack_frame, self.sender.repeats) = (self.segment.frame, 0);
        }
    }

    #[inline]
    fn after(&mut self, findings: &mut Findings) {
        findings.acknowledged = self.unacked.acknowledge(&mut self.receiver.unacked, self.segment.ack);
        findings.is_recorded |= findings.acknowledged.is_some();
        if self.length > 0 && self.sender.has(side::IN_FLIGHT_IS_KNOWN) {
            self.in_flight(findings);
        }
    }

    #[inline]
    fn has(&self, flags: u16) -> bool {
        self.segment.has(flags)
    }

    #[inline]
    fn end(&self) -> u32 {
        self.segment.seq.wrapping_add(self.length)
    }

    /// The sequence numbers of SYN and FIN.
    #[inline]
    fn virtual_bytes(&self) -> u32 {
        self.has(SYN | FIN).into()
    }

    /// Window probes, keep-alives and their answers, window changes, duplicate ACKs.
    fn probes_and_windows(&mut self, findings: &mut Findings) {
        let Segment { seq, window, .. } = *self.segment;
        if self.length == 1 && seq == self.sender.next && self.receiver.window() == 0 {
            findings.add(Kind::ZeroWindowProbe);
            return;
        }
        let is_plain = !self.has(SYN | FIN | RST);
        if window == 0 && is_plain {
            findings.add(Kind::ZeroWindow);
        }
        if self.sender.next != 0 && is_after(seq, self.sender.next) && !self.has(RST) {
            findings.add(Kind::LostSegment);
            self.sender.set(side::IN_FLIGHT_IS_KNOWN, false);
        }
        if !is_plain {
            return;
        }
        if self.length <= 1 && seq == self.sender.next.wrapping_sub(1) {
            findings.add(Kind::KeepAlive);
        }
        if self.length == 0 {
            self.without_payload(findings);
        } else if fills_window(self.end(), self.receiver) {
            findings.add(Kind::WindowFull);
        }
    }

    /// [`Judge::probes_and_windows`] of a segment without payload, SYN, FIN and RST.
    fn without_payload(&mut self, findings: &mut Findings) {
        let Segment { seq, ack, window, .. } = *self.segment;
        let is_same_window = u32::from(window) == self.sender.window();
        let is_next = seq == self.sender.next;
        let is_repeated = is_next && ack == self.sender.ack && window != 0;
        if is_repeated && !is_same_window {
            findings.add(Kind::WindowUpdate);
        }
        if is_repeated && is_same_window && self.receiver.has(side::WAS_KEEP_ALIVE) {
            findings.add(Kind::KeepAliveAck);
            return;
        }
        let takes_byte = ack == self.sender.ack.wrapping_add(1);
        if window == 0
            && is_same_window
            && is_next
            && (ack == self.sender.ack || takes_byte)
            && self.receiver.has(side::WAS_PROBE)
        {
            findings.add(Kind::ZeroWindowProbeAck);
            if takes_byte {
                (self.receiver.next, self.receiver.seen) = (ack, ack);
            }
            return;
        }
        if is_repeated && is_same_window {
            self.sender.repeats = self.sender.repeats.wrapping_add(1);
            findings.add(Kind::DuplicateAck);
            findings.duplicate_ack = (self.sender.ack_frame, self.sender.repeats);
        }
    }

    /// It acknowledges unseen bytes: the answer to a probe that opens the window, or a gap in the capture.
    fn acknowledged_unseen(&mut self, findings: &mut Findings) {
        let Segment { seq, ack, .. } = *self.segment;
        if ack == self.sender.ack.wrapping_add(1) && seq == self.sender.next && self.receiver.has(side::WAS_PROBE) {
            (self.receiver.next, self.receiver.seen) = (ack, ack);
            findings.add(Kind::WindowUpdate);
            return;
        }
        // Bytes seen right after the acknowledged one, without a gap, are not missing.
        let (mut first, mut end) = (0, 0);
        for sent in self.unacked.iter(self.receiver.unacked) {
            if first == end {
                (first, end) = (sent.seq, sent.end);
            }
            if is_from(sent.seq, ack) {
                if sent.end != first {
                    end = sent.end;
                }
                first = sent.seq;
            }
        }
        self.receiver.seen = if ack == first && is_after(end, ack) { end } else { ack };
        findings.add(Kind::AckLostSegment);
    }

    /// Whether it is a retransmission, and of which kind.
    fn retransmission(&mut self, findings: &mut Findings) {
        let Segment { seq, at_ns, .. } = *self.segment;
        if findings.kinds.has(Kind::KeepAlive) {
            return;
        }
        let acked = self.receiver.ack;
        if self.length > 0 && acked != 0 && is_up_to(self.end(), acked) {
            findings.add(Kind::SpuriousRetransmission);
            return;
        }
        let next = self.sender.next;
        // After a probe whose byte was rejected, the segment that begins with that byte is new.
        let follows_probe = self.length > 1 && next.wrapping_sub(1) == seq;
        if next == 0 || !is_before(seq, next) || follows_probe {
            return;
        }
        let since_ack_ns = at_ns.saturating_sub(self.receiver.last_at_ns).max(0) as u64;
        if since_ack_ns < FAST_NS && self.was_asked_for() {
            findings.add(Kind::FastRetransmission);
            return;
        }
        let was_seen = self.unacked.mark_retransmitted(self.sender.unacked, seq, self.end());
        findings.is_recorded |= was_seen;
        let late_ns = if self.rtt_ns == 0 { OUT_OF_ORDER_NS } else { self.rtt_ns as u64 };
        let ends_before_next = next != self.end().wrapping_add(self.virtual_bytes());
        if since_ack_ns < late_ns && !was_seen && (ends_before_next || self.sender.next_payload_bytes == 0) {
            findings.add(Kind::OutOfOrder);
            return;
        }
        findings.add(Kind::Retransmission);
        // The oldest segment that begins there or later is the lost one, as far as the capture shows.
        findings.sent_before = (self.sender.next_at_ns, self.sender.next_frame);
        if let Some(sent) = self.unacked.oldest_from(self.sender.unacked, seq) {
            findings.sent_before = (sent.at_ns, sent.frame);
        }
    }

    /// True if duplicate ACKs request this segment, or SACK blocks leave it out.
    fn was_asked_for(&self) -> bool {
        let (seq, end) = (self.segment.seq, self.end());
        // Wireshark compares with relative blocks.
        let is_inside = |(first, last): &(u32, u32)| seq >= *first && end <= *last;
        let blocks = self.blocks.as_slice();
        self.receiver.repeats >= 2
            && (self.receiver.ack == seq || (!blocks.is_empty() && !blocks.iter().any(is_inside)))
    }

    /// Updates the state for later segments.
    #[inline]
    fn update(&mut self, findings: &mut Findings) {
        let Segment { seq, ack, frame, at_ns, window, .. } = *self.segment;
        let mut end = self.end();
        if self.length > 0 || self.has(SYN | FIN) {
            findings.is_given_up = self.sender.unacked.is_full() || self.unacked.len() >= self.unacked_most;
            if !findings.is_given_up {
                end = end.wrapping_add(self.virtual_bytes());
                let was_retransmitted = findings.kinds.has_any(SENT_AGAIN);
                self.unacked.push(&mut self.sender.unacked, Sent { at_ns, frame, seq, end, was_retransmitted });
            }
        }
        let is_probe = findings.kinds.has(Kind::ZeroWindowProbe);
        let sender = &mut *self.sender;
        if sender.next == 0 || is_after(end, sender.next.wrapping_add(self.segment.has(SYN | FIN).into())) {
            sender.next_payload_bytes = self.length as u8;
        }
        if !is_probe {
            if sender.next == 0 || is_after(end, sender.next) {
                (sender.next, sender.next_frame, sender.next_at_ns) = (end, frame, at_ns);
            }
            if sender.seen == 0 || seq == sender.seen {
                sender.seen = sender.next;
            }
        }
        (sender.window, sender.ack, sender.last_at_ns) = (window, ack, at_ns);
        sender.set(side::HAS_WINDOW, true);
        sender.set(side::WAS_PROBE, is_probe);
        sender.set(side::WAS_KEEP_ALIVE, findings.kinds.has(Kind::KeepAlive));
    }

    /// Bytes in flight after it, and since the last PSH.
    #[inline]
    fn in_flight(&mut self, findings: &mut Findings) {
        let sender = &mut *self.sender;
        let Some(extent) = self.unacked.extent(sender.unacked, sender.base) else {
            return;
        };
        findings.is_recorded = true;
        let bytes = extent.wrapping_sub(self.blocks.bytes());
        if (1..IN_FLIGHT_BOUND).contains(&bytes) {
            findings.in_flight_bytes = bytes - u32::from(self.segment.has(SYN | FIN));
        }
        let is_pushed = self.segment.has(PSH);
        let before = if sender.has(side::HAS_PUSHED) { 0 } else { sender.push_bytes };
        sender.push_bytes = before.wrapping_add(self.length);
        sender.set(side::HAS_PUSHED, is_pushed);
        findings.push_bytes = sender.push_bytes;
    }
}
