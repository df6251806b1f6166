//! How often each value was seen, counted fast.

use holdup_model::histogram::Histogram;

/// Values below this are told apart; of larger ones, so many steps are in each doubling.
const STEPS: u32 = 1024;

/// Counts of values in the buckets that a [`Histogram`] has (three significant digits), so that nothing is lost on the way
/// into one. To count here takes a few instructions.
#[derive(Debug)]
pub(super) struct Spread(Vec<u32>);

impl Default for Spread {
    fn default() -> Self {
        // From 2^11 to 2^64 there are 53 doublings; the first two steps are one by one.
        Spread(vec![0; 55 * STEPS as usize])
    }
}

impl Spread {
    /// Counts a value.
    #[inline]
    pub(super) fn count(&mut self, value: u64) {
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub((2 * STEPS).ilog2());
        let at = (shift * STEPS) as usize + (value >> shift) as usize;
        self.0[at] += 1;
    }

    /// All of it.
    pub(super) fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (at, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let shift = (at as u32 / STEPS).saturating_sub(1);
            let value = (at as u64 - u64::from(shift * STEPS)) << shift;
            histogram.record_n_ns(value, u64::from(*count));
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_buckets_of_the_histogram() {
        let (mut spread, mut direct) = (Spread::default(), Histogram::new());
        let mut value = 1_u64;
        while value < 1 << 41 {
            for near in [value - 1, value, value + 1] {
                spread.count(near);
                direct.record_ns(near);
            }
            value += value / 300 + 1;
        }
        for beyond in [1 << 43, u64::MAX] {
            spread.count(beyond);
            direct.record_ns(beyond);
        }
        let of = |histogram: &Histogram| histogram.buckets().collect::<Vec<_>>();
        assert_eq!(of(&spread.histogram()), of(&direct));
        assert_eq!(spread.histogram().clipped(), 2);
    }
}
