//! Deadlines on both clocks.

use core::time::Duration;

/// A clock of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: nothing sets it, and it stands still while the machine sleeps.
    Monotonic,
    /// `CLOCK_REALTIME`: a wait ends early or late when the clock is set.
    Realtime,
}

impl Clock {
    fn id(self) -> libc::clockid_t {
        match self {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::Realtime => libc::CLOCK_REALTIME,
        }
    }

    fn now(self) -> libc::timespec {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is written to a local. Both clocks are on every kernel.
        unsafe { libc::clock_gettime(self.id(), &raw mut now) };
        now
    }
}

/// A point in time at which a wait ends.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    time: libc::timespec,
    clock: Clock,
}

impl Deadline {
    /// `duration` from now. A time beyond the clock's range is the end of the range.
    pub fn after(duration: Duration, clock: Clock) -> Self {
        let now = clock.now();
        let nanoseconds = now.tv_nsec + libc::c_long::from(duration.subsec_nanos() as i32);
        let carry = nanoseconds / 1_000_000_000;
        let seconds = libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX);
        let seconds = now.tv_sec.saturating_add(seconds).saturating_add(carry);
        Deadline { time: libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds % 1_000_000_000 }, clock }
    }

    /// `seconds` and `nanoseconds` (less than 1 000 000 000) after the zero of `clock`; `None` where they are no time.
    pub fn at(seconds: i64, nanoseconds: u32, clock: Clock) -> Option<Self> {
        let is_time = seconds >= 0 && nanoseconds < 1_000_000_000;
        let tv_sec = libc::time_t::try_from(seconds).ok()?;
        is_time.then_some(Deadline { time: libc::timespec { tv_sec, tv_nsec: nanoseconds as libc::c_long }, clock })
    }

    /// True if it is over.
    pub fn has_passed(&self) -> bool {
        let now = self.clock.now();
        (now.tv_sec, now.tv_nsec) >= (self.time.tv_sec, self.time.tv_nsec)
    }

    #[cfg(not(loom))]
    pub(crate) fn futex_flag(&self) -> i32 {
        match self.clock {
            Clock::Monotonic => 0,
            Clock::Realtime => libc::FUTEX_CLOCK_REALTIME,
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn timespec(&self) -> *const libc::timespec {
        &raw const self.time
    }
}

/// Microseconds of `CLOCK_MONOTONIC`, of which the low 32 bits count.
#[cfg(not(loom))]
pub(crate) fn now_us() -> u32 {
    let now = Clock::Monotonic.now();
    (now.tv_sec as u32).wrapping_mul(1_000_000).wrapping_add(now.tv_nsec as u32 / 1_000)
}
