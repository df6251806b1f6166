//! What is asked of bpf(2) without aya.

use aya_obj::generated::{bpf_attr, bpf_attr__bindgen_ty_11, bpf_cmd};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};

/// A command; what it returns.
///
/// # Safety
///
/// The attributes are those of the command, and what they point to is as large as they state.
pub(super) unsafe fn call(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i64> {
    // SAFETY: as the caller promises.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_long, &raw mut *attributes, size_of::<bpf_attr>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Runs a loaded program at the tracepoint that it was loaded for, until the descriptor is closed
/// (kernel/bpf/syscall.c:bpf_raw_tracepoint_open, v6.18).
pub(super) fn at_tracepoint(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: integers and bit fields of them, which 0 is a value of; the name has to be null for such a program.
    let (mut attributes, mut of): (bpf_attr, bpf_attr__bindgen_ty_11) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    of.prog_fd = u32::try_from(program.as_raw_fd()).map_err(io::Error::other)?;
    attributes.raw_tracepoint = of;
    // SAFETY: the attributes are those of this command, and point to nothing.
    let fd = unsafe { call(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attributes)? };
    // SAFETY: the kernel has just made it for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?) })
}
