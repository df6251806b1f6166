//! The rseq area of a thread and its time slice extension.
//!
//! A thread has one rseq registration, and the C library usually takes it. glibc 2.35 to 2.40 registers 32 bytes, to
//! which kernels from 7.0.10 on refuse the extension; 2.41 and later registers what the kernel offers. So a thread
//! first asks for the extension on what is registered; where the kernel refuses that, it takes the library's
//! registration away and makes its own. The library notices: the kernel marks its area as not registered, and
//! `sched_getcpu` asks the kernel from then on. The thread's own area is thread-local memory, which lives as long as the
//! library's does, so it stays registered until the thread ends, and a forked child may use it without allocating.
//!
//! Sources: kernel/rseq.c (v7.2), include/uapi/linux/rseq.h, include/uapi/linux/prctl.h (v7.2); glibc
//! sysdeps/unix/sysv/linux/rseq-internal.h (2.36, 2.41).

use holdup_model::Availability;
use std::cell::UnsafeCell;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

/// auxvec.h: how many bytes of the area the kernel uses, and how the area must be aligned.
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
const AT_RSEQ_ALIGN: libc::c_ulong = 28;
/// The bytes of `struct rseq` up to and with what the extension needs.
const NEEDED_BYTES: usize = 33;
/// Where `slice_ctrl` is in `struct rseq`.
const CONTROL_AT: usize = 28;
/// The length of the first form, which every older library registers.
const FIRST_FORM_BYTES: usize = 32;
const RSEQ_FLAG_UNREGISTER: libc::c_int = 1;
const PR_RSEQ_SLICE_EXTENSION: libc::c_int = 79;
const PR_RSEQ_SLICE_EXTENSION_SET: libc::c_ulong = 2;
const PR_RSEQ_SLICE_EXT_ENABLE: libc::c_ulong = 1;
/// The same number on all architectures that have the extension.
const SYS_RSEQ_SLICE_YIELD: libc::c_long = 471;
/// The kernel's ENOTSUPP, which is not among those of errno(3).
const ENOTSUPP: i32 = 524;
/// The signature that glibc registers with, which taking its registration away must repeat.
const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };

/// Longer than any kernel asks for so far, and aligned as much.
const AREA_BYTES: usize = 256;

#[repr(C, align(256))]
struct Area(UnsafeCell<[u8; AREA_BYTES]>);

thread_local! {
    static OWN: Area = const { Area(UnsafeCell::new([0; AREA_BYTES])) };
}

fn own_area() -> NonNull<u8> {
    OWN.with(|area| NonNull::from(&area.0).cast())
}

/// The bytes `request` and `granted` of the calling thread's area. Only this thread and the kernel on its behalf touch
/// them, so plain loads and stores in the order of the program are enough.
#[derive(Clone, Copy)]
pub(crate) struct Control(NonNull<AtomicU8>);

impl Control {
    /// Those of the thread's own area, which the kernel does not look at before [`enable`].
    pub(crate) fn own() -> Self {
        Self::of(own_area())
    }

    fn of(area: NonNull<u8>) -> Self {
        // SAFETY: an area has at least `NEEDED_BYTES`.
        Control(unsafe { area.add(CONTROL_AT) }.cast())
    }

    fn request(&self) -> &AtomicU8 {
        // SAFETY: the area lives as long as its thread, which a `Control` does not leave: it is not `Send`.
        unsafe { self.0.as_ref() }
    }

    fn granted(&self) -> &AtomicU8 {
        // SAFETY: as above; the byte after `request`.
        unsafe { self.0.add(1).as_ref() }
    }

    /// From here on the kernel may let the thread run on where it would have preempted it.
    #[inline(always)]
    pub(crate) fn ask(&self) {
        self.request().store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Takes the request back. Returns whether the kernel has granted it and the grant still holds.
    #[inline(always)]
    pub(crate) fn end_asking(&self) -> bool {
        compiler_fence(Ordering::SeqCst);
        self.request().store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.granted().load(Ordering::Relaxed) != 0
    }
}

/// Ends a grant: the CPU goes to the task that was kept waiting.
#[cold]
pub(crate) fn slice_yield() {
    // SAFETY: the call takes nothing and touches no memory but the thread's area.
    unsafe { crate::syscall::plain(SYS_RSEQ_SLICE_YIELD) };
}

/// Whether the calling process can use the extension, tried on a new thread.
pub(crate) fn probe() -> Availability {
    let offered = feature_bytes();
    if offered < NEEDED_BYTES {
        return unavailable(format!(
            "this kernel offers {offered} bytes of rseq and the time slice extension needs {NEEDED_BYTES}: it came with 7.0"
        ));
    }
    let tried = std::thread::Builder::new().spawn(|| enable().map(|_| ())).map(std::thread::JoinHandle::join);
    match tried {
        Ok(Ok(Ok(()))) => Availability::Ready,
        Ok(Ok(Err(e))) if e.raw_os_error() == Some(ENOTSUPP) => unavailable(
            "this kernel was built without CONFIG_RSEQ_SLICE_EXTENSION, or it was booted with rseq_slice_ext=0"
                .to_owned(),
        ),
        Ok(Ok(Err(e))) => unavailable(format!("the kernel refuses the time slice extension of rseq: {e}")),
        Ok(Err(_)) => Availability::unavailable("the thread that tried it panicked"),
        Err(e) => Availability::unavailable(format!("no thread to try it on: {e}")),
    }
}

fn unavailable(reason: String) -> Availability {
    Availability::unavailable_but(
        reason,
        "a kernel 7.0.10 or later with CONFIG_RSEQ_SLICE_EXTENSION=y, for example one of `holdup kernels build`",
    )
}

/// Switches the extension on for the calling thread, which may be that of a forked child: nothing is allocated.
///
/// # Errors
/// What the kernel answers: errno 524 where it has no extension, EINVAL where it does not know it.
pub(crate) fn enable() -> io::Result<Control> {
    let registered = registered_by_library();
    if let Some((area, _)) = registered {
        match switch_on() {
            Ok(()) => return Ok(Control::of(area)),
            // Its registration is too short, or there is none after all: make our own.
            Err(e) if matches!(e.raw_os_error(), Some(ENOTSUPP | libc::ENXIO)) => {}
            Err(e) => return Err(e),
        }
    }
    let bytes = register(registered)?;
    debug_assert!(bytes >= NEEDED_BYTES);
    switch_on()?;
    Ok(Control::own())
}

fn switch_on() -> io::Result<()> {
    let (set, on, none) = (PR_RSEQ_SLICE_EXTENSION_SET, PR_RSEQ_SLICE_EXT_ENABLE, 0 as libc::c_ulong);
    // SAFETY: the call takes numbers by value and touches no memory but the thread's area.
    let result = unsafe { libc::prctl(PR_RSEQ_SLICE_EXTENSION, set, on, none, none) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Registers the thread's own area, after taking away the library's. Returns how many bytes were registered.
fn register(registered: Option<(NonNull<u8>, usize)>) -> io::Result<usize> {
    let own = own_area();
    // The kernel wants all that it offers, and takes more.
    let bytes = feature_bytes().max(NEEDED_BYTES);
    if bytes > AREA_BYTES || alignment() > AREA_BYTES {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    match rseq(own, bytes, 0) {
        Ok(()) => return Ok(bytes),
        // EBUSY: the very same is registered, by an earlier use of this thread.
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Ok(bytes),
        // EINVAL: another area is.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) && registered.is_some() => {}
        Err(e) => return Err(e),
    }
    if let Some((area, size)) = registered {
        take_away(area, size)?;
    }
    rseq(own, bytes, 0).map(|()| bytes)
}

/// Ends the library's registration. The length must be the registered one, which the library does not publish: up to
/// 2.40 it is 32 for any `__rseq_size`, later it is that of the kernel's area.
fn take_away(area: NonNull<u8>, size: usize) -> io::Result<()> {
    let offered = feature_bytes();
    let lengths = [FIRST_FORM_BYTES, offered, size, offered.next_multiple_of(alignment().max(1))];
    let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
    for bytes in lengths {
        match rseq(area, bytes, RSEQ_FLAG_UNREGISTER) {
            Ok(()) => return Ok(()),
            Err(e) => refused = e,
        }
    }
    Err(refused)
}

fn rseq(area: NonNull<u8>, bytes: usize, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads and writes `bytes` of the area, which is thread-local memory of at least that length
    // and lives as long as the thread.
    let result = unsafe { libc::syscall(libc::SYS_rseq, area.as_ptr(), bytes as u32, flags, SIGNATURE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn feature_bytes() -> usize {
    // SAFETY: reads what the kernel gave the process at its begin.
    unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) as usize }
}

fn alignment() -> usize {
    // SAFETY: as above.
    unsafe { libc::getauxval(AT_RSEQ_ALIGN) as usize }
}

/// Where the C library has registered an area for the calling thread, and the size that it gives; `None` where it
/// registers none (before glibc 2.35, musl, `GLIBC_TUNABLES=glibc.pthread.rseq=0`).
fn registered_by_library() -> Option<(NonNull<u8>, usize)> {
    let (offset, size) = library_symbols()?;
    // SAFETY: where the library has these two symbols, they are constants since before `main`.
    let (offset, size) = unsafe { (offset.read(), size.read()) };
    let area = NonNull::new(thread_pointer().wrapping_offset(offset))?;
    (size > 0).then_some((area, size as usize))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn library_symbols() -> Option<(*const isize, *const u32)> {
    let (offset, size): (*const isize, *const u32);
    // Weak, so that holdup links with libraries that do not have them, and is null there.
    // SAFETY: reads the two symbols' addresses from the global offset table.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {0}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {1}, qword ptr [rip + __rseq_size@GOTPCREL]",
            out(reg) offset, out(reg) size, options(pure, readonly, nostack, preserves_flags)
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "adrp {0}, :got:__rseq_offset",
            "ldr {0}, [{0}, :got_lo12:__rseq_offset]",
            "adrp {1}, :got:__rseq_size",
            "ldr {1}, [{1}, :got_lo12:__rseq_size]",
            out(reg) offset, out(reg) size, options(pure, readonly, nostack, preserves_flags)
        );
    }
    (!offset.is_null() && !size.is_null()).then_some((offset, size))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn library_symbols() -> Option<(*const isize, *const u32)> {
    None
}

/// What the library counts `__rseq_offset` from.
fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    // SAFETY: on x86-64 the first word of the thread control block is its own address (System V ABI, TLS).
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: reads a register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mrs {0}, tpidr_el0", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        pointer = std::ptr::null_mut();
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes `cpu_id` of an area: what the kernel writes there, or that nothing is registered.
    fn cpu_id(area: NonNull<u8>) -> i32 {
        // SAFETY: the test's thread owns the area.
        unsafe { area.add(4).cast::<i32>().read_volatile() }
    }

    #[test]
    fn the_library_s_registration_is_found_and_replaced_by_our_own() {
        let moved = || {
            let Some((area, size)) = registered_by_library() else { return };
            // A registered area holds the CPU that the thread runs on.
            assert!(cpu_id(area) >= 0 && size >= 20, "cpu_id {} in an area of {size} bytes", cpu_id(area));
            // What kernels before 7.0 offer is shorter than what the extension needs; they take a longer area as well.
            if feature_bytes() == 0 {
                return;
            }
            assert!(register(Some((area, size))).is_ok_and(|bytes| bytes >= NEEDED_BYTES));
            assert!(cpu_id(own_area()) >= 0, "the kernel writes to our own area now");
            assert!(cpu_id(area) < 0, "and the library knows that its area is not registered");
            assert!(register(Some((area, size))).is_ok(), "a second use of the same thread changes nothing");
            // SAFETY: takes no pointers.
            assert!(unsafe { libc::sched_getcpu() } >= 0, "the library asks the kernel");
        };
        std::thread::spawn(moved).join().expect("it does not panic");
    }

    #[test]
    fn the_extension_is_there_or_the_reason_is_reported() {
        match probe() {
            Availability::Ready => {
                // Two threads on one CPU that ask all the time: whenever one should go, it is granted some more.
                let asks = || {
                    let mut one = rustix::thread::CpuSet::new();
                    let here = rustix::thread::sched_getaffinity(None).expect("its own");
                    one.set((0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| here.is_set(*cpu)).expect("one"));
                    rustix::thread::sched_setaffinity(None, &one).expect("its own CPU");
                    let control = enable().expect("the probe said that it works");
                    let begin = std::time::Instant::now();
                    while begin.elapsed() < std::time::Duration::from_secs(30) {
                        control.ask();
                        for _ in 0..500 {
                            std::hint::spin_loop();
                        }
                        if control.end_asking() {
                            slice_yield();
                            return control.granted().load(Ordering::Relaxed);
                        }
                    }
                    panic!("no slice was granted in 30 s of asking beside another thread");
                };
                let both = [std::thread::spawn(asks), std::thread::spawn(asks)];
                let left = both.map(|thread| thread.join().map_err(|_| "see above"));
                assert!(left.contains(&Ok(0)), "a yield ends the grant: {left:?}");
            }
            Availability::Unavailable { reason, remedy } => {
                let old = feature_bytes() < NEEDED_BYTES;
                assert_eq!(old, reason.contains("bytes of rseq"), "{reason}");
                assert!(remedy.is_some_and(|r| r.contains("CONFIG_RSEQ_SLICE_EXTENSION=y")), "{reason}");
                let refused = std::thread::spawn(|| enable().map(|_| ()).expect_err("the probe said no")).join();
                assert!(refused.expect("no panic").raw_os_error().is_some());
            }
            Availability::Degraded { reason } => panic!("it works or it does not: {reason}"),
        }
    }

    #[test]
    fn a_request_is_two_bytes_of_our_own_area() {
        let control = Control::own();
        let bytes = || {
            // SAFETY: the test's thread owns the area.
            unsafe { own_area().add(CONTROL_AT).cast::<[u8; 4]>().read_volatile() }
        };
        control.ask();
        assert_eq!(bytes(), [1, 0, 0, 0]);
        // As the kernel does when it grants.
        control.request().store(0, Ordering::Relaxed);
        control.granted().store(1, Ordering::Relaxed);
        assert!(control.end_asking());
        control.granted().store(0, Ordering::Relaxed);
        control.ask();
        assert!(!control.end_asking());
        assert_eq!(bytes(), [0; 4]);
    }
}
