//! The memory that one CPU's records come through.

use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places in the first page (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const PERF_RECORD_SAMPLE: u32 = 9;

/// A ring. Between [`Ring::look`] and [`Ring::release`] the kernel does not write to what lies between tail and head.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    page: usize,
    size: usize,
    /// Where the records end that are handed over.
    head: u64,
    /// Where the kernel had written to when it was looked at.
    written: u64,
    tail: u64,
    /// A record that goes over the ring's end, in one piece.
    whole: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone and is reached through `&mut self` only.
unsafe impl Send for Ring {}

impl Ring {
    /// The next power of two of whole pages.
    pub(super) fn size_for(bytes: usize) -> usize {
        bytes.clamp(rustix::param::page_size(), 1 << 30).next_power_of_two()
    }

    /// Maps the ring of an event.
    pub(super) fn map(fd: &OwnedFd, size: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let base = unsafe {
            mmap(std::ptr::null_mut(), page + size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0)?
        };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Ring { base, page, size, head: 0, written: 0, tail: 0, whole: Vec::new() })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both places lie in the first page, are aligned, and the kernel reads and writes them as whole words.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Looks how far the kernel has written; the number of bytes that are new.
    pub(super) fn look(&mut self) -> u64 {
        self.written = self.word(DATA_HEAD).load(Ordering::Acquire);
        self.head = self.written;
        // The kernel never writes past the tail; a head that is further away would be no head.
        let new = self.head.wrapping_sub(self.tail);
        if new > self.size as u64 {
            self.tail = self.head;
            return 0;
        }
        new
    }

    /// The begin and the time of each new record, in the order in which they were written; whether all of them have
    /// lengths that can be.
    pub(super) fn for_each_begin(&mut self, mut each: impl FnMut(u64, u64)) -> bool {
        let mut at = self.tail;
        while at < self.head {
            let left = self.head - at;
            let header = self.bytes_at::<8>(at);
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let length = u64::from(u16::from_ne_bytes([header[6], header[7]]));
            if length < 24 || length > left || length % 8 != 0 {
                // What follows cannot be found again: it is given up.
                self.head = at;
                return false;
            }
            // A sample begins with task and time (SAMPLE_TYPE); any other record ends with them (sample_id_all).
            let time_at = if kind == PERF_RECORD_SAMPLE { at + 16 } else { at + length - 8 };
            each(at, u64::from_ne_bytes(self.bytes_at(time_at)));
            at += length;
        }
        true
    }

    /// `N` bytes from an offset that is a multiple of `N`.
    fn bytes_at<const N: usize>(&self, at: u64) -> [u8; N] {
        let begin = at as usize & (self.size - 1);
        debug_assert!(begin + N <= self.size);
        // SAFETY: records are multiples of eight long and the ring is a power of two, so that eight bytes never go over
        // its end; the kernel does not write between tail and head.
        unsafe { self.base.as_ptr().add(self.page + begin).cast::<[u8; N]>().read() }
    }

    /// The record that begins here.
    pub(super) fn record(&mut self, at: u64) -> &[u8] {
        let header = self.bytes_at::<8>(at);
        let length = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let begin = at as usize & (self.size - 1);
        let until_end = length.min(self.size - begin);
        // SAFETY: `for_each_begin` has seen that the record lies between tail and head, where the kernel does not write.
        let first = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page + begin), until_end) };
        if until_end == length {
            return first;
        }
        self.whole.clear();
        self.whole.extend_from_slice(first);
        // SAFETY: the same; the rest of the record stands at the ring's begin.
        let rest = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page), length - until_end) };
        self.whole.extend_from_slice(rest);
        &self.whole
    }

    /// Lets the kernel write where records were read.
    pub(super) fn release(&mut self) {
        self.tail = self.written;
        self.word(DATA_TAIL).store(self.tail, Ordering::Release);
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.page + self.size) as u64
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is what `map` has mapped, and nothing borrows from it any more.
        // An error is not possible for a mapping of our own, and there would be nothing to do.
        let _unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.page + self.size) };
    }
}
