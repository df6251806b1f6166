//! Durations, counted where they happen.
//!
//! A [`Record`] lies in memory that workers share with the coordinator, be they threads or processes. Its worker alone
//! writes, with plain loads and stores, so that one duration costs 2.9 ns beside the clock (docs/performance.md).
//!
//! Our own, because hdrhistogram's histograms live on the heap of one process, and its recorder hands over between threads.

use holdup_model::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};

/// Exponential ranges of 256 linear buckets: at most 0.4 % wide, up to 73 minutes.
const SUB_BITS: u32 = 8;
const LARGEST_BITS: u32 = 42;
/// Buckets of a record.
pub const BUCKETS: usize = ((LARGEST_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// Counts of durations, 70 KB. All-zero bytes are an empty record.
#[repr(C)]
pub struct Record {
    longest_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Record {
    /// An empty one on the heap, for a worker without a board.
    pub fn boxed() -> Box<Record> {
        // SAFETY: atomics only, for which all-zero bytes are a valid value.
        unsafe { Box::<Record>::new_zeroed().assume_init() }
    }

    /// Counts one duration. To be called by one worker only.
    #[inline]
    pub fn count(&self, ns: u64) {
        let bucket = &self.buckets[bucket_of(ns)];
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// The longest duration, exactly, ns; 0 when nothing was counted.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns.load(Ordering::Relaxed)
    }

    /// How many durations were counted.
    pub fn total(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Makes the pages of the record present, so that no first touch of them falls into a measured duration.
    pub fn touch(&self) {
        for bucket in self.buckets.iter().step_by(4096 / size_of::<AtomicU64>()) {
            bucket.store(0, Ordering::Relaxed);
        }
        if let Some(last) = self.buckets.last() {
            last.store(0, Ordering::Relaxed);
        }
    }
}

/// All records together. Each duration stands at its bucket's middle, at most 0.2 % off, but for the longest, which is
/// exact.
pub fn together<'a>(records: impl Iterator<Item = &'a Record>) -> Histogram {
    let mut counts = vec![0u64; BUCKETS];
    let mut longest_ns = 0;
    for record in records {
        for (sum, bucket) in counts.iter_mut().zip(&record.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        longest_ns = longest_ns.max(record.longest_ns());
    }
    // The longest one is taken out of its bucket and counted as it was.
    let mut histogram = Histogram::new();
    if let Some(last) = counts.get_mut(bucket_of(longest_ns)).filter(|count| **count > 0) {
        *last -= 1;
        histogram.record_ns(longest_ns);
    }
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        histogram.record_n_ns(middle_of(bucket).min(longest_ns), *count);
    }
    histogram
}

/// The bucket of a duration.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let ns = ns.min((1 << LARGEST_BITS) - 1);
    let Some(shift) = (63 - (ns | 1).leading_zeros()).checked_sub(SUB_BITS) else { return ns as usize };
    (((shift + 1) as usize) << SUB_BITS) + ((ns >> shift) as usize & ((1 << SUB_BITS) - 1))
}

/// The middle of a bucket, ns.
fn middle_of(bucket: usize) -> u64 {
    let (range, place) = (bucket >> SUB_BITS, (bucket & ((1 << SUB_BITS) - 1)) as u64);
    let Some(shift) = range.checked_sub(1) else { return place };
    let low = ((1 << SUB_BITS) + place) << shift;
    low + ((1u64 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_exact_below_256_ns_and_end_at_73_minutes() {
        for (ns, bucket, middle) in
            [(0, 0, 0), (1, 1, 1), (255, 255, 255), (256, 256, 256), (511, 511, 511), (512, 512, 512), (513, 512, 512)]
        {
            assert_eq!((bucket_of(ns), middle_of(bucket_of(ns))), (bucket, middle), "{ns} ns");
        }
        assert_eq!(bucket_of((1 << 42) - 1), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn records_add_up_and_the_longest_stays_exact() {
        let (one, two) = (Record::boxed(), Record::boxed());
        for ns in [0, 5, 100_003, 100_003] {
            one.count(ns);
        }
        two.count(1_234_567);
        two.count(u64::MAX);
        let all = together([&*one, &*two].into_iter());
        assert_eq!((all.count(), one.total(), two.total(), all.clipped()), (6, 4, 2, 1));
        assert_eq!((one.longest_ns(), two.longest_ns()), (100_003, u64::MAX));
        let one_alone = together(std::iter::once(&*one));
        let of_one = Histogram::range_ns(&one_alone).expect("four were counted");
        assert!(of_one.0 <= 1 && of_one.1.abs_diff(100_003) <= 100, "{of_one:?}");
        assert_eq!(together(std::iter::once(&*Record::boxed())).count(), 0);
    }

    proptest! {
        #[test]
        fn a_bucket_s_middle_is_within_a_fifth_of_a_percent(ns in 0u64..(1 << 42)) {
            let middle = middle_of(bucket_of(ns));
            prop_assert!(middle.abs_diff(ns) as f64 <= ns as f64 * 0.002, "{ns} is shown as {middle}");
        }

        #[test]
        fn longer_durations_are_never_in_lower_buckets(a in 0u64..(1 << 43), b in 0u64..(1 << 43)) {
            prop_assert!(bucket_of(a.min(b)) <= bucket_of(a.max(b)));
        }
    }
}
