//! Native histograms of Prometheus: buckets whose bounds grow by a constant factor (Prometheus documentation, "Native
//! histograms").

use holdup_model::SparseHistogram;
use std::collections::BTreeMap;

/// Schema 3: eight buckets for each power of two, a bound is 9 % above the one before.
pub(super) const SCHEMA: i32 = 3;

/// The sparse buckets of a native histogram.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Native {
    /// Runs of buckets that follow each other: how far the first is behind the end of the run before, and how many.
    pub(super) spans: Vec<(i32, u32)>,
    /// The count of each bucket, as the difference to the one before.
    pub(super) deltas: Vec<i64>,
}

/// The bucket of a duration of this many ns: the first whose upper bound, 2^(n / 8) s, is not below it.
fn bucket(ns: u64) -> i32 {
    let per_power = f64::from(1 << SCHEMA);
    // Between two neighbouring buckets no ns decides: the fine buckets of the evidence are wider than an error of log2.
    ((ns as f64 / 1e9).log2() * per_power).ceil() as i32
}

pub(super) fn native(histogram: &SparseHistogram) -> Native {
    let mut buckets: BTreeMap<i32, u64> = BTreeMap::new();
    for (lowest_ns, highest_ns, count) in histogram.buckets() {
        *buckets.entry(bucket(lowest_ns + (highest_ns - lowest_ns) / 2)).or_default() += count;
    }
    let mut native = Native::default();
    let (mut end, mut before) = (None, 0_i64);
    for (at, count) in buckets {
        match native.spans.last_mut() {
            Some((_, length)) if end == Some(at) => *length += 1,
            // The offset of the first span is from bucket 0.
            _ => native.spans.push((at - end.unwrap_or(0), 1)),
        }
        end = Some(at + 1);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        native.deltas.push(count - before);
        before = count;
    }
    native
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_their_spans() {
        let mut histogram = SparseHistogram::new();
        assert_eq!(native(&histogram), Native::default());
        // A second is the upper bound of bucket 0; half a second that of bucket -8.
        [500_000_000, 1_000_000_000, 1_000_000_000, 1_050_000_000].iter().for_each(|ns| histogram.record_ns(*ns));
        let of = native(&histogram);
        let total: u32 = of.spans.iter().map(|(_, length)| length).sum();
        assert_eq!(total as usize, of.deltas.len());
        let mut count = 0;
        let counts: Vec<i64> = of
            .deltas
            .iter()
            .map(|delta| {
                count += delta;
                count
            })
            .collect();
        assert_eq!(counts.iter().sum::<i64>(), 4);
        assert!((-8..=-7).contains(&of.spans[0].0), "{of:?}");
    }

    #[test]
    fn a_duration_is_in_the_bucket_below_its_bound() {
        for ns in [1, 999, 1_000, 123_456_789, 3_600_000_000_000] {
            let (n, value) = (bucket(ns), ns as f64 / 1e9);
            let bound = |n: i32| 2f64.powf(f64::from(n) / 8.0);
            assert!(value <= bound(n) * (1.0 + 1e-12) && value > bound(n - 1) * (1.0 - 1e-12), "{ns}");
        }
    }
}
