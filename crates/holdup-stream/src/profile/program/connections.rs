//! The connections of one strand.

/// The open connections of a strand by slot.
///
/// A slot may hold several. The one that a step takes is the one that was taken before, or else the newest; closing
/// any connection of the strand ends that choice in all slots (uperf 1.0.8: strand.c, `strand_get_connection` and
/// `strand_delete_connection`). What is closed is the one that would be taken; uperf then forgets the newest one of
/// that name instead, which is another one when a strand has used one and opened a second since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connections<C> {
    slots: Vec<Slot<C>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot<C> {
    /// Oldest first.
    open: Vec<C>,
    /// The one that was taken, by its place.
    taken: Option<usize>,
}

impl<C> Connections<C> {
    /// None yet, for that number of slots.
    pub fn new(slots: u16) -> Self {
        Connections { slots: (0..slots).map(|_| Slot { open: Vec::new(), taken: None }).collect() }
    }

    /// Adds a connection that was made.
    pub fn add(&mut self, slot: u16, connection: C) {
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            slot.open.push(connection);
        }
    }

    /// The connection that a step takes; `None` when none is open there.
    #[inline]
    pub fn current(&mut self, slot: u16) -> Option<&mut C> {
        let slot = self.slots.get_mut(usize::from(slot))?;
        let at = match slot.taken {
            Some(at) => at,
            None => *slot.taken.insert(slot.open.len().checked_sub(1)?),
        };
        slot.open.get_mut(at)
    }

    /// Takes the current connection of a slot out, to be closed; `None` when none is open there.
    pub fn remove(&mut self, slot: u16) -> Option<C> {
        self.current(slot)?;
        let slot = self.slots.get_mut(usize::from(slot))?;
        let removed = slot.taken.map(|at| slot.open.remove(at));
        for slot in &mut self.slots {
            slot.taken = None;
        }
        removed
    }

    /// How many are open in all slots.
    pub fn open(&self) -> usize {
        self.slots.iter().map(|slot| slot.open.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_gives_the_one_that_was_taken_before_else_the_newest() {
        let mut c = Connections::new(2);
        assert_eq!(c.current(0), None);
        assert_eq!(c.remove(0), None);
        c.add(0, 1);
        c.add(0, 2);
        c.add(1, 10);
        assert_eq!(c.current(0), Some(&mut 2), "the newest");
        c.add(0, 3);
        assert_eq!(c.current(0), Some(&mut 2), "it stays");
        assert_eq!(c.current(1), Some(&mut 10));
        c.add(1, 11);
        assert_eq!(c.remove(0), Some(2), "the current one is closed");
        assert_eq!(c.current(0), Some(&mut 3), "then the newest again");
        assert_eq!(c.current(1), Some(&mut 11), "in all slots");
        assert_eq!(c.open(), 4);
        assert_eq!([0, 0, 1, 1].map(|slot| c.remove(slot)), [3, 1, 11, 10].map(Some));
    }

    #[test]
    fn closing_without_use_goes_from_the_newest_to_the_oldest() {
        let mut c = Connections::new(1);
        (0..4).for_each(|i| c.add(0, i));
        let closed: Vec<i32> = std::iter::from_fn(|| c.remove(0)).collect();
        assert_eq!(closed, [3, 2, 1, 0]);
    }

    #[test]
    fn a_slot_that_is_not_there_is_empty() {
        let mut c = Connections::new(0);
        c.add(0, 1);
        assert_eq!(c.current(0), None);
        assert_eq!(c.remove(7), None);
        assert_eq!(c.open(), 0);
    }
}
