//! Histograms that count a value in a few instructions.

use holdup_model::histogram::Histogram;

/// A histogram that distinguishes all values below 2^(BITS + 1) and has 2^BITS buckets per octave above.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spread<const BITS: u32> {
    buckets: Vec<u32>,
}

/// For times, to within 0.4 %.
pub type Coarse = Spread<7>;

/// For sizes and rare times, with the buckets of a [`Histogram`], so that the conversion is lossless.
pub type Fine = Spread<10>;

impl<const BITS: u32> Spread<BITS> {
    /// Counts one value.
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        let place = Self::place(value);
        match self.buckets.get_mut(place) {
            Some(count) => *count = count.saturating_add(1),
            None => self.begin(place),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin(&mut self, place: usize) {
        self.buckets.resize(place + 1, 0);
        self.buckets[place] = 1;
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|n| u64::from(*n)).sum()
    }

    #[inline(always)]
    fn place(value: u64) -> usize {
        let exponent = (value | 1 << BITS).ilog2() - BITS;
        ((value >> exponent) as usize) + ((exponent as usize) << BITS)
    }

    /// The first value of a bucket, and the one after the last.
    fn range(place: usize) -> (f64, f64) {
        let exponent = (place >> BITS).saturating_sub(1);
        let mantissa = place - (exponent << BITS);
        let unit = 2.0_f64.powi(exponent as i32);
        (mantissa as f64 * unit, (mantissa + 1) as f64 * unit)
    }

    /// A quantile (0 to 1): the middle of its bucket.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let rank = (quantile * self.count() as f64).ceil().max(1.0);
        let mut up_to = 0.0;
        for (place, n) in self.buckets.iter().enumerate() {
            up_to += f64::from(*n);
            if up_to >= rank {
                let (low, high) = Self::range(place);
                return Some((low + high - 1.0) / 2.0);
            }
        }
        None
    }

    /// Converts, with each value as the middle of its bucket.
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (place, n) in self.buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
            let (low, high) = Self::range(place);
            histogram.record_n_ns(((low + high - 1.0) / 2.0) as u64, u64::from(*n));
        }
        histogram
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_its_bucket() {
        for value in [0, 1, 31, 32, 33, 63, 64, 65, 1448, 65_160, 1_000_000, u64::from(u32::MAX), 1 << 42] {
            let mut coarse = Coarse::default();
            coarse.record(value);
            let found = coarse.quantile(0.5).expect("a value");
            assert!((found - value as f64).abs() <= 0.004 * value as f64, "{value}: {found}");
        }
        let mut coarse = Coarse::default();
        (1..=10_000).for_each(|v| coarse.record(v));
        for q in [0.1, 0.5, 0.9, 0.99] {
            let found = coarse.quantile(q).expect("a value");
            assert!((found / (q * 10_000.0) - 1.0).abs() < 0.01, "{q}: {found}");
        }
        assert_eq!(Coarse::default().quantile(0.5), None);
    }

    #[test]
    fn the_fine_one_has_the_buckets_of_the_histogram() {
        let (mut fine, mut direct) = (Fine::default(), Histogram::new());
        let mut value = 1_u64;
        while value < 1 << 41 {
            for near in [value - 1, value, value + 1] {
                fine.record(near);
                direct.record_ns(near);
            }
            value += value / 300 + 1;
        }
        for beyond in [1 << 43, u64::MAX] {
            fine.record(beyond);
            direct.record_ns(beyond);
        }
        let of = |histogram: &Histogram| histogram.buckets().collect::<Vec<_>>();
        assert_eq!(of(&fine.histogram()), of(&direct));
        assert_eq!(fine.histogram().clipped(), 2);
    }
}
