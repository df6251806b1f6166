//! System calls that stay in the kernel for long without a place where they would give way.
//!
//! Two unlike ones, so that a `cond_resched()` that some kernel has in one of them shows as a disagreement.
//!
//! - A read of one byte far into `/proc/kallsyms`: the kernel makes all the text before it again, record by record
//!   (fs/seq_file.c:traverse, v6.18). The offset sets the length.
//! - poll(2) of very many descriptors that are never ready (fs/select.c:do_poll, v6.18).

use super::own_cpu_ns;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

/// The calls, made ready.
#[derive(Debug)]
pub(super) struct Calls {
    walked: Result<Walked, String>,
    polled: Result<Polled, String>,
}

#[derive(Debug)]
struct Walked {
    file: OwnedFd,
    offset: u64,
    takes_ns: u64,
}

#[derive(Debug)]
struct Polled {
    event: OwnedFd,
    /// The array for the kernel; the same descriptor in each entry.
    entries: Mutex<Vec<libc::pollfd>>,
    takes_ns: u64,
}

/// The soft limit of open files, raised as far as it goes for as long as this value lives: poll(2) refuses
/// arrays that are longer than the limit.
#[derive(Debug)]
pub(super) struct OpenFiles {
    before: Option<Rlimit>,
    /// How many there may be now.
    most: u64,
}

impl OpenFiles {
    pub(super) fn raise() -> Self {
        let now = getrlimit(Resource::Nofile);
        let soft = now.current.unwrap_or(MOST_ENTRIES);
        let hard = now.maximum.unwrap_or(MOST_ENTRIES).min(MOST_ENTRIES);
        if hard > soft && setrlimit(Resource::Nofile, Rlimit { current: Some(hard), maximum: now.maximum }).is_ok() {
            return OpenFiles { before: Some(now), most: hard };
        }
        OpenFiles { before: None, most: soft.min(MOST_ENTRIES) }
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // Lowering one's own soft limit is always allowed.
            let _put_back = setrlimit(Resource::Nofile, before);
        }
    }
}

/// Longer arrays gain nothing: the walk is the long call.
const MOST_ENTRIES: u64 = 1 << 17;

impl Calls {
    /// Opens what is needed, finds the offset at which a walk takes about `wanted`, and times both.
    pub(super) fn prepare(wanted: Duration, files: &OpenFiles) -> Self {
        Calls { walked: prepare_walk(wanted), polled: prepare_poll(files) }
    }

    /// How much CPU time a walk takes, or why there is none.
    pub(super) fn walk_ns(&self) -> Result<u64, String> {
        self.walked.as_ref().map(|walked| walked.takes_ns).map_err(Clone::clone)
    }

    /// How much CPU time a poll takes, or why there is none.
    pub(super) fn poll_ns(&self) -> Result<u64, String> {
        self.polled.as_ref().map(|polled| polled.takes_ns).map_err(Clone::clone)
    }

    pub(super) fn walk(&self) {
        if let Ok(walked) = &self.walked {
            let _read = read_at(&walked.file, walked.offset);
        }
    }

    pub(super) fn poll(&self) {
        if let Ok(polled) = &self.polled {
            polled.poll();
        }
    }
}

impl Polled {
    fn poll(&self) {
        debug_assert!(self.event.as_raw_fd() >= 0);
        // Only one hog polls at a time; another would have to wait, and its arrival would be void.
        let Ok(mut entries) = self.entries.try_lock() else { return };
        let count = entries.len() as libc::nfds_t;
        // SAFETY: the array has `count` entries and is locked until the call returns.
        unsafe { libc::poll(entries.as_mut_ptr(), count, 0) };
    }
}

/// The least CPU time of five calls: what disturbs a call makes it longer, and a call that is taken for longer than it
/// is would be met near its end.
fn timed(call: impl Fn()) -> u64 {
    let once = || {
        let begun = own_cpu_ns();
        call();
        own_cpu_ns().saturating_sub(begun)
    };
    (0..5).map(|_| once()).min().unwrap_or(0)
}

fn prepare_poll(files: &OpenFiles) -> Result<Polled, String> {
    let event = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| format!("eventfd: {e}"))?;
    let entry = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let entries = vec![entry; usize::try_from(files.most).unwrap_or(0)];
    let mut polled = Polled { event, entries: Mutex::new(entries), takes_ns: 0 };
    polled.takes_ns = timed(|| polled.poll());
    Ok(polled)
}

/// Reads one byte; `false` at the end of the file.
fn read_at(file: &OwnedFd, offset: u64) -> rustix::io::Result<bool> {
    // The kernel walks again only when the position is not where the last read ended.
    let mut byte = [0_u8; 1];
    Ok(rustix::io::pread(file, &mut byte, offset)? > 0)
}

fn prepare_walk(wanted: Duration) -> Result<Walked, String> {
    const PATH: &str = "/proc/kallsyms";
    const FIRST: u64 = 16 << 10;
    let why = |e: rustix::io::Errno| format!("{PATH}: {e}");
    let file = rustix::fs::open(PATH, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(why)?;
    let mut offset = FIRST;
    let mut reached = None;
    loop {
        let begun = own_cpu_ns();
        let more = read_at(&file, offset).map_err(why)?;
        let took = Duration::from_nanos(own_cpu_ns().saturating_sub(begun));
        if more {
            reached = Some(offset);
        }
        if !more || took >= wanted {
            break;
        }
        // The time is linear in the offset. The least step keeps noise from making endless ones.
        let factor = (wanted.as_secs_f64() / took.as_secs_f64().max(1e-6)).clamp(1.1, 2.0);
        offset = (offset as f64 * factor) as u64 + 1;
    }
    let offset = reached.ok_or_else(|| format!("{PATH} has less than 16 KiB"))?;
    let takes_ns = timed(|| {
        let _read = read_at(&file, offset);
    });
    Ok(Walked { file, offset, takes_ns })
}

/// Memory that is touched, given back and touched again.
#[derive(Debug, Default)]
pub(super) struct Faults {
    memory: Option<Mapping>,
}

#[derive(Debug)]
struct Mapping(*mut libc::c_void);

/// Few enough that giving them back is a short call.
const PAGES: usize = 64;
const PAGE: usize = 4096;

impl Faults {
    /// One round of faults; nothing when there is no memory.
    pub(super) fn touch(&mut self) {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        if self.memory.is_none() {
            let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new private mapping at an address of the kernel's choice aliases nothing.
            self.memory = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGES * PAGE, prot, flags) }.map(Mapping).ok();
        }
        let Some(Mapping(start)) = self.memory else {
            std::thread::sleep(Duration::from_micros(100));
            return;
        };
        for page in 0..PAGES {
            // SAFETY: the mapping has `PAGES` pages, is writable and known to this thread only.
            unsafe { start.cast::<u8>().add(page * PAGE).write_volatile(1) };
        }
        // SAFETY: the mapping is this thread's own, and nothing in it is read again.
        let _given = unsafe { madvise(start, PAGES * PAGE, Advice::LinuxDontNeed) };
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if let Some(Mapping(start)) = self.memory.take() {
            // SAFETY: made by `touch` with this length, and no reference to it is left.
            let _gone = unsafe { rustix::mm::munmap(start, PAGES * PAGE) };
        }
    }
}
