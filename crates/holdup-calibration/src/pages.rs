//! Pages of a file in memory, mapped as PostgreSQL maps its shared memory.

use super::bench::refused;
use holdup_model::Problem;
use rustix::fs::MemfdFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;

/// Bytes of a huge page.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// A shared mapping of its own file, whose pages are not mapped yet.
pub(super) struct Pages {
    base: *mut c_void,
    step: usize,
    bytes: usize,
}

impl Pages {
    /// `n` pages of 4 KB that are in the page cache.
    pub(super) fn small(count: usize) -> Result<Self, Problem> {
        let pages = Self::new(count, rustix::param::page_size(), MemfdFlags::CLOEXEC)?;
        pages.touch_all();
        pages.forget();
        Ok(pages)
    }

    /// `n` huge pages, reserved by the mapping and neither allocated nor zeroed.
    pub(super) fn huge(count: usize) -> Result<Self, Problem> {
        Self::new(count, HUGE_BYTES, MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)
    }

    fn new(count: usize, step: usize, flags: MemfdFlags) -> Result<Self, Problem> {
        let failed = |e: rustix::io::Errno| refused("memory to measure with")(e.into());
        let bytes = count * step;
        let file = rustix::fs::memfd_create("holdup-cost", flags).map_err(failed)?;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(failed)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel picks; nothing else knows it.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, &file, 0) };
        Ok(Pages { base: base.map_err(failed)?, step, bytes })
    }

    /// Writes to each page.
    pub(super) fn touch_all(&self) {
        for at in (0..self.bytes).step_by(self.step) {
            // SAFETY: within the mapping, which is writable and known to no other thread.
            unsafe { self.base.cast::<u8>().add(at).write_volatile(1) };
        }
    }

    /// Drops the page table entries; the pages stay in the page cache.
    pub(super) fn forget(&self) {
        // SAFETY: the mapping is our own, and shared: what was written stays in the file.
        let _only_slower_when_refused = unsafe { rustix::mm::madvise(self.base, self.bytes, Advice::LinuxDontNeed) };
    }

    /// How many there are.
    pub(super) fn count(&self) -> f64 {
        (self.bytes / self.step) as f64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is our own and not in use any more.
        let _nothing_to_do = unsafe { rustix::mm::munmap(self.base, self.bytes) };
    }
}
