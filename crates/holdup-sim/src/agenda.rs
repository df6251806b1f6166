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
#[derive(Debug, Clone)]
pub struct Agenda {
    /// The groups of all levels, that of the slots first.
    groups: Vec<Group>,
    /// The first group of each level.
    levels: Vec<u32>,
    /// The least key of all.
    least: u64,
    slot_bits: u32,
}

/// Four keys side by side in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Group([u64; 4]);

/// The key of a slot without an event.
const NONE: u64 = u64::MAX;

/// The most slots.
pub const MOST_SLOTS: usize = 1 << 24;

impl Agenda {
    /// An agenda of `slots` slots, none of which has an event.
    ///
    /// # Panics
    /// With more than [`MOST_SLOTS`].
    pub fn new(slots: usize) -> Self {
        assert!(slots <= MOST_SLOTS, "{slots} slots");
        let slot_bits = slots.max(2).next_power_of_two().trailing_zeros();
        let mut levels = Vec::new();
        let (mut groups, mut of_level) = (0, slots.max(1));
        while of_level > 1 || levels.is_empty() {
            of_level = of_level.div_ceil(4);
            levels.push(groups as u32);
            groups += of_level;
        }
        Agenda { groups: vec![Group([NONE; 4]); groups], levels, least: NONE, slot_bits }
    }

    /// The last time that an event can have, ns: with as many slots as fit into 20 bits 4.8 hours.
    pub fn last_time_ns(&self) -> u64 {
        (1 << (64 - self.slot_bits)) - 2
    }

    /// Sets the next event of a slot, whether it had one or not. A time after [`Agenda::last_time_ns`] is never.
    ///
    /// To take the earliest event and set the slot's next one, set it: there is no need to clear it first.
    #[inline]
    pub fn set(&mut self, slot: usize, at_ns: u64) {
        let key = if at_ns > self.last_time_ns() { NONE } else { at_ns << self.slot_bits | slot as u64 };
        self.write(slot, key);
    }

    /// Takes a slot's event away.
    #[inline]
    pub fn clear(&mut self, slot: usize) {
        self.write(slot, NONE);
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

    /// The earliest event: its time and its slot.
    #[inline]
    pub fn next(&self) -> Option<(u64, usize)> {
        let least = self.least;
        (least != NONE).then(|| (least >> self.slot_bits, (least & ((1 << self.slot_bits) - 1)) as usize))
    }

    /// When the event of a slot is, if it has one.
    #[inline]
    pub fn at(&self, slot: usize) -> Option<u64> {
        let key = self.groups[slot / 4].0[slot % 4];
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
        fn an_agenda_is_a_sorted_set(slots in 1usize..70, ops in proptest::collection::vec((0usize..70, 0u64..50, any::<bool>()), 0..200)) {
            let mut agenda = Agenda::new(slots);
            let mut set = BTreeSet::new();
            for (slot, at, clears) in ops {
                let slot = slot % slots;
                set.retain(|&(_, s)| s != slot);
                if clears {
                    agenda.clear(slot);
                } else {
                    agenda.set(slot, at);
                    set.insert((at, slot));
                }
                prop_assert_eq!(agenda.next(), set.first().copied());
            }
        }
    }
}
