//! The agenda, and bare loops over what one would write by hand for these models.

use crate::models::Engine;
use holdup_sim::agenda::Agenda;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

pub(crate) struct Ours(Agenda);

impl Engine for Ours {
    fn new(slots: usize, _gap_ns: f64) -> Self {
        Ours(Agenda::new(slots))
    }
    #[inline]
    fn set(&mut self, slot: usize, at: u64) {
        self.0.set(slot, at);
    }
    #[inline]
    fn next(&mut self) -> (u64, usize) {
        self.0.next().expect("there is always one")
    }
    #[inline]
    fn replace(&mut self, slot: usize, at: u64) {
        self.0.set(slot, at);
    }
    #[inline]
    fn take(&mut self, slot: usize) {
        self.0.clear(slot);
    }
}

/// How many bits of a key say the slot.
const BITS: u32 = 20;

fn key(slot: usize, at: u64) -> u64 {
    at << BITS | slot as u64
}

fn parts(key: u64) -> (u64, usize) {
    (key >> BITS, (key & ((1 << BITS) - 1)) as usize)
}

/// The standard library's heap, of packed keys; the top is replaced in place.
pub(crate) struct Binary(BinaryHeap<Reverse<u64>>);

impl Engine for Binary {
    fn new(slots: usize, _gap_ns: f64) -> Self {
        Binary(BinaryHeap::with_capacity(slots))
    }
    #[inline]
    fn set(&mut self, slot: usize, at: u64) {
        self.0.push(Reverse(key(slot, at)));
    }
    #[inline]
    fn next(&mut self) -> (u64, usize) {
        parts(self.0.peek().expect("there is always one").0)
    }
    #[inline]
    fn replace(&mut self, slot: usize, at: u64) {
        *self.0.peek_mut().expect("there is always one") = Reverse(key(slot, at));
    }
    #[inline]
    fn take(&mut self, _slot: usize) {
        PeekMut::pop(self.0.peek_mut().expect("there is always one"));
    }
}

/// A heap with four children per node, of packed keys. The four are in one cache line; places behind the end hold the
/// largest key, so that nothing asks where the end is.
pub(crate) struct Quaternary {
    groups: Vec<Group>,
    /// Place behind the last key. The root stands at 3, the children of place `i` fill group `i - 2`.
    end: usize,
}

#[derive(Clone, Copy)]
#[repr(align(32))]
struct Group([u64; 4]);

const ROOT: usize = 3;

impl Quaternary {
    #[inline(always)]
    fn at(&mut self, place: usize) -> &mut u64 {
        &mut self.groups[place / 4].0[place % 4]
    }

    /// Lets a key sink from the root.
    #[inline(always)]
    fn sink(&mut self, key: u64) {
        let mut hole = ROOT;
        while let Some(Group(children)) = self.groups.get(hole - 2) {
            let (left, low) = if children[1] < children[0] { (1, children[1]) } else { (0, children[0]) };
            let (right, high) = if children[3] < children[2] { (3, children[3]) } else { (2, children[2]) };
            let (lane, least) = if high < low { (right, high) } else { (left, low) };
            if least >= key {
                break;
            }
            let group = hole - 2;
            *self.at(hole) = least;
            hole = 4 * group + lane;
        }
        *self.at(hole) = key;
    }
}

impl Engine for Quaternary {
    fn new(slots: usize, _gap_ns: f64) -> Self {
        Quaternary { groups: vec![Group([u64::MAX; 4]); slots.div_ceil(4) + 2], end: ROOT }
    }
    #[inline]
    fn set(&mut self, slot: usize, at: u64) {
        let key = key(slot, at);
        let mut hole = self.end;
        self.end += 1;
        while hole > ROOT {
            let parent = hole / 4 + 2;
            let above = *self.at(parent);
            if above <= key {
                break;
            }
            *self.at(hole) = above;
            hole = parent;
        }
        *self.at(hole) = key;
    }
    #[inline]
    fn next(&mut self) -> (u64, usize) {
        parts(self.groups[0].0[ROOT])
    }
    #[inline]
    fn replace(&mut self, slot: usize, at: u64) {
        self.sink(key(slot, at));
    }
    #[inline]
    fn take(&mut self, _slot: usize) {
        self.end -= 1;
        let end = self.end;
        let last = std::mem::replace(self.at(end), u64::MAX);
        if end > ROOT {
            self.sink(last);
        }
    }
}

/// A calendar queue (Brown 1988) that was tuned to the model: a day lasts as long as the mean gap between two events,
/// the year has room for the longest span, and a map of bits says which days have events.
pub(crate) struct Calendar {
    /// The first slot of each day; the next ones follow in the order of their times.
    days: Vec<u32>,
    /// When a slot's event is, and the next slot of its day.
    entries: Vec<(u64, u32)>,
    filled: Vec<u64>,
    day_bits: u32,
    today: usize,
}

const NO_SLOT: u32 = u32::MAX;

impl Engine for Calendar {
    fn new(slots: usize, gap_ns: f64) -> Self {
        let day_bits = (gap_ns.max(1.0)).log2().round() as u32;
        // The longest span of 2^14 exponentially distributed ones is about 10 means; 16 of them make a year.
        let days = ((gap_ns * slots as f64 * 16.0) as usize >> day_bits).next_power_of_two().max(64);
        let entries = vec![(0, NO_SLOT); slots];
        Calendar { days: vec![NO_SLOT; days], entries, filled: vec![0; days / 64], day_bits, today: 0 }
    }
    #[inline]
    fn set(&mut self, slot: usize, at: u64) {
        let day = (at >> self.day_bits) as usize % self.days.len();
        self.filled[day / 64] |= 1 << (day % 64);
        let mut next = self.days[day];
        if next == NO_SLOT || (self.entries[next as usize].0, next) > (at, slot as u32) {
            self.days[day] = slot as u32;
            self.entries[slot] = (at, next);
            return;
        }
        loop {
            let before = next;
            next = self.entries[before as usize].1;
            if next == NO_SLOT || (self.entries[next as usize].0, next) > (at, slot as u32) {
                self.entries[before as usize].1 = slot as u32;
                self.entries[slot] = (at, next);
                return;
            }
        }
    }
    #[inline]
    fn next(&mut self) -> (u64, usize) {
        let mut word = self.today / 64;
        let mut bits = self.filled[word] & u64::MAX << (self.today % 64);
        while bits == 0 {
            word = (word + 1) % self.filled.len();
            bits = self.filled[word];
        }
        self.today = word * 64 + bits.trailing_zeros() as usize;
        let slot = self.days[self.today] as usize;
        (self.entries[slot].0, slot)
    }
    #[inline]
    fn replace(&mut self, slot: usize, at: u64) {
        self.take(slot);
        self.set(slot, at);
    }
    #[inline]
    fn take(&mut self, slot: usize) {
        let next = self.entries[slot].1;
        self.days[self.today] = next;
        if next == NO_SLOT {
            self.filled[self.today / 64] &= !(1 << (self.today % 64));
        }
    }
}
