//! The unacknowledged segments of all connections, in one store.

use super::state::Side;
use crate::segment::Segment;
use crate::sequence::{is_after, is_from, is_up_to};

/// Lists of fewer segments are looked through for each segment.
const LONG: u16 = 512;

/// Wireshark's limit of unacknowledged segments per direction.
pub(super) const MOST: u16 = 10_000;

const NOWHERE: u32 = u32::MAX;

/// The largest span of sequence numbers of a list that counts as in order.
pub(super) const SPAN: u32 = 1 << 30;

#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) at_ns: i64,
    pub(super) frame: u32,
    /// The first unacknowledged byte.
    pub(super) seq: u32,
    pub(super) end: u32,
    /// Retransmitted, so that its acknowledgement gives no round trip (Karn).
    pub(super) was_retransmitted: bool,
}

/// An element of circular lists: `newer` of the newest is the oldest; `older` of the oldest is undefined.
#[derive(Debug, Clone, Copy)]
struct Slot {
    sent: Sent,
    newer: u32,
    older: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    /// The slot of the newest segment; with `is_alone` the first unacknowledged byte of the only one.
    newest: u32,
    count: u16,
    /// Each segment begins at or after the end of the previous one, so that only the two ends of the list matter.
    is_in_order: bool,
    /// The only segment is the one that reached [`Side::next`], so the side has its other fields and it needs no slot: most
    /// segments are acknowledged before the next one.
    is_alone: bool,
}

impl Default for List {
    fn default() -> Self {
        List { newest: NOWHERE, count: 0, is_in_order: true, is_alone: false }
    }
}

impl Sent {
    #[inline]
    fn contains(&self, seq: u32, end: u32) -> bool {
        is_up_to(self.seq, seq) && is_up_to(end, self.end)
    }
}

impl List {
    #[inline(always)]
    pub(super) fn is_alone(self) -> bool {
        self.is_alone
    }

    pub(super) fn is_full(self) -> bool {
        self.count >= MOST
    }

    /// True if a segment may have to look at much of it.
    #[inline(always)]
    pub(super) fn is_laborious(self) -> bool {
        self.count >= LONG && !self.is_in_order
    }
}

impl Side {
    #[inline(always)]
    fn alone(&self) -> Sent {
        let Side { next_at_ns: at_ns, next_frame: frame, next: end, .. } = *self;
        Sent { at_ns, frame, seq: self.unacked.newest, end, was_retransmitted: false }
    }
}

/// The oldest segment that an acknowledgement ends in or at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) frame: u32,
    pub(super) at_ns: i64,
    /// Acknowledged in part.
    pub(super) is_partial: bool,
    pub(super) was_retransmitted: bool,
}

#[derive(Debug)]
pub(super) struct Unacked {
    places: Vec<Slot>,
    /// Segments that were looked at one by one.
    pub(super) steps: u64,
    /// The first free slot, or [`NOWHERE`]; free slots are linked by `newer`.
    free: u32,
    in_use: usize,
}

impl Default for Unacked {
    fn default() -> Self {
        Unacked { places: Vec::new(), steps: 0, free: NOWHERE, in_use: 0 }
    }
}

impl Unacked {
    pub(super) fn len(&self) -> usize {
        self.in_use
    }

    /// Adds the next segment of a side, of at most [`SPAN`] bytes, before the side is updated. Returns [`Unacked::extent`] with
    /// it.
    #[inline(always)]
    pub(super) fn push_next(&mut self, side: &mut Side, segment: &Segment, length: u32) -> u32 {
        if side.unacked.count == 0 {
            self.in_use += 1;
            side.unacked = List { newest: segment.seq, count: 1, is_in_order: true, is_alone: true };
            return length;
        }
        self.push_behind(side, segment, length)
    }

    /// [`Unacked::push_next`] for a list that is not empty.
    #[inline(never)]
    fn push_behind(&mut self, side: &mut Side, segment: &Segment, length: u32) -> u32 {
        let Segment { at_ns, frame, seq, .. } = *segment;
        let sent = Sent { at_ns, frame, seq, end: seq.wrapping_add(length), was_retransmitted: false };
        if side.unacked.is_alone {
            return self.push_second(side, sent);
        }
        self.push(&mut side.unacked, sent);
        self.extent(side.unacked, side.base).unwrap_or(0)
    }

    #[inline(always)]
    fn push_second(&mut self, side: &mut Side, sent: Sent) -> u32 {
        let first = side.alone();
        let oldest = self.place(first, NOWHERE, NOWHERE);
        let newest = self.place(sent, oldest, oldest);
        self.in_use -= 1;
        self.places[oldest as usize].newer = newest;
        let extent = sent.end.wrapping_sub(first.seq);
        let is_in_order = sent.seq.wrapping_sub(first.end) < SPAN && extent < SPAN;
        side.unacked = List { newest, count: 2, is_in_order, is_alone: false };
        if is_in_order && first.seq.wrapping_sub(side.base).checked_add(extent).is_some() {
            return extent;
        }
        self.extent_of_any(side.unacked, side.base)
    }

    /// Moves a side's only segment into a slot.
    #[inline]
    pub(super) fn spill(&mut self, side: &mut Side) {
        if side.unacked.is_alone {
            let sent = side.alone();
            self.in_use -= 1;
            side.unacked = List::default();
            self.push(&mut side.unacked, sent);
        }
    }

    #[inline]
    pub(super) fn push(&mut self, list: &mut List, sent: Sent) {
        let is_sound = sent.end.wrapping_sub(sent.seq).wrapping_sub(1) < SPAN;
        if list.count == 0 {
            let at = self.place(sent, NOWHERE, NOWHERE);
            self.places[at as usize].newer = at;
            (list.newest, list.is_in_order) = (at, is_sound);
        } else {
            let before = list.newest;
            let newest = &self.places[before as usize];
            let (newest_end, oldest) = (newest.sent.end, newest.newer);
            let oldest_seq = self.places[oldest as usize].sent.seq;
            list.is_in_order &=
                is_sound && sent.seq.wrapping_sub(newest_end) < SPAN && sent.end.wrapping_sub(oldest_seq) < SPAN;
            let at = self.place(sent, oldest, before);
            self.places[before as usize].newer = at;
            list.newest = at;
        }
        list.count += 1;
    }

    /// The oldest segment that begins at a number or later.
    pub(super) fn oldest_from(&mut self, list: List, seq: u32) -> Option<&Sent> {
        let mut at = self.places.get(list.newest as usize).filter(|_| list.count > 0)?.newer;
        for _ in 0..list.count {
            self.steps += 1;
            let place = &self.places[at as usize];
            if is_from(place.sent.seq, seq) {
                return Some(&place.sent);
            }
            at = place.newer;
        }
        None
    }

    /// The newest first.
    pub(super) fn iter(&mut self, list: List) -> impl Iterator<Item = &Sent> {
        self.steps += u64::from(list.count);
        let (places, mut at) = (&self.places, list.newest);
        (0..list.count).map(move |_| {
            let place = &places[at as usize];
            at = place.older;
            &place.sent
        })
    }

    /// Marks the newest segment that contains all of these bytes; returns whether there is one.
    pub(super) fn mark_retransmitted(&mut self, list: List, seq: u32, end: u32) -> bool {
        let mut at = list.newest;
        for _ in 0..list.count {
            self.steps += 1;
            let place = &mut self.places[at as usize];
            if place.sent.contains(seq, end) {
                place.sent.was_retransmitted = true;
                return true;
            }
            at = place.older;
        }
        false
    }

    /// [`Unacked::acknowledge`] for a side with `is_alone`.
    #[inline(always)]
    pub(super) fn acknowledge_alone(&mut self, side: &mut Side, ack: u32) -> Option<Acknowledged> {
        let Sent { at_ns, frame, seq, end, was_retransmitted } = side.alone();
        if ack == end {
            self.in_use -= 1;
            side.unacked = List::default();
            return Some(Acknowledged { frame, at_ns, is_partial: false, was_retransmitted });
        }
        // An old number.
        if seq.wrapping_sub(ack) < SPAN {
            return None;
        }
        self.spill(side);
        self.acknowledge_part(&mut side.unacked, ack)
    }

    /// Removes what an acknowledgement covers.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, list: &mut List, ack: u32) -> Option<Acknowledged> {
        if list.count == 0 {
            return None;
        }
        let newest = &mut self.places[list.newest as usize];
        let Sent { at_ns, frame, end, was_retransmitted, .. } = newest.sent;
        if !list.is_in_order || ack != end {
            return self.acknowledge_part(list, ack);
        }
        // The whole list becomes the head of the free list.
        std::mem::swap(&mut newest.newer, &mut self.free);
        self.in_use -= usize::from(list.count);
        *list = List::default();
        Some(Acknowledged { frame, at_ns, is_partial: false, was_retransmitted })
    }

    /// [`Unacked::acknowledge`] if a part of the list may remain.
    #[inline(never)]
    fn acknowledge_part(&mut self, list: &mut List, ack: u32) -> Option<Acknowledged> {
        let oldest = self.places[list.newest as usize].newer;
        let after = ack.wrapping_sub(self.places[oldest as usize].sent.seq) as i32;
        if list.is_in_order && after.unsigned_abs() < SPAN {
            // An old number changes nothing.
            if after <= 0 { None } else { self.acknowledge_in_order(list, ack) }
        } else {
            self.acknowledge_any(list, ack)
        }
    }

    /// [`Unacked::acknowledge`] of a list in order: only the oldest segments matter.
    #[inline]
    fn acknowledge_in_order(&mut self, list: &mut List, ack: u32) -> Option<Acknowledged> {
        let newest = list.newest;
        let mut at = self.places[newest as usize].newer;
        loop {
            let place = &mut self.places[at as usize];
            let Sent { at_ns, frame, seq, end, was_retransmitted } = place.sent;
            let is_partial = ack != end;
            if is_partial && is_after(end, ack) {
                if !is_after(ack, seq) {
                    return None;
                }
                place.sent.seq = ack;
                return Some(Acknowledged { frame, at_ns, is_partial, was_retransmitted });
            }
            // Frees the oldest.
            let newer = place.newer;
            place.newer = self.free;
            self.free = at;
            self.in_use -= 1;
            list.count -= 1;
            if list.count == 0 {
                *list = List::default();
            } else {
                self.places[newest as usize].newer = newer;
            }
            if !is_partial {
                return Some(Acknowledged { frame, at_ns, is_partial, was_retransmitted });
            }
            if list.count == 0 {
                return None;
            }
            at = newer;
        }
    }

    /// [`Unacked::acknowledge`] of any list: the last match from the newest on counts.
    #[inline(never)]
    fn acknowledge_any(&mut self, list: &mut List, ack: u32) -> Option<Acknowledged> {
        let mut found = None;
        let mut at = list.newest;
        let mut is_in_order = true;
        let mut newer_seq = None;
        self.steps += u64::from(list.count);
        for _ in 0..list.count {
            let place = &mut self.places[at as usize];
            let older = place.older;
            let sent = &mut place.sent;
            let is_partial = ack != sent.end && is_after(ack, sent.seq) && is_up_to(ack, sent.end);
            if is_partial || ack == sent.end {
                let Sent { frame, at_ns, was_retransmitted, .. } = *sent;
                found = Some(Acknowledged { frame, at_ns, is_partial, was_retransmitted });
            }
            if is_partial {
                sent.seq = ack;
            }
            if is_partial || (ack != sent.end && is_after(sent.end, ack)) {
                let gap = newer_seq.map_or(0, |newer: u32| newer.wrapping_sub(sent.end));
                is_in_order &= gap < SPAN && sent.end.wrapping_sub(sent.seq).wrapping_sub(1) < SPAN;
                newer_seq = Some(sent.seq);
            } else {
                self.remove(list, at);
            }
            at = older;
        }
        let span = self.ends(*list).map_or(0, |(oldest, newest)| newest.end.wrapping_sub(oldest.seq));
        list.is_in_order = is_in_order && span < SPAN;
        found
    }

    /// From the first to the last byte of a list, relative to the start of its direction, without regard to wraps.
    #[inline]
    pub(super) fn extent(&mut self, list: List, base: u32) -> Option<u32> {
        let (oldest, newest) = self.ends(list)?;
        let (first, span) = (oldest.seq.wrapping_sub(base), newest.end.wrapping_sub(oldest.seq));
        if list.is_in_order && first.checked_add(span).is_some() {
            return Some(span);
        }
        Some(self.extent_of_any(list, base))
    }

    fn extent_of_any(&mut self, list: List, base: u32) -> u32 {
        let (mut first, mut last) = (u32::MAX, 0);
        for sent in self.iter(list) {
            first = first.min(sent.seq.wrapping_sub(base));
            last = last.max(sent.end.wrapping_sub(base));
        }
        last.wrapping_sub(first)
    }

    pub(super) fn clear(&mut self, list: &mut List) {
        while list.count > 0 {
            self.remove(list, list.newest);
        }
        *list = List::default();
    }

    #[inline]
    fn ends(&self, list: List) -> Option<(&Sent, &Sent)> {
        if list.count == 0 {
            return None;
        }
        let newest = &self.places[list.newest as usize];
        Some((&self.places[newest.newer as usize].sent, &newest.sent))
    }

    #[inline]
    fn place(&mut self, sent: Sent, newer: u32, older: u32) -> u32 {
        self.in_use += 1;
        let place = Slot { sent, newer, older };
        let at = self.free;
        match self.places.get_mut(at as usize) {
            Some(free) => {
                self.free = free.newer;
                *free = place;
                at
            }
            None => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, list: &mut List, at: u32) {
        let oldest = self.places[list.newest as usize].newer;
        let Slot { newer, older, .. } = self.places[at as usize];
        let older = if at == oldest { list.newest } else { older };
        self.places[older as usize].newer = newer;
        self.places[newer as usize].older = older;
        if list.newest == at {
            list.newest = older;
        }
        list.count -= 1;
        if list.count == 0 {
            *list = List::default();
        }
        self.places[at as usize].newer = self.free;
        self.free = at;
        self.in_use -= 1;
    }
}
