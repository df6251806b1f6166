//! A guard that asks the kernel not to preempt a short section.

mod area;

use area::Control;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Whether the process can ask at all: not known yet, no, or yes.
static CAN_ASK: AtomicU8 = AtomicU8::new(NOT_KNOWN);
const NOT_KNOWN: u8 = 0;
const CANNOT: u8 = 1;
const CAN: u8 = 2;

/// Asks for a longer time slice for as long as the guard lives.
///
/// Where the kernel was about to preempt the thread on its way back from an interrupt or a fault, it lets it run on for 5 µs (up
/// to 50: debugfs, `rseq/slice_ext_nsec`). When the guard is dropped, what is left of that is given back
/// (`rseq_slice_yield`). Where [`status`] is not [`Status::Works`] the guard does nothing.
///
/// - **Nesting**: the outermost guard asks and gives back. Those inside do nothing, in signal handlers too.
/// - **System calls** inside end a grant, and the thread is switched out then (kernel/rseq.c: `rseq_syscall_enter_work`). Ask for
///   sections without any.
/// - **Threads**: a thread asks for itself. Its first guard costs a system call.
/// - **fork**: the child continues with its own copy of the thread's area.
/// - **Length**: a grant that runs out ends in a switch, as without. Nothing is promised to long sections.
///
/// ```
/// static COUNT: holdfast::Mutex<u64> = holdfast::Mutex::new(0);
/// let hold = holdfast::hold();
/// *COUNT.lock() += 1;
/// drop(hold);
/// ```
#[inline(always)]
pub fn hold() -> Hold {
    // One load and one branch where nothing can be asked for.
    if CAN_ASK.load(Relaxed) == CANNOT { Hold { control: None, not_send: PhantomData } } else { begin() }
}

/// See [`hold`].
#[must_use = "the section ends when the guard is dropped"]
pub struct Hold {
    /// What the guard has to take back; nothing where it does not ask.
    control: Option<Control>,
    not_send: PhantomData<*const ()>,
}

#[inline]
fn begin() -> Hold {
    let control = match area::enabled() {
        Some(control) => Some(control),
        None => first(),
    };
    Hold { control: control.filter(|control| control.ask()), not_send: PhantomData }
}

/// The first guard of a thread, or every guard of one that has no area.
#[cold]
fn first() -> Option<Control> {
    match area::enable() {
        Ok(control) => {
            CAN_ASK.store(CAN, Relaxed);
            Some(control)
        }
        // A thread that was made past the C library has no area; others may have.
        Err(Missing::Thread) => None,
        Err(_) => {
            CAN_ASK.store(CANNOT, Relaxed);
            None
        }
    }
}

impl Hold {
    /// True if this guard asks: the outermost, where the kernel knows it.
    pub fn asks(&self) -> bool {
        self.control.is_some()
    }

    /// Ends the section as dropping the guard does. Returns whether the kernel had let the thread run on, and the rest was given
    /// back. A grant that ran out leaves no trace.
    #[inline(always)]
    pub fn end(mut self) -> bool {
        self.control.take().is_some_and(Control::take_back)
    }
}

impl Drop for Hold {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(control) = self.control {
            control.take_back();
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("asks", &self.asks()).finish()
    }
}

/// Whether [`hold`] does anything for the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The kernel takes requests of this thread.
    Works,
    /// It does not, and this is missing.
    Missing(Missing),
}

/// What the time slice extension lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The architecture: this library knows the thread's area on x86-64 alone.
    Architecture,
    /// The kernel: Linux 7.0.10 or later, built with `CONFIG_RSEQ_SLICE_EXTENSION`.
    Kernel,
    /// The extension was switched off at boot (`rseq_slice_ext=0`), or the kernel calls the registration too short (errno 524).
    Refused,
    /// The C library's area, which is too short: glibc 2.35 to 2.40. It can be switched off by
    /// `GLIBC_TUNABLES=glibc.pthread.rseq=0`, and then an area of this library's own takes its place.
    CLibrary,
    /// Thread-local memory for an area of this library's own: the C library has none, and the feature `std` is off.
    Std,
    /// The thread: it was made past the C library and has no area.
    Thread,
    /// The kernel refused the registration or the request with this errno; `EPERM` and `ENOSYS` are a seccomp filter's answers.
    Errno(i32),
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Works => f.write_str("the kernel takes requests for a longer time slice"),
            Status::Missing(missing) => missing.fmt(f),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missing::Architecture => "architecture: only x86-64 is known",
            Missing::Kernel => "kernel: needs Linux 7.0.10 or later with CONFIG_RSEQ_SLICE_EXTENSION",
            Missing::Refused => "kernel: refuses the extension (rseq_slice_ext=0, or the registered area is too short)",
            Missing::CLibrary => {
                "C library: its rseq area is too short; glibc 2.41, or GLIBC_TUNABLES=glibc.pthread.rseq=0"
            }
            Missing::Std => "C library: it has no rseq area, and the feature `std` is off",
            Missing::Thread => "thread: it has no rseq area",
            Missing::Errno(errno) => return write!(f, "kernel: refuses the extension with errno {errno}"),
        })
    }
}

/// Tries the extension on the calling thread.
///
/// ```
/// println!("time slice extension: {}", holdfast::status());
/// ```
pub fn status() -> Status {
    match area::enable() {
        Ok(_) => Status::Works,
        Err(missing) => Status::Missing(missing),
    }
}

/// Lets the calling thread ask where the C library's area is too short (glibc 2.35 to 2.40, [`Missing::CLibrary`]): ends the
/// library's registration and makes one of an area of this library's own. Elsewhere it is [`status`]. `sched_getcpu` asks the
/// kernel from then on.
///
/// # Safety
/// Nothing else in the thread relies on the C library's area: no restartable sequence runs there. Users of `__rseq_offset` are
/// tcmalloc and librseq.
pub unsafe fn replace_area() -> Status {
    match area::replace() {
        Ok(_) => Status::Works,
        Err(missing) => Status::Missing(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_nest_and_the_status_is_that_of_the_guards() {
        let works = status() == Status::Works;
        let outer = hold();
        let inner = hold();
        assert_eq!((outer.asks(), inner.asks()), (works, false), "{}", status());
        drop(inner);
        drop(outer);
        assert_eq!(hold().asks(), works);
    }

    #[test]
    fn a_forked_child_holds_as_its_parent_does() {
        let asks = hold().asks();
        // SAFETY: the child calls nothing that could wait for a thread that it does not have.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let same = hold().asks() == asks;
            // SAFETY: ends the child without the parent's handlers.
            unsafe { libc::_exit(if same { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child of this test.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
    }

    #[test]
    fn what_is_missing_has_a_name() {
        for missing in [Missing::Kernel, Missing::CLibrary, Missing::Errno(1)] {
            assert!(Status::Missing(missing).to_string().contains(": "), "{missing}");
        }
    }
}
