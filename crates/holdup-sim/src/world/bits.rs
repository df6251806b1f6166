//! Sets of CPUs, and how many tasks each has: what is asked of them takes a few steps on any number of CPUs.

/// A set of small numbers with a summary of its words.
#[derive(Debug, Clone)]
pub(crate) struct Bits {
    words: Vec<u64>,
    /// A bit for each word that is not empty.
    summary: Vec<u64>,
}

impl Bits {
    pub(crate) fn new(size: usize) -> Self {
        let words = size.div_ceil(64);
        Bits { words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }

    pub(crate) fn set(&mut self, number: u32, is: bool) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if is {
            self.words[word] |= bit;
            self.summary[word / 64] |= 1 << (word % 64);
        } else {
            self.words[word] &= !bit;
            if self.words[word] == 0 {
                self.summary[word / 64] &= !(1 << (word % 64));
            }
        }
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.words[number as usize / 64] >> (number % 64) & 1 == 1
    }

    /// The first member from `from` on and before `end`.
    pub(crate) fn first(&self, from: u32, end: u32) -> Option<u32> {
        if from >= end {
            return None;
        }
        let word = from as usize / 64;
        let bits = self.words[word] & (u64::MAX << (from % 64));
        let found = if bits != 0 {
            word as u32 * 64 + bits.trailing_zeros()
        } else {
            let word = self.word_after(word)?;
            word as u32 * 64 + self.words[word].trailing_zeros()
        };
        (found < end).then_some(found)
    }

    fn word_after(&self, word: usize) -> Option<usize> {
        let next = word + 1;
        let mut at = next / 64;
        let mut bits = *self.summary.get(at)? & (u64::MAX << (next % 64));
        while bits == 0 {
            at += 1;
            bits = *self.summary.get(at)?;
        }
        Some(at * 64 + bits.trailing_zeros() as usize)
    }

    /// The first member of a range, from `from` on and round.
    pub(crate) fn round(&self, (begin, end): (u32, u32), from: u32) -> Option<u32> {
        let from = from.clamp(begin, end);
        self.first(from, end).or_else(|| self.first(begin, from))
    }
}

/// A number for each CPU, with the greatest, the least and the sum of any range.
///
/// The numbers change at most wake-ups and switches, and are asked for where CPUs look for work or a place far away: what
/// stands above a number is brought up to date when it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    /// Node `i` is over its children `2i` and `2i + 1`; the leaves are the second half.
    nodes: Vec<Node>,
    leaves: usize,
    /// Whose number has changed since.
    changed: Bits,
}

/// The numbers of some CPUs: side by side, because a walk to the root reads and writes all of them.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(16))]
struct Node {
    greatest: u32,
    least: u32,
    sum: u32,
}

impl Counts {
    pub(crate) fn new(size: usize) -> Self {
        let leaves = size.next_power_of_two();
        Counts { nodes: vec![Node::default(); 2 * leaves], leaves, changed: Bits::new(leaves) }
    }

    /// Sets a CPU's number. Whether it was another one.
    pub(crate) fn set(&mut self, cpu: u32, count: u32) -> bool {
        let leaf = &mut self.nodes[self.leaves + cpu as usize];
        let is_other = leaf.sum != count;
        if is_other {
            *leaf = Node { greatest: count, least: count, sum: count };
            self.changed.set(cpu, true);
        }
        is_other
    }

    /// Brings what stands above the numbers that have changed up to date.
    fn update_sums(&mut self) {
        let mut from = 0;
        while let Some(cpu) = self.changed.first(from, self.leaves as u32) {
            from = cpu + 1;
            self.changed.set(cpu, false);
            let mut at = self.leaves + cpu as usize;
            let mut node = self.nodes[at];
            while at > 1 {
                let other = self.nodes[at ^ 1];
                node = Node {
                    greatest: node.greatest.max(other.greatest),
                    least: node.least.min(other.least),
                    sum: node.sum + other.sum,
                };
                at /= 2;
                self.nodes[at] = node;
            }
        }
    }

    pub(crate) fn of(&self, cpu: u32) -> u32 {
        self.nodes[self.leaves + cpu as usize].sum
    }

    pub(crate) fn sum(&mut self, (begin, end): (u32, u32)) -> u32 {
        let (mut a, mut b) = (begin as usize + self.leaves, end as usize + self.leaves);
        let mut sum = 0;
        self.update_sums();
        while a < b {
            if a % 2 == 1 {
                sum += self.nodes[a].sum;
                a += 1;
            }
            if b % 2 == 1 {
                b -= 1;
                sum += self.nodes[b].sum;
            }
            (a, b) = (a / 2, b / 2);
        }
        sum
    }

    /// A CPU of a range with the greatest number, and the number.
    pub(crate) fn greatest(&mut self, range: (u32, u32)) -> (u32, u32) {
        self.update_sums();
        self.best(|node| node.greatest, range, |new, old| new > old)
    }

    /// A CPU of a range with the least number, and the number.
    pub(crate) fn least(&mut self, range: (u32, u32)) -> (u32, u32) {
        self.update_sums();
        self.best(|node| node.least, range, |new, old| new < old)
    }

    fn best(
        &self,
        number: impl Fn(&Node) -> u32,
        (begin, end): (u32, u32),
        better: impl Fn(u32, u32) -> bool,
    ) -> (u32, u32) {
        let (mut a, mut b) = (begin as usize + self.leaves, end as usize + self.leaves);
        let of = |node: usize| number(&self.nodes[node]);
        let mut best: Option<usize> = None;
        let mut look = |node: usize| {
            if best.is_none_or(|old| better(of(node), of(old))) {
                best = Some(node);
            }
        };
        while a < b {
            if a % 2 == 1 {
                look(a);
                a += 1;
            }
            if b % 2 == 1 {
                b -= 1;
                look(b);
            }
            (a, b) = (a / 2, b / 2);
        }
        let mut at = best.unwrap_or(begin as usize + self.leaves);
        while at < self.leaves {
            at = 2 * at + usize::from(of(2 * at) != of(at));
        }
        ((at - self.leaves) as u32, of(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_finds_what_a_search_finds(numbers in proptest::collection::vec((0u32..9000, any::<bool>()), 0..60), from in 0u32..9000, end in 0u32..9000) {
            let mut bits = Bits::new(9000);
            let mut set = BTreeSet::new();
            for (number, is) in numbers {
                bits.set(number, is);
                if is { set.insert(number); } else { set.remove(&number); }
            }
            let expect = if from < end { set.range(from..end).next().copied() } else { None };
            prop_assert_eq!(bits.first(from, end), expect);
            prop_assert!(set.iter().all(|n| bits.has(*n)));
        }

        #[test]
        fn counts_know_the_greatest_and_the_sum(values in proptest::collection::vec(0u32..9, 1..70), a in 0usize..70, b in 0usize..70) {
            let mut counts = Counts::new(values.len());
            for (cpu, value) in values.iter().enumerate() {
                counts.set(cpu as u32, value / 2 + 1);
            }
            prop_assert_eq!(counts.sum((0, values.len() as u32)), values.iter().map(|v| v / 2 + 1).sum::<u32>());
            for (cpu, value) in values.iter().enumerate() {
                counts.set(cpu as u32, *value);
            }
            let (a, b) = (a.min(b) % values.len(), a.max(b) % values.len());
            let (a, b) = (a.min(b), a.max(b) + 1);
            let range = (a as u32, b as u32);
            prop_assert_eq!(counts.sum(range), values[a..b].iter().sum::<u32>());
            let (cpu, most) = counts.greatest(range);
            prop_assert_eq!(Some(most), values[a..b].iter().copied().max());
            prop_assert!(range.0 <= cpu && cpu < range.1);
            prop_assert_eq!(values[cpu as usize], most);
            let (cpu, least) = counts.least(range);
            prop_assert_eq!(Some(least), values[a..b].iter().copied().min());
            prop_assert!(range.0 <= cpu && cpu < range.1);
            prop_assert_eq!(values[cpu as usize], least);
        }
    }
}
