//! Counts of marks per direction; a direction without trouble needs no memory.

use super::marks::Kinds;
use crate::flows::Counts;
use crate::kinds::Kind;

/// Most connections have these once or twice, so they are counted in the direction itself.
const COMMON: [Kind; 5] = [Kind::Syn, Kind::SynAck, Kind::Fin, Kind::FinActive, Kind::FinPassive];

/// Counters in a block.
const WIDTH: usize = 3;

#[derive(Debug, Clone, Copy)]
struct Block {
    counts: [u32; WIDTH],
    /// Indices in the catalogue.
    kinds: [u8; WIDTH],
    used: u8,
    /// The next block of the same direction plus one; 0 for none.
    next: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    common: [u8; COMMON.len()],
    /// Its first block plus one; 0 for none. Bytes, to avoid padding.
    first: [u8; 4],
}

impl Tally {
    fn first(self) -> Option<usize> {
        (u32::from_ne_bytes(self.first) as usize).checked_sub(1)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Tallies(Vec<Block>);

impl Tallies {
    #[inline]
    pub(super) fn count(&mut self, tally: &mut Tally, kinds: Kinds) {
        if !kinds.is_empty() {
            kinds.iter().for_each(|kind| self.count_one(tally, kind));
        }
    }

    fn count_one(&mut self, tally: &mut Tally, kind: Kind) {
        if let Some(i) = COMMON.iter().position(|common| *common == kind)
            && tally.common[i] < u8::MAX
        {
            tally.common[i] += 1;
            return;
        }
        let mut at = tally.first();
        while let Some(i) = at {
            let place = &mut self.0[i];
            let found = place.kinds[..usize::from(place.used)].iter().position(|k| *k == kind as u8);
            if let Some(j) = found {
                place.counts[j] += 1;
                return;
            }
            at = (place.next as usize).checked_sub(1);
        }
        self.add(tally, kind);
    }

    /// Adds a counter: in the first block, if that is not full, else in a new block before it.
    fn add(&mut self, tally: &mut Tally, kind: Kind) {
        let first = tally.first();
        match first {
            Some(i) if usize::from(self.0[i].used) < WIDTH => {
                let place = &mut self.0[i];
                let j = usize::from(place.used);
                (place.kinds[j], place.counts[j]) = (kind as u8, 1);
                place.used += 1;
            }
            _ => {
                let next = first.map_or(0, |i| i as u32 + 1);
                self.0.push(Block { counts: [1, 0, 0], kinds: [kind as u8, 0, 0], used: 1, next });
                tally.first = (self.0.len() as u32).to_ne_bytes();
            }
        }
    }

    pub(super) fn counts(&self, tally: &Tally) -> Counts {
        let mut counts = Counts::default();
        for (kind, n) in COMMON.iter().zip(tally.common).filter(|(_, n)| *n > 0) {
            counts.add(*kind, n.into());
        }
        let first = tally.first().map(|i| &self.0[i]);
        for place in std::iter::successors(first, |place| Some(&self.0[(place.next as usize).checked_sub(1)?])) {
            for (kind, n) in place.kinds.iter().zip(place.counts).take(place.used.into()) {
                counts.add(Kind::ALL[usize::from(*kind)], n.into());
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_counted() {
        let mut tallies = Tallies::default();
        let mut tally = [Tally::default(); 2];
        for round in 0..300_u32 {
            for (i, kind) in Kind::ALL.iter().enumerate() {
                if round % (i as u32 + 1) == 0 {
                    tallies.count(&mut tally[round as usize % 2], Kinds::of(*kind));
                }
            }
        }
        for (i, kind) in Kind::ALL.iter().enumerate() {
            let of = |parity: u32| (0..300).filter(|r| r % (i as u32 + 1) == 0 && r % 2 == parity).count() as u64;
            assert_eq!(tallies.counts(&tally[0]).get(*kind), of(0), "{kind:?}");
            assert_eq!(tallies.counts(&tally[1]).get(*kind), of(1), "{kind:?}");
        }
    }

    #[test]
    fn common_marks_need_no_block() {
        let mut tallies = Tallies::default();
        let mut tally = Tally::default();
        tallies.count(&mut tally, COMMON.into_iter().collect());
        assert_eq!((tallies.0.len(), tallies.counts(&tally).get(Kind::Fin)), (0, 1));
    }
}
