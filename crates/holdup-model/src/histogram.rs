//! Full latency histograms: HDR, three significant digits, values in ns.

use crate::problem::Problem;
use crate::sparse::SparseHistogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::fmt;

/// The largest value that has its own bucket: one hour. Larger ones are counted
/// there, and `clipped` is their number.
pub const LARGEST_NS: u64 = 3_600_000_000_000;

/// A histogram of durations in ns with at most 0.1 % relative error per value.
///
/// Stored as HDR V2 (readable by the HDR tools of any language). Percentiles
/// are computed in analysis, never while measuring.
#[derive(Clone)]
pub struct Histogram {
    counts: BucketStore,
    clipped: u64,
}

/// One that is counted in has 270 kB, however few were counted; one that was read has what its buckets take.
#[derive(Clone)]
enum BucketStore {
    Whole(hdrhistogram::Histogram<u64>),
    Sparse(SparseHistogram),
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// By what is in it, however it is kept: ids of imported runs are made of this.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets: Vec<(u64, u64)> = self.buckets().map(|(lowest, _, count)| (lowest, count)).collect();
        f.debug_struct("Histogram").field("buckets", &buckets).field("clipped", &self.clipped).finish()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.clipped == other.clipped && self.buckets().eq(other.buckets())
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Histogram { counts: BucketStore::Whole(empty()), clipped: 0 }
    }

    /// Gives back the memory of buckets that hold nothing, until something is counted again.
    pub fn shrink_to_fit(&mut self) {
        self.counts = BucketStore::Sparse((&*self).into());
    }

    /// How much memory its buckets take, bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.counts {
            BucketStore::Whole(whole) => whole.distinct_values() * size_of::<u64>(),
            BucketStore::Sparse(sparse) => sparse.memory_bytes(),
        }
    }

    #[inline]
    fn whole(&mut self) -> &mut hdrhistogram::Histogram<u64> {
        if let BucketStore::Sparse(sparse) = &self.counts {
            self.counts = BucketStore::Whole(expanded(sparse));
        }
        let BucketStore::Whole(whole) = &mut self.counts else { unreachable!("it was expanded") };
        whole
    }

    /// Counts one duration. Zero is counted as 1 ns, more than an hour as an hour.
    #[inline]
    pub fn record_ns(&mut self, value_ns: u64) {
        self.record_n_ns(value_ns, 1);
    }

    /// Counts one duration `count` times.
    #[inline]
    pub fn record_n_ns(&mut self, value_ns: u64, count: u64) {
        if value_ns > LARGEST_NS {
            self.clipped = self.clipped.saturating_add(count);
        }
        self.whole().saturating_record_n(value_ns.max(1), count);
    }

    /// Adds all of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        let whole = self.whole();
        match &other.counts {
            BucketStore::Whole(other) => whole.add(other).expect("all holdup histograms have the same bounds"),
            BucketStore::Sparse(other) => add_sparse(whole, other),
        }
        self.clipped = self.clipped.saturating_add(other.clipped);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        match &self.counts {
            BucketStore::Whole(whole) => whole.len(),
            BucketStore::Sparse(sparse) => sparse.count(),
        }
    }

    /// How many durations were longer than an hour and are counted as one hour.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Mean in ns; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        match &self.counts {
            BucketStore::Whole(whole) => (!whole.is_empty()).then(|| whole.mean()),
            BucketStore::Sparse(sparse) => sparse.mean_ns(),
        }
    }

    /// The value at a quantile between 0 and 1, in ns; `None` when empty.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        match &self.counts {
            BucketStore::Whole(whole) => (!whole.is_empty()).then(|| whole.value_at_quantile(quantile.clamp(0.0, 1.0))),
            BucketStore::Sparse(sparse) => sparse.quantile_ns(quantile),
        }
    }

    /// How many samples are expected to lie beyond a quantile. Below 10 the
    /// quantile is marked in every table.
    pub fn samples_beyond(&self, quantile: f64) -> f64 {
        self.count() as f64 * (1.0 - quantile.clamp(0.0, 1.0))
    }

    /// Smallest and largest value in ns; `None` when empty.
    pub fn range_ns(&self) -> Option<(u64, u64)> {
        match &self.counts {
            BucketStore::Whole(whole) => (!whole.is_empty()).then(|| (whole.min(), whole.max())),
            BucketStore::Sparse(sparse) => sparse.range_ns(),
        }
    }

    /// The buckets that hold something, as (lowest value, highest value, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let (whole, sparse) = match &self.counts {
            BucketStore::Whole(whole) => (Some(whole), None),
            BucketStore::Sparse(sparse) => (None, Some(sparse)),
        };
        let of_whole = whole.into_iter().flat_map(|whole| {
            whole.iter_recorded().map(move |step| {
                let value = step.value_iterated_to();
                (whole.lowest_equivalent(value), whole.highest_equivalent(value), step.count_since_last_iteration())
            })
        });
        of_whole.chain(sparse.into_iter().flat_map(SparseHistogram::buckets))
    }

    /// The HDR V2 form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = match &self.counts {
            BucketStore::Whole(whole) => V2Serializer::new().serialize(whole, &mut bytes),
            BucketStore::Sparse(sparse) => V2Serializer::new().serialize(&expanded(sparse), &mut bytes),
        };
        written.expect("writing a histogram into memory cannot fail");
        bytes
    }

    /// Reads the HDR V2 form.
    pub fn from_bytes(bytes: &[u8], clipped: u64) -> Result<Self, Problem> {
        let mut cursor = bytes;
        let read: hdrhistogram::Histogram<u64> = hdrhistogram::serialization::Deserializer::new()
            .deserialize(&mut cursor)
            .map_err(|e| Problem::host("histogram", format!("not in HDR V2 form ({e:?})")))?;
        let mut whole = empty();
        whole
            .add(&read)
            .map_err(|e| Problem::host("histogram", format!("values beyond one hour or other bounds ({e:?})")))?;
        let mut histogram = Histogram { counts: BucketStore::Whole(whole), clipped };
        histogram.shrink_to_fit();
        Ok(histogram)
    }
}

impl From<SparseHistogram> for Histogram {
    fn from(sparse: SparseHistogram) -> Self {
        Histogram { clipped: sparse.clipped(), counts: BucketStore::Sparse(sparse) }
    }
}

fn empty() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(1, LARGEST_NS, 3).expect("the bounds 1 ns and 1 h with 3 digits are valid")
}

fn expanded(sparse: &SparseHistogram) -> hdrhistogram::Histogram<u64> {
    let mut whole = empty();
    add_sparse(&mut whole, sparse);
    whole
}

fn add_sparse(whole: &mut hdrhistogram::Histogram<u64>, sparse: &SparseHistogram) {
    sparse.buckets().for_each(|(lowest, _, count)| whole.saturating_record_n(lowest, count));
}

/// Sent between agent and host as its HDR V2 bytes and the number of clipped values.
impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (ByteBuf::from(self.to_bytes()), self.clipped).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (bytes, clipped): (ByteBuf, u64) = Deserialize::deserialize(deserializer)?;
        Histogram::from_bytes(&bytes, clipped).map_err(|p| serde::de::Error::custom(p.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stop_at_their_greatest_value() {
        let mut h = Histogram::new();
        for _ in 0..2 {
            h.record_n_ns(LARGEST_NS + 1, u64::MAX - 1);
        }
        let other = h.clone();
        h.add(&other);
        assert_eq!((h.count(), h.clipped()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn the_stored_form_keeps_every_count() {
        let mut h = Histogram::new();
        for v in [0, 1, 999, 1_000_000, 123_456_789, LARGEST_NS, LARGEST_NS + 1] {
            h.record_ns(v);
        }
        let back = Histogram::from_bytes(&h.to_bytes(), h.clipped()).expect("reads back");
        assert_eq!(back, h);
        assert_eq!(back.count(), 7);
        assert_eq!(back.clipped(), 1);
    }

    /// A bundle of 3 MB can hold 20,000 of them.
    #[test]
    fn one_that_was_read_has_memory_for_what_it_holds_and_can_be_counted_in() {
        let mut h = Histogram::new();
        h.record_n_ns(1_500, 3);
        h.record_ns(LARGEST_NS + 1);
        let mut back = Histogram::from_bytes(&h.to_bytes(), h.clipped()).expect("reads back");
        assert!(back.memory_bytes() < 100 && h.memory_bytes() > 100_000, "{}", back.memory_bytes());
        assert_eq!((back.mean_ns(), back.range_ns()), (h.mean_ns(), h.range_ns()));
        assert_eq!((back.quantile_ns(0.5), back.to_bytes()), (h.quantile_ns(0.5), h.to_bytes()));
        assert_eq!(format!("{back:?}"), format!("{h:?}"));
        let other = back.clone();
        back.add(&other);
        back.record_ns(7);
        assert_eq!((back.count(), back.clipped(), back.range_ns().map(|r| r.0)), (9, 2, Some(7)));
    }

    #[test]
    fn a_cut_form_is_an_error_and_not_a_panic() {
        let mut h = Histogram::new();
        h.record_ns(5);
        let bytes = h.to_bytes();
        for cut in 0..bytes.len() {
            assert!(Histogram::from_bytes(&bytes[..cut], 0).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        let h = Histogram::new();
        assert_eq!((h.mean_ns(), h.quantile_ns(0.5), h.range_ns()), (None, None, None));
    }
}
