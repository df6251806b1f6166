//! The rseq area of a thread and the two bytes in it by which it asks.
//!
//! Sources: kernel/rseq.c: `rseq_slice_extension_prctl`, `rseq_register`; include/uapi/linux/rseq.h (7.2); glibc
//! sysdeps/unix/sysv/linux/rseq-internal.h (2.36, 2.41). A thread has one area. glibc registers it from 2.35 on, and only from
//! 2.41 on with the length that the kernel offers, below which the kernel refuses the extension.

use super::Missing;
use crate::arch;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed, compiler_fence};

/// The bytes `request` and `granted` of the calling thread's area.
///
/// The thread and the kernel on its behalf alone touch them, on one CPU: plain stores in the order of the program are enough.
#[derive(Clone, Copy)]
pub(super) struct Control {
    area: *mut u8,
}

/// Offsets in `struct rseq`.
mod offset {
    pub(super) const CPU_ID: usize = 4;
    pub(super) const FLAGS: usize = 16;
    pub(super) const REQUEST: usize = 28;
    pub(super) const GRANTED: usize = 29;
}

/// The same number on all architectures that have the extension.
const SYS_RSEQ_SLICE_YIELD: libc::c_long = 471;
/// auxvec.h: how many bytes of the area the kernel uses.
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
/// The bytes of `struct rseq` up to and with what the extension needs.
const NEEDED_BYTES: usize = 33;
/// `rseq.flags`: the thread may ask.
const IS_ENABLED: u32 = 1 << 5;
const PR_RSEQ_SLICE_EXTENSION: libc::c_int = 79;
const PR_RSEQ_SLICE_EXTENSION_SET: libc::c_ulong = 2;
const PR_RSEQ_SLICE_EXT_ENABLE: libc::c_ulong = 1;
/// The kernel's, which is not among those of errno(3).
const ENOTSUPP: i32 = 524;

impl Control {
    fn word(&self, at: usize) -> u32 {
        // SAFETY: the area is longer than `at` and aligned to 32 bytes.
        unsafe { AtomicU32::from_ptr(self.area.add(at).cast()) }.load(Relaxed)
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        // SAFETY: the area is longer than `at`, and lives as long as its thread, which a `Control` does not leave.
        unsafe { AtomicU8::from_ptr(self.area.add(at)) }
    }

    /// Asks. Returns whether this is the outermost section: not when the thread asks already, or has been granted what it asked for.
    #[inline(always)]
    pub(super) fn ask(self) -> bool {
        let is_outermost = self.byte(offset::REQUEST).load(Relaxed) | self.byte(offset::GRANTED).load(Relaxed) == 0;
        if is_outermost {
            self.byte(offset::REQUEST).store(1, Relaxed);
            compiler_fence(core::sync::atomic::Ordering::SeqCst);
        }
        is_outermost
    }

    /// Takes the request back, and gives the CPU away when the kernel has granted it meanwhile. Returns whether it has.
    #[inline(always)]
    pub(super) fn take_back(self) -> bool {
        compiler_fence(core::sync::atomic::Ordering::SeqCst);
        self.byte(offset::REQUEST).store(0, Relaxed);
        compiler_fence(core::sync::atomic::Ordering::SeqCst);
        let is_granted = self.byte(offset::GRANTED).load(Relaxed) != 0;
        if is_granted {
            slice_yield();
        }
        is_granted
    }
}

#[cold]
fn slice_yield() {
    // SAFETY: the call has no arguments. A kernel that grants has it.
    unsafe { libc::syscall(SYS_RSEQ_SLICE_YIELD) };
}

/// The area of the calling thread where it may ask already.
#[inline(always)]
pub(super) fn enabled() -> Option<Control> {
    if !arch::HAS_SLICE_EXTENSION {
        return None;
    }
    let control = library_area().or_else(own::area)?;
    (control.word(offset::FLAGS) & IS_ENABLED != 0).then_some(control)
}

/// Lets the calling thread ask.
pub(super) fn enable() -> Result<Control, Missing> {
    if !arch::HAS_SLICE_EXTENSION {
        return Err(Missing::Architecture);
    }
    // SAFETY: reads what the kernel gave the process at its begin.
    let offered_bytes = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } as usize;
    if offered_bytes < NEEDED_BYTES {
        return Err(Missing::Kernel);
    }
    let (control, is_own) = match library_area() {
        Some(control) => (control, false),
        None => (own::register(offered_bytes)?, true),
    };
    let (set, on) = (PR_RSEQ_SLICE_EXTENSION_SET, PR_RSEQ_SLICE_EXT_ENABLE);
    let none: libc::c_ulong = 0;
    // SAFETY: the call takes numbers by value.
    let code = unsafe { libc::prctl(PR_RSEQ_SLICE_EXTENSION, set, on, none, none) };
    match if code == 0 { 0 } else { crate::errno() } {
        0 => Ok(control),
        libc::EINVAL => Err(Missing::Kernel),
        libc::ENXIO => Err(Missing::Thread),
        ENOTSUPP if is_own => Err(Missing::Refused),
        ENOTSUPP => Err(Missing::CLibrary),
        errno => Err(Missing::Errno(errno)),
    }
}

/// Where the C library has an area for each of its threads; `None` where it registers none (before glibc 2.35, musl,
/// `GLIBC_TUNABLES=glibc.pthread.rseq=0`).
#[inline(always)]
fn library_area() -> Option<Control> {
    let (offset, size) = arch::rseq_symbols();
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: where the library has the two symbols, they are constants since before `main`.
    let (distance, size) = unsafe { (offset.read(), size.read()) };
    // The kernel writes there that an area is not registered (any more).
    let control = Control { area: arch::thread_pointer().wrapping_offset(distance) };
    (size > 0 && control.word(offset::CPU_ID).cast_signed() >= 0).then_some(control)
}

/// Ends the C library's registration of the calling thread, and lets the thread ask in an area of this library's own.
pub(super) fn replace() -> Result<Control, Missing> {
    match (enable(), library_area()) {
        (Err(Missing::CLibrary), Some(control)) => {
            own::take_away(control)?;
            enable()
        }
        (found, _) => found,
    }
}

/// An area of this library's own, for C libraries that have none.
#[cfg(feature = "std")]
mod own {
    use super::{Control, Missing, arch, offset};
    use core::cell::UnsafeCell;

    /// Longer than any kernel asks for so far, and aligned as much (`AT_RSEQ_ALIGN`).
    const AREA_BYTES: usize = 256;
    const RSEQ_FLAG_SLICE_EXT_DEFAULT_ON: libc::c_int = 1 << 1;

    #[repr(C, align(256))]
    struct Area(UnsafeCell<[u8; AREA_BYTES]>);

    std::thread_local! {
        /// Not freed before its thread has left the kernel, so it is never unregistered. `cpu_id` begins as "not registered".
        static AREA: Area = const {
            let mut bytes = [0; AREA_BYTES];
            let mut at = offset::CPU_ID;
            while at < offset::CPU_ID + 4 {
                bytes[at] = 0xff;
                at += 1;
            }
            Area(UnsafeCell::new(bytes))
        };
    }

    pub(super) fn area() -> Option<Control> {
        Some(AREA.with(|area| Control { area: area.0.get().cast() }))
    }

    /// Ends another registration of the thread. glibc 2.35 to 2.40 registers 32 bytes for any `__rseq_size`.
    pub(super) fn take_away(control: Control) -> Result<(), Missing> {
        const RSEQ_FLAG_UNREGISTER: libc::c_int = 1;
        const FIRST_FORM_BYTES: u32 = 32;
        // SAFETY: the kernel marks the area, which is the thread's, as not registered.
        let code = unsafe {
            libc::syscall(libc::SYS_rseq, control.area, FIRST_FORM_BYTES, RSEQ_FLAG_UNREGISTER, arch::RSEQ_SIGNATURE)
        };
        if code == 0 { Ok(()) } else { Err(Missing::CLibrary) }
    }

    pub(super) fn register(bytes: usize) -> Result<Control, Missing> {
        let control = area().ok_or(Missing::Thread)?;
        if control.word(offset::CPU_ID).cast_signed() >= 0 {
            return Ok(control);
        }
        if bytes > AREA_BYTES {
            return Err(Missing::Errno(libc::E2BIG));
        }
        let flags = RSEQ_FLAG_SLICE_EXT_DEFAULT_ON;
        // SAFETY: the kernel reads and writes the area, which lives as long as the thread.
        let code = unsafe { libc::syscall(libc::SYS_rseq, control.area, bytes as u32, flags, arch::RSEQ_SIGNATURE) };
        if code == 0 { Ok(control) } else { Err(Missing::Errno(crate::errno())) }
    }
}

#[cfg(not(feature = "std"))]
mod own {
    use super::{Control, Missing};

    pub(super) fn area() -> Option<Control> {
        None
    }

    pub(super) fn take_away(_control: Control) -> Result<(), Missing> {
        Err(Missing::Std)
    }

    pub(super) fn register(_bytes: usize) -> Result<Control, Missing> {
        Err(Missing::Std)
    }
}
