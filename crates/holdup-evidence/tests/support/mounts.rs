//! Mounts that only the thread of a test sees.

use std::ffi::CStr;

/// Mounts something at a place in a new namespace of the calling thread's. Whether that was allowed.
pub(crate) fn mount_for_this_thread(source: &CStr, at: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> bool {
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    let (none, root, nothing) = (c"none".as_ptr(), c"/".as_ptr(), std::ptr::null());
    // SAFETY: the new namespace is this thread's alone, and the texts end with a nul.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, root, nothing, libc::MS_REC | libc::MS_PRIVATE, nothing.cast()) == 0
            && libc::mount(source.as_ptr(), at.as_ptr(), kind, flags, nothing.cast()) == 0
    }
}
