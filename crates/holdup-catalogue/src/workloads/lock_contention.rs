//! The parameters of `lock-contention`.

use crate::parameters::{parameters, words};
use crate::{Algorithm, Nanoseconds, Sharing};
use std::path::PathBuf;

/// The most workers. Each has 70 KB in the region.
pub const MOST_WORKERS: i64 = 4096;

words! {
    /// The pages that workers touch for the first time inside the lock.
    Pages {
        /// Of 4 KB.
        #[strum(serialize = "4k")]
        Small,
        /// Reserved ones of 2 MB.
        Huge,
    }
}

words! {
    /// Where workers touch their pages for the first time.
    FirstTouch {
        /// Inside the lock.
        Inside,
        /// Right before they ask for it; inside they touch them again.
        Before,
    }
}

words! {
    /// What the workers' record is exact about.
    TruthRecord {
        /// The lock's word names its holder where an algorithm can be had so.
        LockWord,
        /// The algorithm is the one that is measured; the holder is named beside the lock.
        OwnerWord,
    }
}

parameters! {
    /// What a plan sets of `lock-contention`.
    "lock-contention"

    /// workers that want the lock, threads or processes
    threads: u32 [1..=MOST_WORKERS] = "1x cpus",
    /// the lock, see `holdup list algorithms`
    algorithm: Algorithm = "tas",
    /// work inside the lock, calibrated; 0 is really none
    section: Nanoseconds = "100ns",
    /// work outside the lock, calibrated; 0 is really none
    think: Nanoseconds = "100ns",
    /// whether workers share page tables (threads) or not (processes)
    sharing: Sharing = "threads",
    /// first touches of 4 KB steps of memory for each section
    faults: u32 [0..=4096] = "0",
    /// whether these are inside the lock or right before it
    first_touch: FirstTouch = "inside",
    /// the pages that `faults` touches: 4 KB, or reserved 2 MB ones
    pages: Pages = "4k",
    /// one of n acquisitions is timed; 0: as often as costs 2 %
    sample_every: u64 [0..=1_000_000_000] = "0",
    /// whether worker i stays on the i-th allowed CPU, round and round
    pin: bool = "off",
    /// for tests: a file that names where workers record what they do; absent: none do
    #[real]
    truth: Option<PathBuf>,
    /// for tests: what names the holder, the lock's word (default; by another instruction) or one beside it
    #[real]
    truth_record: Option<TruthRecord>,
}
