//! The measured loop.

use holdup_load::board::{Board, Shareable, phase};
use holdup_load::clock::{now_ns, thread_cpu_ns};
use holdup_load::placement::stay_on;
use holdup_load::record::Record;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// One thread's part of the board. It alone writes.
#[repr(C)]
pub(crate) struct Slot {
    /// How late each wake-up of the window was.
    pub(crate) late: Record,
    /// Moments of the window that were over before the thread had woken.
    pub(crate) missed: AtomicU64,
    /// CPU time of the thread when it saw the window open and when it saw it closed, ns.
    pub(crate) cpu_ns: [AtomicU64; 2],
    /// Why it gave up, as errno; 0 when it did not.
    pub(crate) errno: AtomicI32,
}

// SAFETY: atomics.
unsafe impl Shareable for Slot {}

/// The memory of a trial.
pub(crate) type Slots = Board<(), Slot>;

/// All that one thread needs.
pub(crate) struct Job {
    pub(crate) slots: Arc<Slots>,
    pub(crate) index: usize,
    pub(crate) interval_ns: u64,
    /// How much later than the others its first moment is: threads that wake in step meet on every timer interrupt.
    pub(crate) offset_ns: u64,
    pub(crate) priority: u32,
    pub(crate) cpus: Vec<u32>,
}

impl Job {
    /// A thread's whole life.
    pub(crate) fn run(&self) {
        let slot = self.slots.slot(self.index);
        if let Err(e) = self.work(slot) {
            slot.errno.store(e.raw_os_error().unwrap_or(libc::EIO), Ordering::Release);
        }
    }

    fn work(&self, slot: &Slot) -> io::Result<()> {
        stay_on(&self.cpus)?;
        if self.priority > 0 {
            become_fifo(self.priority)?;
        }
        slot.late.touch();
        let stage = self.slots.stage();
        if !stage.wait_for_begin() {
            return Ok(());
        }
        let mut seen = phase::WARM;
        let mut next_ns = now_ns() + self.interval_ns + self.offset_ns;
        loop {
            sleep_until(next_ns);
            let now = now_ns();
            let phase = stage.phase();
            if phase != seen {
                seen = phase;
                match phase {
                    phase::OPEN => slot.cpu_ns[0].store(thread_cpu_ns(), Ordering::Relaxed),
                    phase::CLOSED => slot.cpu_ns[1].store(thread_cpu_ns(), Ordering::Relaxed),
                    _ => {
                        // A thread that slept through the time between the window's end and the stop sees both now.
                        if slot.cpu_ns[1].load(Ordering::Relaxed) == 0 {
                            slot.cpu_ns[1].store(thread_cpu_ns(), Ordering::Relaxed);
                        }
                        return Ok(());
                    }
                }
            }
            let late_ns = now.saturating_sub(next_ns);
            // The moments that are over by now are left out, and counted.
            let over = late_ns / self.interval_ns;
            if phase == phase::OPEN {
                slot.late.count(late_ns);
                if over > 0 {
                    slot.missed.store(slot.missed.load(Ordering::Relaxed) + over, Ordering::Relaxed);
                }
            }
            next_ns += (over + 1) * self.interval_ns;
        }
    }
}

/// Sleeps until a moment of CLOCK_MONOTONIC.
#[inline]
fn sleep_until(at_ns: u64) {
    let at = libc::timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
    // SAFETY: the kernel reads one timespec. A signal ends the sleep early, and then it is continued until the same moment.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

/// Makes the calling thread SCHED_FIFO.
pub(crate) fn become_fifo(priority: u32) -> io::Result<()> {
    let wanted = libc::sched_param { sched_priority: priority as i32 };
    // SAFETY: the kernel reads one sched_param. On Linux 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
