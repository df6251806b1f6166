//! A mutex for shared memory that survives its holder.

#[cfg(test)]
mod check;
mod list;
mod protocol;

use crate::errno;
use crate::futex::{self, ANY, Woke};
use crate::sharing::Shared;
use crate::time::Deadline;
use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use list::Thread;
use protocol::{State, Step};

/// A mutex in shared memory whose next owner learns that the last one died: 40 bytes, zero when free.
///
/// | bytes | meaning |
/// |---|---|
/// | 0–3 | owner and waiters, in the kernel's form |
/// | 4–7 | state of the data, and a count of owners |
/// | 8–23 | zero |
/// | 24–39 | the owner's list of held locks; addresses in the owner's process |
///
/// The table is a contract with `holdfast.h` (`holdfast_robust_t`). The lock is always process-shared.
///
/// The kernel walks the dying thread's list (kernel/futex/core.c: `exit_robust_list`), so a death by any cause is seen
/// immediately, `kill -9` among them, and a death while waiting, taking or giving back passes the wake-up on.
///
/// Limits: needs glibc on a 64-bit machine (others: [`RobustError::Unsupported`]); the memory must be written by trusted processes
/// alone, because the list's addresses lie in it, as for pthread's robust mutexes; not for signal handlers; a thread holds at
/// most 2048 (`ROBUST_LIST_LIMIT`).
#[repr(C)]
pub struct RobustMutex {
    /// See [`protocol`].
    words: AtomicU64,
    reserved: [u64; 2],
    node: Node,
}

/// What links the lock into its owner's list.
#[repr(C)]
struct Node {
    previous: UnsafeCell<*mut libc::c_void>,
    next: UnsafeCell<*mut libc::c_void>,
}

impl Node {
    fn next_cell(&self) -> *mut *mut libc::c_void {
        self.next.get()
    }
    fn previous_cell(&self) -> *mut *mut libc::c_void {
        self.previous.get()
    }
}

// SAFETY: the word decides which thread may touch the node.
unsafe impl Send for RobustMutex {}
// SAFETY: as above.
unsafe impl Sync for RobustMutex {}

/// How a robust mutex was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "after the death of an owner the data must be repaired"]
pub enum Taken {
    /// The last owner gave it back.
    Whole,
    /// The last owner died with it. Repair the data and call [`RobustMutex::make_whole`]; giving the lock back without that makes
    /// it [`RobustError::GivenUp`] for all.
    OwnerDied,
}

/// Why a robust mutex was not taken or given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RobustError {
    /// `try_lock`: another thread has it.
    Busy,
    /// The deadline passed.
    TimedOut,
    /// The calling thread has it already.
    Deadlock,
    /// The calling thread does not have it.
    NotOwner,
    /// An owner died and the one after it did not repair the data.
    GivenUp,
    /// The C library has no list that this lock can join.
    Unsupported,
    /// The kernel refuses to wait, with this errno.
    Errno(i32),
}

impl fmt::Display for RobustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RobustError::Busy => "robust mutex: held by another thread",
            RobustError::TimedOut => "robust mutex: the deadline passed",
            RobustError::Deadlock => "robust mutex: held by this thread already",
            RobustError::NotOwner => "robust mutex: not held by this thread",
            RobustError::GivenUp => "robust mutex: given up after an owner's death",
            RobustError::Unsupported => "robust mutex: the C library has no list of robust locks in glibc's form",
            RobustError::Errno(errno) => return write!(f, "robust mutex: the kernel refuses to wait: errno {errno}"),
        })
    }
}

impl core::error::Error for RobustError {}

impl RobustMutex {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        RobustMutex {
            words: AtomicU64::new(0),
            reserved: [0; 2],
            node: Node {
                previous: UnsafeCell::new(core::ptr::null_mut()),
                next: UnsafeCell::new(core::ptr::null_mut()),
            },
        }
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// [`RobustError::Deadlock`], [`RobustError::GivenUp`], [`RobustError::Unsupported`].
    ///
    /// # Safety
    /// The memory of the lock stays mapped, at this address, until this thread has given the lock back.
    pub unsafe fn lock(&self) -> Result<Taken, RobustError> {
        self.acquire(Wait::For(None))
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// [`RobustError::Busy`], and those of [`lock`](Self::lock).
    ///
    /// # Safety
    /// As for [`lock`](Self::lock).
    pub unsafe fn try_lock(&self) -> Result<Taken, RobustError> {
        self.acquire(Wait::Never)
    }

    /// Takes the lock before `deadline` passes.
    ///
    /// # Errors
    /// [`RobustError::TimedOut`], and those of [`lock`](Self::lock).
    ///
    /// # Safety
    /// As for [`lock`](Self::lock).
    pub unsafe fn lock_until(&self, deadline: &Deadline) -> Result<Taken, RobustError> {
        self.acquire(Wait::For(Some(deadline)))
    }

    fn acquire(&self, wait: Wait<'_>) -> Result<Taken, RobustError> {
        let thread = list::thread();
        if !thread.is_listed() {
            return Err(RobustError::Unsupported);
        }
        thread.begin(&self.node);
        let taken = self.take(thread.id, wait);
        if taken.is_ok() {
            thread.link(&self.node);
        }
        thread.end();
        match protocol::state(taken?) {
            State::Whole => Ok(Taken::Whole),
            State::Died => Ok(Taken::OwnerDied),
            State::GivenUp => {
                self.release(thread);
                Err(RobustError::GivenUp)
            }
        }
    }

    /// Returns the words with which it is ours.
    fn take(&self, me: u32, wait: Wait<'_>) -> Result<u64, RobustError> {
        let mut has_slept = false;
        loop {
            let words = self.words.load(Relaxed);
            match (protocol::look(words, me, has_slept), wait) {
                (Step::Take(new), _) => {
                    if self.words.compare_exchange(words, new, Acquire, Relaxed).is_ok() {
                        return Ok(new);
                    }
                }
                (Step::Deadlock, _) => return Err(RobustError::Deadlock),
                (_, Wait::Never) => return Err(RobustError::Busy),
                (Step::Mark(new), _) => {
                    let _looked_at_again = self.words.compare_exchange(words, new, Relaxed, Relaxed);
                }
                (Step::Sleep(word), Wait::For(until)) => {
                    match futex::wait::<Shared>(self.first_word(), word, ANY, until) {
                        Woke::TimedOut => return Err(RobustError::TimedOut),
                        Woke::ByAnother => has_slept = true,
                        Woke::Unasked if matches!(errno(), libc::EAGAIN | libc::EINTR) => {}
                        Woke::Unasked => return Err(RobustError::Errno(errno())),
                    }
                }
            }
        }
    }

    /// What the kernel compares and sleepers sleep on: the lower half.
    fn first_word(&self) -> *mut u32 {
        self.words.as_ptr().cast()
    }

    /// The data is whole again after [`Taken::OwnerDied`].
    ///
    /// # Errors
    /// [`RobustError::NotOwner`].
    pub fn make_whole(&self) -> Result<(), RobustError> {
        let mut words = self.words.load(Relaxed);
        if protocol::owner(words) != list::thread().id {
            return Err(RobustError::NotOwner);
        }
        while let Err(now) = self.words.compare_exchange(words, protocol::make_whole(words), Relaxed, Relaxed) {
            words = now;
        }
        Ok(())
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// [`RobustError::NotOwner`]: nothing was changed.
    pub fn unlock(&self) -> Result<(), RobustError> {
        let thread = list::thread();
        if protocol::owner(self.words.load(Relaxed)) != thread.id || !thread.is_listed() {
            return Err(RobustError::NotOwner);
        }
        self.release(thread);
        Ok(())
    }

    fn release(&self, thread: Thread) {
        thread.begin(&self.node);
        thread.unlink(&self.node);
        let mut words = self.words.load(Relaxed);
        loop {
            let (left, must_wake) = protocol::release(words);
            match self.words.compare_exchange(words, left, Release, Relaxed) {
                Ok(_) if !must_wake => break,
                Ok(_) => {
                    let woken = futex::wake::<Shared>(self.first_word(), 1, ANY);
                    if let Some(new) = protocol::after_wake(left, woken) {
                        let _else_taken = self.words.compare_exchange(left, new, Relaxed, Relaxed);
                    }
                    break;
                }
                Err(now) => words = now,
            }
        }
        thread.end();
    }
}

#[derive(Clone, Copy)]
enum Wait<'a> {
    Never,
    For(Option<&'a Deadline>),
}

impl Default for RobustMutex {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RobustMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words.load(Relaxed);
        let (owner, state) = (protocol::owner(words), protocol::state(words));
        f.debug_struct("RobustMutex").field("owner", &owner).field("state", &state).finish()
    }
}
