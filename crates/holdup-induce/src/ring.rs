//! An io_uring whose submission queue is watched by a thread of the kernel: a kernel thread that one can keep busy.
//!
//! `IORING_SETUP_SQPOLL` makes a thread that never leaves the kernel (`iou-sqp-PID`). It begins to look for work when it is
//! woken and continues, on its CPU, until it has found none for `sq_thread_idle` milliseconds
//! (io_uring/sqpoll.c:io_sq_thread, v6.18).

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

const SETUP_SQPOLL: u32 = 1 << 1;
const SETUP_SQ_AFF: u32 = 1 << 2;
const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const OFF_SQES: u64 = 0x1000_0000;
/// IORING_FEAT_SINGLE_MMAP: both queues are in one mapping.
const SINGLE_MAP: u32 = 1;
const ENTRIES: u32 = 8;
/// More than the two queues of so few entries take, and than their entries do.
const MAP_BYTES: usize = 4096;

/// `struct io_uring_params` (include/uapi/linux/io_uring.h).
#[repr(C)]
#[derive(Default)]
struct Parameters {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    sq: Offsets,
    cq: Offsets,
}

/// `struct io_sqring_offsets`, of which `struct io_cqring_offsets` shares what is used here but `array`.
#[repr(C)]
#[derive(Default)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    address: u64,
}

/// A ring whose kernel thread runs on one CPU.
pub(crate) struct Ring {
    ring: OwnedFd,
    queues: *mut u8,
    offsets: Parameters,
}

// SAFETY: the mapping is only reached through atomics, and lives until the process ends.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes one; its thread looks for `idle_ms` longer than it finds work.
    pub(crate) fn new(cpu: u32, idle_ms: u32) -> io::Result<Self> {
        let mut offsets = Parameters {
            flags: SETUP_SQPOLL | SETUP_SQ_AFF,
            sq_thread_cpu: cpu,
            sq_thread_idle: idle_ms,
            ..Parameters::default()
        };
        // SAFETY: the kernel reads and writes one `io_uring_params`, which `Parameters` is.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &raw mut offsets) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel has just made it for us.
        let ring = unsafe { OwnedFd::from_raw_fd(fd) };
        if offsets.features & SINGLE_MAP == 0 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a kernel before 5.4"));
        }
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        let flags = rustix::mm::MapFlags::SHARED | rustix::mm::MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let queues = unsafe { rustix::mm::mmap(std::ptr::null_mut(), MAP_BYTES, access, flags, &ring, 0)? };
        // An entry of zeros is IORING_OP_NOP, and the queue's entries are zeros; they are mapped only to be there.
        // SAFETY: as above.
        let _entries = unsafe { rustix::mm::mmap(std::ptr::null_mut(), MAP_BYTES, access, flags, &ring, OFF_SQES)? };
        Ok(Ring { ring, queues: queues.cast(), offsets })
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: the kernel gave the offset of an aligned word in the mapping, which lives until the process ends.
        unsafe { AtomicU32::from_ptr(self.queues.add(offset as usize).cast()) }
    }

    /// Gives the thread one thing to do, which is nothing, and wakes it.
    pub(crate) fn poke(&self) {
        let (sq, cq) = (&self.offsets.sq, &self.offsets.cq);
        // What is done is taken away, so that the queue is never full.
        self.word(cq.head).store(self.word(cq.tail).load(Ordering::Acquire), Ordering::Release);
        self.word(sq.tail).fetch_add(1, Ordering::Release);
        // SAFETY: the call takes no memory.
        unsafe { libc::syscall(libc::SYS_io_uring_enter, self.ring.as_raw_fd(), 0, 0, ENTER_SQ_WAKEUP, 0, 0) };
    }
}
