//! Pages whose first touch is a minor fault, for sections that fault while they hold the lock.
//!
//! The pages belong to a memfd and are all in the page cache before the trial, so a touch never
//! waits for memory or a disk: it only makes a page table entry. Touches write, because the kernel
//! maps up to 16 pages around a fault that reads (`mm/memory.c:do_fault_around`, v6.18).
//!
//! *Processes* have their own page tables: each walks through all pages and then drops its
//! entries with MADV_DONTNEED before it asks for the lock again. *Threads* share page tables, so one
//! cursor goes through the pages, and the segment ahead of it is dropped by the worker that comes by on
//! the way to the lock. With 2 MB pages the touches are the same and one entry covers 512 of them.

use crate::lock::Sharing;
use crate::region::{Head, SEGMENTS};
use crate::setup::Setup;
use holdup_model::Problem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

/// The distance between two touches, bytes.
const STEP: usize = 4096;
/// The size of a huge page, bytes.
const HUGE: usize = 2 << 20;
/// The fewest pages of a segment: a whole number of huge pages.
const SMALLEST_SEGMENT: usize = 2 * HUGE / STEP;
/// The most memory that a trial takes for this, bytes.
const MOST_BYTES: usize = 1 << 30;

/// The pages of a trial.
pub(crate) struct Pages {
    base: NonNull<u8>,
    /// How many there are, a multiple of [`SEGMENTS`].
    count: usize,
    /// How many are touched in each section.
    per_section: usize,
    /// True if they are touched before it too.
    is_touched_before: bool,
}

// SAFETY: the pages are only written through atomics, and the mapping lives as long as `Pages`.
unsafe impl Send for Pages {}
// SAFETY: see above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pages for workers that touch `per_section` each time, in the page cache but not in any page table.
    pub(crate) fn new(per_section: usize, setup: &Setup) -> Result<Self, Problem> {
        let &Setup { workers, huge, touches_before: is_touched_before, .. } = setup;
        // While one worker is on its way to the lock all others may go through it once: a segment is never
        // used up before a worker has seen that the next one must be dropped.
        let segment = (per_section * (workers + 1)).next_multiple_of(SMALLEST_SEGMENT).max(SMALLEST_SEGMENT);
        let count = segment * SEGMENTS;
        let bytes = count * STEP;
        if bytes > MOST_BYTES {
            let why =
                format!("with {workers} workers they need {} MiB, the most is {} MiB", bytes >> 20, MOST_BYTES >> 20);
            return Err(Problem::usage(format!("faults {per_section}"), why).hint("take fewer faults or fewer threads"));
        }
        let base = map(bytes, huge).map_err(|e| unmappable(e, bytes, huge))?;
        let pages = Pages { base, count, per_section, is_touched_before };
        if !huge {
            // Pages of 4 KB, even where tmpfs would use larger ones.
            pages.advise(0, count, rustix::mm::Advice::LinuxNoHugepage);
        }
        for page in 0..count {
            pages.touch(page);
        }
        pages.forget(0, count);
        Ok(pages)
    }

    /// Writes to one page.
    #[inline(always)]
    fn touch(&self, page: usize) {
        // SAFETY: callers take the page modulo `count`, so the byte lies inside the mapping.
        unsafe { self.base.add(page * STEP).cast::<AtomicU8>().as_ref() }.store(1, Ordering::Relaxed);
    }

    /// Drops the page table entries of the calling process for some pages; the pages stay in the page cache.
    fn forget(&self, first: usize, count: usize) {
        self.advise(first, count, rustix::mm::Advice::LinuxDontNeed);
    }

    fn advise(&self, first: usize, count: usize, advice: rustix::mm::Advice) {
        // SAFETY: the range lies inside the mapping, and dropping entries of a shared file mapping loses no data.
        // What fails here shows in the measured faults per operation.
        let _advised =
            unsafe { rustix::mm::madvise(self.base.add(first * STEP).as_ptr().cast(), count * STEP, advice) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and no reference into it outlives `Pages`.
        let _unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.count * STEP) };
    }
}

fn map(bytes: usize, huge: bool) -> rustix::io::Result<NonNull<u8>> {
    use rustix::fs::MemfdFlags;
    let flags = if huge { MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB } else { MemfdFlags::empty() };
    let file = rustix::fs::memfd_create("holdup-faults", flags | MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses, of a file that no other process has.
    let base =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, rustix::mm::MapFlags::SHARED, &file, 0)? };
    NonNull::new(base.cast()).ok_or(rustix::io::Errno::NOMEM)
}

fn unmappable(error: rustix::io::Errno, bytes: usize, huge: bool) -> Problem {
    let error = std::io::Error::from(error);
    if !huge {
        return Problem::trial("memory for page faults", format!("{} MiB cannot be mapped: {error}", bytes >> 20));
    }
    let pages = bytes / HUGE;
    Problem::trial("pages = huge", format!("{pages} huge pages of 2 MB cannot be had: {error}")).hint(format!(
        "reserve them: `sysctl vm.nr_hugepages={pages}` as root, or the knob huge-pages-reserved in the plan"
    ))
}

/// A worker's way through the pages.
pub(crate) struct Toucher<'a> {
    pages: &'a Pages,
    head: &'a Head,
    sharing: Sharing,
    /// The next page of a worker that is a process.
    own: usize,
}

impl<'a> Toucher<'a> {
    pub(crate) fn new(pages: &'a Pages, head: &'a Head, sharing: Sharing) -> Self {
        Toucher { pages, head, sharing, own: 0 }
    }

    #[inline(always)]
    fn touch_own(&self) {
        for page in self.own..self.own + self.pages.per_section {
            self.pages.touch(page);
        }
    }
}

/// What a worker does about pages around and inside the lock.
pub(crate) trait Touch {
    /// Outside the lock: sees to it that the pages of the next section are untouched, or touched right now.
    fn prepare(&mut self);
    /// Inside the lock: touches the pages of this section.
    fn touch(&mut self);
}

/// No pages: nothing.
pub(crate) struct NoPages;

impl Touch for NoPages {
    #[inline(always)]
    fn prepare(&mut self) {}
    #[inline(always)]
    fn touch(&mut self) {}
}

impl<T: Touch> Touch for Option<T> {
    #[inline(always)]
    fn prepare(&mut self) {
        if let Some(touch) = self {
            touch.prepare();
        }
    }
    #[inline(always)]
    fn touch(&mut self) {
        if let Some(touch) = self {
            touch.touch();
        }
    }
}

impl Touch for Toucher<'_> {
    #[inline(always)]
    fn prepare(&mut self) {
        let pages = self.pages;
        match self.sharing {
            Sharing::Processes => {
                if self.own + pages.per_section > pages.count {
                    pages.forget(0, pages.count);
                    self.own = 0;
                }
                if pages.is_touched_before {
                    self.touch_own();
                }
            }
            Sharing::Threads => {
                let length = pages.count / SEGMENTS;
                let ahead = self.head.cursor.0.load(Ordering::Relaxed) / length as u64 + 1;
                let (segment, pass) = ((ahead % SEGMENTS as u64) as usize, ahead / SEGMENTS as u64);
                let clean = &self.head.clean.0[segment];
                // Two workers may both do it. One that comes late drops entries of pages that were touched
                // in this pass, and those are not touched again before the next one.
                if clean.load(Ordering::Acquire) < pass {
                    pages.forget(segment * length, length);
                    clean.fetch_max(pass, Ordering::Release);
                }
            }
        }
    }

    #[inline(always)]
    fn touch(&mut self) {
        let pages = self.pages;
        match self.sharing {
            Sharing::Processes => {
                self.touch_own();
                self.own += pages.per_section;
            }
            Sharing::Threads => {
                let cursor = self.head.cursor.0.load(Ordering::Relaxed);
                for i in 0..pages.per_section as u64 {
                    pages.touch(((cursor + i) % pages.count as u64) as usize);
                }
                self.head.cursor.0.store(cursor + pages.per_section as u64, Ordering::Relaxed);
            }
        }
    }
}
