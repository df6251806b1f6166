//! What the kernel says of a worker at the edges of the window.

use crate::board::phase;
use crate::clock::{now_ns, thread_cpu_ns};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// A worker's account with the kernel at one moment. Written by the worker, once; all-zero bytes are one that was
/// never taken.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mark {
    at_ns: AtomicU64,
    done: AtomicU64,
    minor_faults: AtomicU64,
    voluntary: AtomicU64,
    involuntary: AtomicU64,
    cpu_ns: AtomicU64,
    /// [`NO_SLICES`] for a worker that asks for none.
    slice_grants: AtomicU64,
}

const NO_SLICES: u64 = u64::MAX;

/// The same as plain numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// When it was taken, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What the worker had done by then.
    pub done: u64,
    /// Its page faults without input or output, getrusage(2).
    pub minor_faults: u64,
    /// Its voluntary context switches, getrusage(2).
    pub voluntary: u64,
    /// Its involuntary context switches, getrusage(2).
    pub involuntary: u64,
    /// Its CPU time in user and system mode, ns, [`thread_cpu_ns`].
    pub cpu_ns: u64,
    /// The time slice extensions that it was granted; `None` for a worker that asks for none.
    pub slice_grants: Option<u64>,
}

impl Mark {
    /// Takes the account of the calling thread. Only the first one counts.
    #[cold]
    fn take(&self, done: u64, slice_grants: Option<u64>) {
        if self.at_ns.load(Ordering::Relaxed) != 0 {
            return;
        }
        // SAFETY: an all-zero rusage is valid, and the kernel fills in one.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        for (field, value) in [
            (&self.done, done),
            (&self.minor_faults, usage.ru_minflt as u64),
            (&self.voluntary, usage.ru_nvcsw as u64),
            (&self.involuntary, usage.ru_nivcsw as u64),
            (&self.cpu_ns, thread_cpu_ns()),
            (&self.slice_grants, slice_grants.unwrap_or(NO_SLICES)),
        ] {
            field.store(value, Ordering::Relaxed);
        }
        self.at_ns.store(now_ns(), Ordering::Release);
    }

    /// The account; `None` when it was never taken.
    fn account(&self) -> Option<Account> {
        let at_ns = self.at_ns.load(Ordering::Acquire);
        let read = |field: &AtomicU64| field.load(Ordering::Relaxed);
        (at_ns != 0).then(|| Account {
            at_ns,
            done: read(&self.done),
            minor_faults: read(&self.minor_faults),
            voluntary: read(&self.voluntary),
            involuntary: read(&self.involuntary),
            cpu_ns: read(&self.cpu_ns),
            slice_grants: Some(read(&self.slice_grants)).filter(|grants| *grants != NO_SLICES),
        })
    }
}

/// A worker's account when it saw the window open, and when it saw it closed.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Marks {
    opened: Mark,
    closed: Mark,
}

impl Marks {
    /// What a worker takes that sees a new phase, having done this much.
    #[cold]
    pub fn saw(&self, phase: u32, done: u64) {
        self.saw_with(phase, done, None);
    }

    /// The same for a worker that was granted time slice extensions.
    #[cold]
    pub fn saw_with(&self, phase: u32, done: u64, slice_grants: Option<u64>) {
        if phase >= phase::OPEN {
            self.opened.take(done, slice_grants);
        }
        if phase >= phase::CLOSED {
            self.closed.take(done, slice_grants);
        }
    }

    /// The accounts at both edges; `None` when one was never taken.
    pub fn both(&self) -> Option<(Account, Account)> {
        Some((self.opened.account()?, self.closed.account()?))
    }
}

/// What several workers of one kind did and used between the edges that each of them saw.
pub fn between<'a>(marks: impl Iterator<Item = &'a Marks>) -> Account {
    let mut sum = Account::default();
    for (begin, end) in marks.filter_map(Marks::both) {
        sum.done += end.done.saturating_sub(begin.done);
        sum.voluntary += end.voluntary.saturating_sub(begin.voluntary);
        sum.involuntary += end.involuntary.saturating_sub(begin.involuntary);
        sum.cpu_ns += end.cpu_ns.saturating_sub(begin.cpu_ns);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_is_taken_once_and_what_is_between_adds_up() {
        let (one, two, late) = (Marks::default(), Marks::default(), Marks::default());
        for (marks, begin, end) in [(&one, 5, 15), (&two, 0, 7)] {
            marks.saw(phase::WARM, 1);
            assert_eq!(marks.opened.account(), None);
            marks.saw(phase::OPEN, begin);
            marks.saw(phase::OPEN, 99);
            // A sleep is a voluntary switch.
            std::thread::sleep(std::time::Duration::from_millis(1));
            marks.saw(phase::CLOSED, end);
            marks.saw(phase::STOP, 99);
        }
        late.saw(phase::OPEN, 3);
        let sum = between([&one, &two, &late].into_iter());
        assert_eq!(sum.done, 17);
        assert!(sum.voluntary >= 2, "{sum:?}");
    }
}
