//! The word that waiters sleep on, and the kernel's queue behind it.
//!
//! Sources: futex(2); kernel/futex/waitwake.c: `futex_wait`, `futex_wake` (6.18).

use crate::sharing::Sharing;
use crate::time::Deadline;

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woke {
    /// Another thread woke this one: the wake-up is used up.
    ByAnother,
    /// The word had another value, or a signal came. No wake-up was used up.
    Unasked,
    /// The deadline passed. No wake-up was used up: the kernel gives one or the other.
    TimedOut,
}

/// Every waiter.
pub(crate) const ANY: u32 = u32::MAX;

pub(crate) use imp::Word;
#[cfg(all(feature = "std", target_pointer_width = "64", target_endian = "little", not(loom)))]
pub(crate) use imp::{wait, wake};

#[cfg(not(loom))]
mod imp {
    use super::{Deadline, Sharing, Woke};
    use core::sync::atomic::{AtomicU32, Ordering};

    /// 32 bits in memory that may be shared.
    #[repr(transparent)]
    pub(crate) struct Word(AtomicU32);

    impl Word {
        #[inline(always)]
        pub(crate) const fn new(value: u32) -> Self {
            Word(AtomicU32::new(value))
        }
        #[inline(always)]
        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }
        #[inline(always)]
        pub(crate) fn swap(&self, value: u32, order: Ordering) -> u32 {
            self.0.swap(value, order)
        }
        #[inline(always)]
        pub(crate) fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
            self.0.fetch_add(value, order)
        }
        #[inline(always)]
        pub(crate) fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
            self.0.fetch_sub(value, order)
        }
        #[inline(always)]
        pub(crate) fn fetch_or(&self, value: u32, order: Ordering) -> u32 {
            self.0.fetch_or(value, order)
        }
        #[inline(always)]
        pub(crate) fn fetch_and(&self, value: u32, order: Ordering) -> u32 {
            self.0.fetch_and(value, order)
        }
        #[inline(always)]
        pub(crate) fn compare_exchange(&self, old: u32, new: u32, ok: Ordering, no: Ordering) -> Result<u32, u32> {
            self.0.compare_exchange(old, new, ok, no)
        }
        /// The address, for what is kept by address.
        #[inline(always)]
        pub(crate) fn address(&self) -> usize {
            core::ptr::from_ref(&self.0) as usize
        }

        /// See [`wait`].
        pub(crate) fn wait<S: Sharing>(&self, expected: u32, mask: u32, until: Option<&Deadline>) -> Woke {
            wait::<S>(self.0.as_ptr(), expected, mask, until)
        }

        /// See [`wake`].
        pub(crate) fn wake<S: Sharing>(&self, most: u32, mask: u32) -> u32 {
            wake::<S>(self.0.as_ptr(), most, mask)
        }
    }

    /// Sleeps while the word is `expected`, until a wake-up for one of `mask`, or until `until`.
    pub(crate) fn wait<S: Sharing>(word: *mut u32, expected: u32, mask: u32, until: Option<&Deadline>) -> Woke {
        let clock = until.map_or(0, Deadline::futex_flag);
        let time = until.map_or(core::ptr::null(), Deadline::timespec);
        let op = libc::FUTEX_WAIT_BITSET | S::FUTEX_FLAG | clock;
        let none = core::ptr::null::<u32>();
        // SAFETY: the kernel reads the word and the time; it answers EFAULT where they are not mapped.
        let code = unsafe { libc::syscall(libc::SYS_futex, word, op, expected, time, none, mask) };
        match if code == 0 { 0 } else { crate::errno() } {
            0 => Woke::ByAnother,
            libc::ETIMEDOUT => Woke::TimedOut,
            _ => Woke::Unasked,
        }
    }

    /// Wakes up to `most` sleepers that wait for one of `mask`. Returns how many it were. The word need not live any more: the
    /// kernel computes with its address alone.
    pub(crate) fn wake<S: Sharing>(word: *mut u32, most: u32, mask: u32) -> u32 {
        let op = libc::FUTEX_WAKE_BITSET | S::FUTEX_FLAG;
        let none = core::ptr::null::<u32>();
        // SAFETY: the kernel uses the address as a key and does not write to it.
        let code = unsafe { libc::syscall(libc::SYS_futex, word, op, most.min(i32::MAX as u32), none, none, mask) };
        u32::try_from(code).unwrap_or(0)
    }
}

#[cfg(loom)]
mod imp {
    use super::{Deadline, Sharing, Woke};
    use loom::sync::atomic::AtomicU32;
    use loom::sync::{Condvar, Mutex};
    use std::sync::atomic::Ordering;

    /// The word under loom, with the kernel's queue: the look at the word and the falling asleep are one step to every waker,
    /// which is what the kernel promises. Loads give the newest value: loom 0.7 lets a second exchange consume a store that a
    /// stale load has seen, which hits every lock that looks before it exchanges.
    pub(crate) struct Word {
        value: AtomicU32,
        queue: Mutex<Queue>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct Queue {
        /// Sleepers in their order: number and mask.
        asleep: Vec<(u64, u32)>,
        next: u64,
    }

    impl Word {
        pub(crate) fn new(value: u32) -> Self {
            Word { value: AtomicU32::new(value), queue: Mutex::new(Queue::default()), changed: Condvar::new() }
        }
        pub(crate) fn load(&self, _order: Ordering) -> u32 {
            self.value.fetch_add(0, Ordering::AcqRel)
        }
        pub(crate) fn swap(&self, value: u32, order: Ordering) -> u32 {
            self.value.swap(value, order)
        }
        pub(crate) fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
            self.value.fetch_add(value, order)
        }
        pub(crate) fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
            self.value.fetch_sub(value, order)
        }
        pub(crate) fn fetch_or(&self, value: u32, order: Ordering) -> u32 {
            self.value.fetch_or(value, order)
        }
        pub(crate) fn fetch_and(&self, value: u32, order: Ordering) -> u32 {
            self.value.fetch_and(value, order)
        }
        pub(crate) fn compare_exchange(&self, old: u32, new: u32, ok: Ordering, no: Ordering) -> Result<u32, u32> {
            self.value.compare_exchange(old, new, ok, no)
        }
        pub(crate) fn address(&self) -> usize {
            0
        }

        /// A deadline passes before the sleep begins.
        pub(crate) fn wait<S: Sharing>(&self, expected: u32, mask: u32, until: Option<&Deadline>) -> Woke {
            let mut queue = self.queue.lock().expect("no panics inside");
            if self.load(Ordering::Relaxed) != expected {
                return Woke::Unasked;
            }
            if until.is_some() {
                return Woke::TimedOut;
            }
            let number = queue.next;
            queue.next += 1;
            queue.asleep.push((number, mask));
            while queue.asleep.iter().any(|(n, _)| *n == number) {
                queue = self.changed.wait(queue).expect("no panics inside");
            }
            Woke::ByAnother
        }

        pub(crate) fn wake<S: Sharing>(&self, most: u32, mask: u32) -> u32 {
            let mut queue = self.queue.lock().expect("no panics inside");
            let mut woken = 0;
            queue.asleep.retain(|(_, of)| {
                let is_woken = woken < most && of & mask != 0;
                woken += u32::from(is_woken);
                !is_woken
            });
            if woken > 0 {
                self.changed.notify_all();
            }
            woken
        }
    }
}
