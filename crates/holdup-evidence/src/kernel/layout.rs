//! The shapes that BPF programs and this crate share; `bpf/state.h` and the headers of the collectors have the same.

use aya::Pod;

/// Roles that are told apart.
pub(crate) const ROLES: usize = 8;
/// Buckets of a histogram.
pub(crate) const BUCKETS: usize = 128 + 35 * 64;
/// Length of a task's name, with the NUL.
pub(crate) const COMM: usize = 16;
/// Places where a task was when it left the CPU.
pub(crate) const PLACES: usize = 6;
/// Why it left while it could run.
pub(crate) const CAUSES: usize = 6;
/// What it was doing, for one in a section.
pub(crate) const CONTEXTS: usize = 4;
/// Kinds of page faults.
pub(crate) const FAULTS: usize = 3;
/// Histograms of a role: wait after a wake-up, wait after a preemption, on the CPU, faults, off the CPU by place.
pub(crate) const HISTOGRAMS: usize = 4 + PLACES;
/// Where that of faults is.
pub(crate) const HISTOGRAM_FAULT: usize = 3;
/// Histograms of a section: holder off the CPU, faults.
pub(crate) const SECTION_HISTOGRAMS: usize = 2;
/// Where that of holders off the CPU is.
pub(crate) const SECTION_OFF: usize = 0;
/// Where that of faults is.
pub(crate) const SECTION_FAULT: usize = 1;
/// No sections are known for the process.
pub(crate) const IMAGE_NONE: u32 = 0;
/// What may be said of one place.
pub(crate) const MEANINGS: usize = 4;
/// Place of a meaning that always holds.
pub(crate) const ALWAYS: u16 = 0xffff;

/// `struct counts`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) switches: u64,
    pub(crate) left: [[u64; PLACES]; ROLES],
    pub(crate) cause: [[u64; CAUSES]; ROLES],
    pub(crate) preempted_off_ns: [[u64; CAUSES]; ROLES],
    pub(crate) on_cpu_ns: [u64; ROLES],
    pub(crate) wait_ns: [u64; ROLES],
    pub(crate) off_cpu_ns: [u64; ROLES],
    pub(crate) migrated: [u64; ROLES],
    pub(crate) inferred: u64,
    pub(crate) clock_backwards: u64,
    pub(crate) no_storage: u64,
    pub(crate) no_wakeup: u64,
    pub(crate) classified: [u64; 3],
    pub(crate) samples: [u64; 3],
    pub(crate) unreadable_stack: u64,
    pub(crate) matrix_full: u64,
    pub(crate) events_lost: u64,
    pub(crate) faults: [[u64; FAULTS]; ROLES],
    pub(crate) not_known: [u64; 2],
    pub(crate) first_touch: [u64; ROLES],
    pub(crate) fault_ns: [u64; ROLES],
    pub(crate) executed: u64,
    pub(crate) off_place_ns: [[u64; PLACES]; ROLES],
    pub(crate) stacks_lost: u64,
    pub(crate) stacks_lost_ns: u64,
}

/// How many u64 a [`Counts`] is made of.
const COUNTS_WORDS: usize = size_of::<Counts>() / 8;

impl Counts {
    /// Nothing counted.
    pub(crate) fn zero() -> Self {
        Self::of_words([0; COUNTS_WORDS])
    }

    fn of_words(words: [u64; COUNTS_WORDS]) -> Self {
        // SAFETY: the structure consists of u64 only, so every pattern of bits is valid, and the sizes are equal.
        unsafe { std::mem::transmute(words) }
    }

    /// The sum of two.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.each(other, u64::wrapping_add)
    }

    /// What was counted since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        self.each(before, u64::wrapping_sub)
    }

    fn each(self, other: Self, change: impl Fn(u64, u64) -> u64) -> Self {
        type Words = [u64; COUNTS_WORDS];
        // SAFETY: the structures consist of u64 only, and the sizes are equal.
        let (mut mine, theirs) =
            unsafe { (std::mem::transmute::<Self, Words>(self), std::mem::transmute::<Self, Words>(other)) };
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = change(*mine, theirs);
        }
        Self::of_words(mine)
    }
}

/// `struct section_counts`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SectionCounts {
    /// Of holders and waiters.
    pub(crate) left: [[u64; CONTEXTS]; 2],
    pub(crate) off_cpu_ns: [u64; CONTEXTS],
    pub(crate) cause: [u64; CAUSES],
    /// Of holders and waiters.
    pub(crate) samples: [u64; 2],
    pub(crate) samples_behind: u64,
    pub(crate) faults: u64,
    pub(crate) fault_ns: u64,
    pub(crate) off_cpu: i64,
}

/// `struct histogram`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Buckets(pub(crate) [u64; BUCKETS]);

/// `struct watched`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched {
    pub(crate) role: u32,
    pub(crate) image: u32,
}

/// `struct pair` and `struct hog`: two names.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) first: [u8; COMM],
    pub(crate) second: [u8; COMM],
}

/// `struct pair_counts`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct PairCounts {
    pub(crate) times: u64,
    pub(crate) ns: u64,
}

/// `struct section_preempter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SectionPreempter {
    pub(crate) section: u32,
    pub(crate) by: [u8; COMM],
}

/// `struct hog_counts`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct HogCounts {
    pub(crate) times: u64,
    pub(crate) ns: u64,
    pub(crate) in_kernel_ns: u64,
}

/// `struct event`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) tid: [u32; 2],
    pub(crate) pid: [u32; 2],
    pub(crate) comm: [[u8; COMM]; 2],
    pub(crate) cpu: u32,
    pub(crate) section: u16,
    pub(crate) kind: u8,
    pub(crate) place: u8,
    pub(crate) cause: u8,
    pub(crate) held: u8,
    pub(crate) unused: [u8; 6],
}

/// `struct residual_event`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResidualEvent {
    pub(crate) ns: u64,
    pub(crate) value: u64,
    pub(crate) ip: u64,
    pub(crate) number: u32,
    pub(crate) tid: u32,
    pub(crate) image: u32,
    pub(crate) section: u16,
    pub(crate) kind: u8,
    pub(crate) resumed: u8,
}

/// `struct stack_sample` without the copy of the stack, which follows it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackSample {
    pub(crate) length_ns: u64,
    pub(crate) weight_ns: u64,
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) role: u32,
    pub(crate) kernel_bytes: u32,
    pub(crate) stack_bytes: u32,
    pub(crate) wait_event: u32,
    pub(crate) kind: u8,
    pub(crate) place: u8,
    pub(crate) user: u8,
    pub(crate) has_wait_event: u8,
    pub(crate) unused: [u8; 4],
    pub(crate) comm: [u8; COMM],
    pub(crate) wakee: [u8; COMM],
    pub(crate) kernel: [u64; STACK_FRAMES],
}

/// Addresses of the kernel in a sample.
pub(crate) const STACK_FRAMES: usize = 64;

/// `struct meaning`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) mask: u64,
    pub(crate) value: u64,
    pub(crate) section: u16,
    pub(crate) register: u16,
    pub(crate) held: u8,
    pub(crate) differs: u8,
    pub(crate) unused: [u8; 2],
}

/// `struct entry`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) meaning: [Meaning; MEANINGS],
}

/// `struct image`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// Bits for the lines of an image.
pub(crate) const LINES: usize = 1 << 16;

/// `struct section_lines`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SectionLines(pub(crate) [u64; LINES / 64]);

// SAFETY: integers without padding.
unsafe impl Pod for SectionLines {}
// SAFETY: integers without padding.
unsafe impl Pod for Counts {}
// SAFETY: integers without padding.
unsafe impl Pod for SectionCounts {}
// SAFETY: integers without padding.
unsafe impl Pod for Buckets {}
// SAFETY: integers without padding.
unsafe impl Pod for Watched {}
// SAFETY: bytes.
unsafe impl Pod for Pair {}
// SAFETY: an integer and bytes, without padding.
unsafe impl Pod for SectionPreempter {}
// SAFETY: integers without padding.
unsafe impl Pod for PairCounts {}
// SAFETY: integers without padding.
unsafe impl Pod for HogCounts {}
// SAFETY: integers; the padding is a field.
unsafe impl Pod for Event {}
// SAFETY: integers; the padding is a field.
unsafe impl Pod for Entry {}
// SAFETY: integers without padding.
unsafe impl Pod for Image {}

/// The lowest value of a bucket and the first one behind it, ns (`state.h:bucket_of`).
pub(crate) fn bounds_ns(bucket: usize) -> (u64, u64) {
    let Some(above) = bucket.checked_sub(128) else { return (bucket as u64, bucket as u64 + 1) };
    let (power, step) = (above / 64, (above % 64) as u64);
    let width = 1_u64 << (power + 1);
    let low = (64 + step) * width;
    (low, low + width)
}

/// A task's name as text.
pub(crate) fn name(comm: &[u8; COMM]) -> String {
    let length = comm.iter().position(|b| *b == 0).unwrap_or(COMM);
    String::from_utf8_lossy(&comm[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (low, end) = bounds_ns(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            next = end;
            if low >= 128 {
                let middle = (low + end) / 2;
                assert!((middle - low) as f64 / low as f64 <= 0.01, "bucket {bucket}");
            }
        }
        assert_eq!(next, 1 << 42);
    }

    #[test]
    fn names_end_at_the_nul() {
        assert_eq!(name(b"postgres\0\0\0\0\0\0\0\0"), "postgres");
        assert_eq!(name(b"0123456789abcdef"), "0123456789abcdef");
    }
}
