//! Latency histograms of evidence: the buckets of [`Histogram`], and memory only for those that hold something.

use crate::histogram::{Histogram, LARGEST_NS};
use crate::problem::Problem;
use serde::{Deserialize, Serialize};

/// Values below have a bucket each; above, a bucket is as wide as the value's highest bit says. It is the number
/// of values that HDR's three significant digits need (the power of two from 2 * 10^3 on).
const FINEST: u64 = 1 << 11;

/// The first value without a bucket: the end of the bucket array that [`LARGEST_NS`] makes necessary.
const END_NS: u64 = 1 << 42;

/// A histogram of durations in ns with the same answers as a [`Histogram`] of the same durations, in as much memory as it
/// has different durations: 16 bytes for each bucket in use, where a [`Histogram`] has 270 kB however few were counted.
/// Counting a duration is a search, so what counts while it measures has a [`Histogram`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SparseHistogram {
    /// Lowest value of a bucket and how many were counted in it, never zero; ascending.
    buckets: Vec<(u64, u64)>,
    clipped: u64,
}

/// How many values the bucket of a value has.
fn width(lowest: u64) -> u64 {
    1 << (lowest / FINEST).checked_ilog2().map_or(0, |above| above + 1)
}

/// The lowest value of the bucket in which a duration is counted.
fn lowest(value_ns: u64) -> u64 {
    let value = match value_ns {
        END_NS.. => LARGEST_NS,
        value => value.max(1),
    };
    value & !(width(value) - 1)
}

impl SparseHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one duration. Zero is counted as 1 ns, more than an hour as an hour.
    pub fn record_ns(&mut self, value_ns: u64) {
        self.record_n_ns(value_ns, 1);
    }

    /// Counts one duration `count` times.
    pub fn record_n_ns(&mut self, value_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        if value_ns > LARGEST_NS {
            self.clipped = self.clipped.saturating_add(count);
        }
        let lowest = lowest(value_ns);
        // Ascending ones, as they come from tables, go to the end without a search.
        match self.buckets.last_mut() {
            Some((last, n)) if *last == lowest => *n = n.saturating_add(count),
            Some((last, _)) if *last > lowest => match self.buckets.binary_search_by_key(&lowest, |b| b.0) {
                Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
                Err(at) => self.buckets.insert(at, (lowest, count)),
            },
            _ => self.buckets.push((lowest, count)),
        }
    }

    /// Adds all of another histogram.
    pub fn add(&mut self, other: &SparseHistogram) {
        self.clipped = self.clipped.saturating_add(other.clipped);
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
            return;
        }
        let mut merged = Vec::with_capacity(self.buckets.len() + other.buckets.len());
        let mut theirs = other.buckets.iter().copied().peekable();
        for (lowest, count) in self.buckets.drain(..) {
            while let Some(before) = theirs.next_if(|b| b.0 < lowest) {
                merged.push(before);
            }
            let same = theirs.next_if(|b| b.0 == lowest).map_or(0, |b| b.1);
            merged.push((lowest, count.saturating_add(same)));
        }
        merged.extend(theirs);
        self.buckets = merged;
    }

    /// Counts each duration this many times as often; to the nearest whole number.
    pub fn scale(&mut self, factor: f64) {
        for (_, count) in &mut self.buckets {
            *count = (*count as f64 * factor).round() as u64;
        }
        self.clipped = (self.clipped as f64 * factor).round() as u64;
        self.buckets.retain(|(_, count)| *count > 0);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum: u64, b| sum.saturating_add(b.1))
    }

    /// How many durations were longer than an hour and are counted as one hour.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Mean in ns; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.count() as f64;
        let middle = |lowest: u64| (lowest + (width(lowest) >> 1)) as f64;
        (count > 0.0).then(|| self.buckets.iter().fold(0.0, |sum, b| sum + middle(b.0) * b.1 as f64 / count))
    }

    /// The value at a quantile between 0 and 1, in ns; `None` when empty.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let quantile = quantile.clamp(0.0, 1.0);
        let wanted = ((quantile * self.count() as f64).ceil() as u64).max(1);
        let mut so_far = 0_u64;
        let reached = self.buckets.iter().find(|b| {
            so_far = so_far.saturating_add(b.1);
            so_far >= wanted
        });
        // Where the number of durations is beyond what a float represents exactly, the count that is wanted may be above it.
        let lowest = reached.or(self.buckets.last())?.0;
        Some(if quantile == 0.0 { lowest } else { lowest + width(lowest) - 1 })
    }

    /// How many samples are expected to lie beyond a quantile. Below 10 the quantile is marked in every table.
    pub fn samples_beyond(&self, quantile: f64) -> f64 {
        self.count() as f64 * (1.0 - quantile.clamp(0.0, 1.0))
    }

    /// Smallest and largest value in ns; `None` when empty.
    pub fn range_ns(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.buckets.first()?.0, self.buckets.last()?.0);
        Some((first, last + width(last) - 1))
    }

    /// The buckets that hold something, as (lowest value, highest value, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter().map(|(lowest, count)| (*lowest, lowest + width(*lowest) - 1, *count))
    }

    /// Gives back the memory that its buckets do not use.
    pub fn shrink_to_fit(&mut self) {
        self.buckets.shrink_to_fit();
    }

    /// How much memory its buckets take, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<(u64, u64)>()
    }

    /// The HDR V2 form, which is that of the [`Histogram`] of the same durations.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut whole = Histogram::new();
        self.buckets.iter().for_each(|(lowest, count)| whole.record_n_ns(*lowest, *count));
        whole.to_bytes()
    }

    /// Reads the HDR V2 form.
    pub fn from_bytes(bytes: &[u8], clipped: u64) -> Result<Self, Problem> {
        Histogram::from_bytes(bytes, clipped).map(|whole| Self::from(&whole))
    }
}

impl From<&Histogram> for SparseHistogram {
    fn from(whole: &Histogram) -> Self {
        let mut buckets: Vec<(u64, u64)> = whole.buckets().map(|(lowest, _, count)| (lowest, count)).collect();
        buckets.shrink_to_fit();
        SparseHistogram { buckets, clipped: whole.clipped() }
    }
}

/// Sent between agent and host like a [`Histogram`].
impl Serialize for SparseHistogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (serde_bytes::ByteBuf::from(self.to_bytes()), self.clipped).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SparseHistogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Histogram::deserialize(deserializer).map(|whole| Self::from(&whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The answers of both for the same durations.
    fn same_answers(sparse: &SparseHistogram, whole: &Histogram) -> Result<(), TestCaseError> {
        prop_assert_eq!(sparse.count(), whole.count());
        prop_assert_eq!(sparse.clipped(), whole.clipped());
        prop_assert_eq!(sparse.mean_ns(), whole.mean_ns());
        prop_assert_eq!(sparse.range_ns(), whole.range_ns());
        prop_assert_eq!(sparse.buckets().collect::<Vec<_>>(), whole.buckets().collect::<Vec<_>>());
        for quantile in [-1.0, 0.0, 1e-9, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0, 2.0] {
            prop_assert_eq!(sparse.quantile_ns(quantile), whole.quantile_ns(quantile), "at {}", quantile);
            prop_assert_eq!(sparse.samples_beyond(quantile), whole.samples_beyond(quantile));
        }
        prop_assert_eq!(sparse.to_bytes(), whole.to_bytes());
        prop_assert_eq!(sparse, &SparseHistogram::from(whole));
        Ok(())
    }

    fn durations() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let edges = [0, 1, FINEST - 1, FINEST, FINEST + 1, LARGEST_NS, LARGEST_NS + 1, END_NS - 1, END_NS, u64::MAX];
        let value = prop_oneof![
            (0..64_u32, any::<u64>()).prop_map(|(shift, value)| value >> shift),
            prop::sample::select(edges.to_vec()),
        ];
        prop::collection::vec((value, 0..1_000_000_u64), 0..60)
    }

    proptest! {
        #[test]
        fn it_answers_as_the_whole_histogram(a in durations(), b in durations()) {
            let (mut sparse, mut whole) = (SparseHistogram::new(), Histogram::new());
            for (value, count) in a.iter().filter(|(_, count)| *count > 0) {
                sparse.record_n_ns(*value, *count);
                whole.record_n_ns(*value, *count);
            }
            same_answers(&sparse, &whole)?;
            let back = SparseHistogram::from_bytes(&whole.to_bytes(), whole.clipped()).expect("reads back");
            prop_assert_eq!(&back, &sparse);
            let (mut more, mut more_whole) = (SparseHistogram::new(), Histogram::new());
            for (value, count) in b.iter().filter(|(_, count)| *count > 0) {
                more.record_n_ns(*value, *count);
                more_whole.record_n_ns(*value, *count);
            }
            sparse.add(&more);
            whole.add(&more_whole);
            same_answers(&sparse, &whole)?;
        }
    }

    #[test]
    fn counting_a_duration_no_times_leaves_nothing() {
        let mut sparse = SparseHistogram::new();
        sparse.record_n_ns(u64::MAX, 0);
        assert_eq!(sparse, SparseHistogram::new());
        assert_eq!((sparse.mean_ns(), sparse.quantile_ns(0.5), sparse.range_ns()), (None, None, None));
    }

    #[test]
    fn its_memory_is_that_of_the_buckets_in_use() {
        let mut whole = Histogram::new();
        (0..10_000).for_each(|i| whole.record_ns(1_000 + i % 10));
        assert_eq!(SparseHistogram::from(&whole).memory_bytes(), 160);
    }
}
