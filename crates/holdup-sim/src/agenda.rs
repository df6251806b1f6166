//! The next event of everything that has one: a tournament tree over slots.
//!
//! A simulated machine has a known set of things that something can happen to: each CPU has the end of what it does and
//! its tick, each task its timer, each device its completion. Each has at most one next event, so a slot per thing is
//! enough and nothing is ever inserted or removed: a slot is set, moved or cleared. In a tree of winners all three write
//! one path from a leaf towards the root, whose other parts are known before the walk begins, so the loads do not wait
//! for one another; a heap decides at each level where to look next. The walk ends where the least key stays the same.
//!
//! Four slots make a group, and the least keys of four groups make a group of the level above. What a level adds to the
//! time that one event takes is one comparison: the least of the three others is known by then.
//!
//! Times are integer nanoseconds, packed with the slot into 64 bits. Two events of the same time come in the order of
//! their slots, on any machine.

/// The slots and their next events.
///
/// Slots that are set much more often than the others can have their own tree, which is lower.
#[derive(Debug, Clone)]
pub struct Agenda {
    all: Tree,
    /// Every `stride`th of the first slots.
    often: Tree,
    stride: usize,
    slot_bits: u32,
}

/// A tree of winners.
#[derive(Debug, Clone)]
struct Tree {
    /// The groups of all levels, that of the slots first.
    groups: Vec<Group>,
    /// The first group of each level.
    levels: Vec<u32>,
    /// The least key of all.
    least: u64,
}

/// Four keys side by side in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Group([u64; 4]);

/// The key of a slot without an event.
const NONE: u64 = u64::MAX;

pub const MOST_SLOTS: usize = 1 << 24;

impl Tree {
    fn new(slots: usize) -> Self {
        let mut levels = Vec::new();
        let (mut groups, mut of_level) = (0, slots.max(1));
        while of_level > 1 || levels.is_empty() {
            of_level = of_level.div_ceil(4);
            levels.push(groups as u32);
            groups += of_level;
        }
        Tree { groups: vec![Group([NONE; 4]); groups], levels, least: NONE }
    }

    #[inline(always)]
    fn write(&mut self, slot: usize, key: u64) {
        let mut at = slot;
        let mut least = key;
        for first in &self.levels {
            let lane = at % 4;
            at /= 4;
            let Group(group) = &mut self.groups[*first as usize + at];
            let others = group[lane ^ 1].min(group[lane ^ 2]).min(group[lane ^ 3]);
            let before = group[lane].min(others);
            group[lane] = least;
            least = least.min(others);
            if least == before {
                // The levels above know it already: most events that are moved are not among the next ones.
                return;
            }
        }
        self.least = least;
    }
}

impl Agenda {
    /// An agenda of `slots` slots, none of which has an event.
    ///
    /// # Panics
    /// With more than [`MOST_SLOTS`].
    pub fn new(slots: usize) -> Self {
        Agenda::with_often(slots, 1, 0)
    }

    /// An agenda of `slots` slots. Of the first ones every `stride`th, `often` of them, is set much more often than the
    /// others, by [`Agenda::set_often`] and [`Agenda::clear_often`] alone.
    ///
    /// # Panics
    /// With more than [`MOST_SLOTS`].
    pub fn with_often(slots: usize, stride: usize, often: usize) -> Self {
        assert!(slots <= MOST_SLOTS, "{slots} slots");
        let slot_bits = slots.max(2).next_power_of_two().trailing_zeros();
        Agenda { all: Tree::new(slots), often: Tree::new(often), stride, slot_bits }
    }

    /// The last time that an event can have, ns: with as many slots as fit into 20 bits 4.8 hours.
    pub fn last_time_ns(&self) -> u64 {
        (1 << (64 - self.slot_bits)) - 2
    }

    #[inline]
    fn key(&self, slot: usize, at_ns: u64) -> u64 {
        if at_ns > self.last_time_ns() { NONE } else { at_ns << self.slot_bits | slot as u64 }
    }

    /// Sets the next event of a slot, whether it had one or not. A time after [`Agenda::last_time_ns`] is never.
    ///
    /// To take the earliest event and set the slot's next one, set it: there is no need to clear it first.
    #[inline]
    pub fn set(&mut self, slot: usize, at_ns: u64) {
        self.all.write(slot, self.key(slot, at_ns));
    }

    /// Takes a slot's event away.
    #[inline]
    pub fn clear(&mut self, slot: usize) {
        self.all.write(slot, NONE);
    }

    /// Sets the next event of the slot `number * stride`.
    #[inline]
    pub fn set_often(&mut self, number: usize, at_ns: u64) {
        self.often.write(number, self.key(number * self.stride, at_ns));
    }

    /// Takes the event of the slot `number * stride` away.
    #[inline]
    pub fn clear_often(&mut self, number: usize) {
        self.often.write(number, NONE);
    }

    /// The earliest event: its time and its slot.
    #[inline]
    pub fn next(&self) -> Option<(u64, usize)> {
        let least = self.all.least.min(self.often.least);
        (least != NONE).then(|| (least >> self.slot_bits, (least & ((1 << self.slot_bits) - 1)) as usize))
    }

    /// When the event of a slot is, if it has one; not of one that is set often.
    #[inline]
    pub fn at(&self, slot: usize) -> Option<u64> {
        let key = self.all.groups[slot / 4].0[slot % 4];
        (key != NONE).then_some(key >> self.slot_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn events_of_the_same_time_come_in_the_order_of_their_slots() {
        let mut agenda = Agenda::new(5);
        for (slot, at) in [(4, 7), (2, 7), (0, 9), (3, 8)] {
            agenda.set(slot, at);
        }
        let mut seen = Vec::new();
        while let Some((at, slot)) = agenda.next() {
            seen.push((at, slot));
            agenda.clear(slot);
        }
        assert_eq!(seen, [(7, 2), (7, 4), (8, 3), (9, 0)]);
    }

    #[test]
    fn an_event_after_the_last_time_never_comes() {
        let mut agenda = Agenda::new(1000);
        let last = agenda.last_time_ns();
        agenda.set(999, last);
        assert_eq!(agenda.next(), Some((last, 999)));
        agenda.set(999, last + 1);
        assert_eq!(agenda.next(), None);
    }

    proptest! {
        #[test]
        fn an_agenda_is_a_sorted_set(slots in 1usize..70, stride in 1usize..6, often in 0usize..70, ops in proptest::collection::vec((0usize..70, 0u64..50, any::<bool>()), 0..200)) {
            let often = often.min(slots.div_ceil(stride));
            let mut agenda = Agenda::with_often(slots, stride, often);
            let mut set = BTreeSet::new();
            for (slot, at, clears) in ops {
                let slot = slot % slots;
                set.retain(|&(_, s)| s != slot);
                let is_often = slot % stride == 0 && slot / stride < often;
                match (clears, is_often) {
                    (true, true) => agenda.clear_often(slot / stride),
                    (true, false) => agenda.clear(slot),
                    (false, true) => agenda.set_often(slot / stride, at),
                    (false, false) => agenda.set(slot, at),
                }
                if !clears {
                    set.insert((at, slot));
                }
                prop_assert_eq!(agenda.next(), set.first().copied());
            }
        }
    }
}
