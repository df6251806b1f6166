//! The heap of this process.

/// Has all threads allocate from one heap. glibc gives each new thread another one (mallopt(3), M_ARENA_MAX), and what is freed in it
/// stays there: a process that stays on, and starts threads for each server that comes back, would hold memory of all of
/// them. To be called before other threads are there.
pub fn share_one() {
    // SAFETY: it sets a number inside malloc and takes no pointer.
    #[cfg(target_env = "gnu")]
    let _was_set = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}
