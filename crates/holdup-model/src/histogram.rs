//! Full latency histograms: HDR, three significant digits, values in ns.

use crate::problem::Problem;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The largest value that has its own bucket: one hour. Larger ones are counted
/// there, and `clipped` is their number.
pub const LARGEST_NS: u64 = 3_600_000_000_000;

/// A histogram of durations in ns with at most 0.1 % relative error per value.
///
/// Stored as HDR V2 (readable by the HDR tools of any language). Percentiles
/// are computed in analysis, never while measuring.
#[derive(Debug, Clone)]
pub struct Histogram {
    inner: hdrhistogram::Histogram<u64>,
    clipped: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner && self.clipped == other.clipped
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, LARGEST_NS, 3)
            .expect("the bounds 1 ns and 1 h with 3 digits are valid");
        Histogram { inner, clipped: 0 }
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
        self.inner.saturating_record_n(value_ns.max(1), count);
    }

    /// Adds all of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.inner.add(&other.inner).expect("all holdup histograms have the same bounds");
        self.clipped = self.clipped.saturating_add(other.clipped);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// How many durations were longer than an hour and are counted as one hour.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Mean in ns; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.inner.mean())
    }

    /// The value at a quantile between 0 and 1, in ns; `None` when empty.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.inner.value_at_quantile(quantile.clamp(0.0, 1.0)))
    }

    /// How many samples are expected to lie beyond a quantile. Below 10 the
    /// quantile is marked in every table.
    pub fn samples_beyond(&self, quantile: f64) -> f64 {
        self.count() as f64 * (1.0 - quantile.clamp(0.0, 1.0))
    }

    /// Smallest and largest value in ns; `None` when empty.
    pub fn range_ns(&self) -> Option<(u64, u64)> {
        (self.count() > 0).then(|| (self.inner.min(), self.inner.max()))
    }

    /// The buckets that hold something, as (lowest value, highest value, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.inner.iter_recorded().map(|step| {
            let value = step.value_iterated_to();
            (
                self.inner.lowest_equivalent(value),
                self.inner.highest_equivalent(value),
                step.count_since_last_iteration(),
            )
        })
    }

    /// The HDR V2 form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.inner, &mut bytes).expect("writing a histogram into memory cannot fail");
        bytes
    }

    /// Reads the HDR V2 form.
    pub fn from_bytes(bytes: &[u8], clipped: u64) -> Result<Self, Problem> {
        let mut cursor = bytes;
        let read: hdrhistogram::Histogram<u64> = hdrhistogram::serialization::Deserializer::new()
            .deserialize(&mut cursor)
            .map_err(|e| Problem::host("histogram", format!("not in HDR V2 form ({e:?})")))?;
        let mut whole = Self::new();
        whole
            .inner
            .add(&read)
            .map_err(|e| Problem::host("histogram", format!("values beyond one hour or other bounds ({e:?})")))?;
        whole.clipped = clipped;
        Ok(whole)
    }
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
