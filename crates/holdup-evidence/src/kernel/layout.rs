//! The types that BPF programs and this crate share, written by build.rs from those of C: what moves there, moves here, and
//! what is gone does not compile.

use aya::Pod;

#[allow(dead_code, reason = "some fields and constants are of use to C alone")]
mod types {
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

pub(crate) use types::*;

pub(crate) fn bytes_of<T: Pod>(value: &mut T) -> &mut [u8] {
    // SAFETY: `Pod` types are integers without padding, so all their bytes are initialised, and every pattern of bits is a value.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast::<u8>(), size_of::<T>()) }
}

/// A value of zeros.
pub(crate) fn zeroed<T: Pod>() -> T {
    // SAFETY: as above.
    unsafe { std::mem::zeroed() }
}

/// The value at the begin of a record; fields that the record is too short for are 0.
pub(crate) fn read<T: Pod>(record: &[u8]) -> T {
    let mut value = zeroed();
    for (to, from) in bytes_of(&mut value).iter_mut().zip(record) {
        *to = *from;
    }
    value
}

/// The sum of two values that are numbers of 64 bits.
pub(crate) fn plus<T: Pod>(one: T, other: T) -> T {
    each(one, other, u64::wrapping_add)
}

/// What was counted since `before`, in values that are numbers of 64 bits.
pub(crate) fn since<T: Pod>(now: T, before: T) -> T {
    each(now, before, u64::wrapping_sub)
}

fn each<T: Pod>(mut one: T, mut other: T, change: impl Fn(u64, u64) -> u64) -> T {
    let (mine, theirs) = (bytes_of(&mut one).as_chunks_mut().0, bytes_of(&mut other).as_chunks().0);
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = change(u64::from_ne_bytes(*mine), u64::from_ne_bytes(*theirs)).to_ne_bytes();
    }
    one
}

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
