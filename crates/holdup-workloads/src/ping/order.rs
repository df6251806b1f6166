//! Finds messages that came twice or out of order.

/// Numbers that are remembered: an older one cannot be distinguished from one that comes for the first time.
const WINDOW: u64 = 1 << 16;
/// The smallest message whose number can be trusted when some are missing: it has 32 bits.
pub(crate) const SMALLEST: usize = 4;
const WORDS: usize = (WINDOW / 64) as usize;

/// How a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// After all lower numbers that came at all.
    InOrder,
    /// After a higher number.
    Late,
    /// Once more.
    Again,
}

/// The numbers seen so far.
pub(crate) struct Order {
    next: u64,
    /// True if numbers are long enough to be trusted when some are missing.
    trusted: bool,
    seen: Box<[u64]>,
}

impl Order {
    /// None so far, of messages of this size. The numbers of the shortest ones are too short: nothing is
    /// concluded from those.
    pub(crate) fn of_size(bytes: usize) -> Self {
        Order { next: 0, trusted: bytes >= SMALLEST, seen: vec![0; WORDS].into_boxed_slice() }
    }

    /// The number after the highest one.
    #[inline]
    pub(crate) fn expected(&self) -> u64 {
        self.next
    }

    /// Takes note of one.
    #[inline]
    pub(crate) fn note(&mut self, number: u64) -> Arrival {
        if number == self.next || !self.trusted {
            self.next += 1;
            self.set(number);
            return Arrival::InOrder;
        }
        self.unusual(number)
    }

    #[cold]
    fn unusual(&mut self, number: u64) -> Arrival {
        if number > self.next {
            if number - self.next >= WINDOW {
                self.seen.fill(0);
            } else {
                (self.next..number).for_each(|missing| *self.word(missing) &= !Self::bit(missing));
            }
            self.next = number.saturating_add(1);
            self.set(number);
            return Arrival::InOrder;
        }
        if self.next - number > WINDOW {
            return Arrival::Late;
        }
        if *self.word(number) & Self::bit(number) != 0 {
            return Arrival::Again;
        }
        self.set(number);
        Arrival::Late
    }

    fn set(&mut self, number: u64) {
        *self.word(number) |= Self::bit(number);
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.seen[(number / 64) as usize % WORDS]
    }

    fn bit(number: u64) -> u64 {
        1 << (number % 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn duplicates_are_distinguished_from_late_messages() {
        let mut order = Order::of_size(14);
        let mut check = |number, expect| assert_eq!(order.note(number), expect, "{number}");
        check(0, Arrival::InOrder);
        check(2, Arrival::InOrder);
        check(1, Arrival::Late);
        check(1, Arrival::Again);
        check(2, Arrival::Again);
        check(WINDOW * 3, Arrival::InOrder);
        check(WINDOW * 3 - 1, Arrival::Late);
        check(WINDOW * 3 - 1, Arrival::Again);
        check(5, Arrival::Late);
        check(u64::MAX, Arrival::InOrder);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(steps in proptest::collection::vec(0u64..300, 0..400)) {
            let (mut order, mut seen, mut highest) = (Order::of_size(14), BTreeSet::new(), None);
            for number in steps {
                let expect = match (seen.insert(number), highest.is_none_or(|h| number > h)) {
                    (false, _) => Arrival::Again,
                    (true, true) => Arrival::InOrder,
                    (true, false) => Arrival::Late,
                };
                highest = highest.max(Some(number));
                prop_assert_eq!(order.note(number), expect);
            }
        }
    }
}
