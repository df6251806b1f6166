//! What the kernel says of a worker at the edges of the window.

use crate::clock::{now_ns, thread_cpu_ns};
use std::sync::atomic::{AtomicU64, Ordering};

/// A worker's account with the kernel at one moment. Written by the worker, once; all-zero bytes are one that was
/// never taken.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mark {
    at_ns: AtomicU64,
    done: AtomicU64,
    voluntary: AtomicU64,
    involuntary: AtomicU64,
    cpu_ns: AtomicU64,
}

/// The same as plain numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// What the worker had done by then.
    pub done: u64,
    /// Its voluntary context switches, getrusage(2).
    pub voluntary: u64,
    /// Its involuntary context switches, getrusage(2).
    pub involuntary: u64,
    /// Its CPU time in user and system mode, ns, [`thread_cpu_ns`].
    pub cpu_ns: u64,
}

/// What the calling thread has used, getrusage(2).
pub fn thread_usage() -> libc::rusage {
    // SAFETY: an all-zero rusage is valid, and the kernel fills in one.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    }
}

impl Mark {
    /// Takes the account of the calling thread, which has done so much. Only the first one counts.
    #[cold]
    pub fn take(&self, done: u64) {
        if self.at_ns.load(Ordering::Relaxed) != 0 {
            return;
        }
        let usage = thread_usage();
        self.done.store(done, Ordering::Relaxed);
        self.voluntary.store(usage.ru_nvcsw as u64, Ordering::Relaxed);
        self.involuntary.store(usage.ru_nivcsw as u64, Ordering::Relaxed);
        self.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
        self.at_ns.store(now_ns(), Ordering::Release);
    }

    /// The account; `None` when it was never taken.
    pub fn account(&self) -> Option<Account> {
        (self.at_ns.load(Ordering::Acquire) != 0).then(|| Account {
            done: self.done.load(Ordering::Relaxed),
            voluntary: self.voluntary.load(Ordering::Relaxed),
            involuntary: self.involuntary.load(Ordering::Relaxed),
            cpu_ns: self.cpu_ns.load(Ordering::Relaxed),
        })
    }
}

/// A worker's account when it saw the window open, and when it saw it closed.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Marks {
    /// When it saw the window open.
    pub opened: Mark,
    /// When it saw the window closed.
    pub closed: Mark,
}

impl Marks {
    /// What a worker takes that sees a new phase, having done so much.
    #[cold]
    pub fn saw(&self, phase: u32, done: u64) {
        if phase >= crate::board::phase::OPEN {
            self.opened.take(done);
        }
        if phase >= crate::board::phase::CLOSED {
            self.closed.take(done);
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
    use crate::board::phase;

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
