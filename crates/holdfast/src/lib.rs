#![doc = include_str!("../README.md")]
#![cfg_attr(not(any(feature = "std", test, loom)), no_std)]
#![warn(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!("holdfast stands on futex(2) and rseq(2): it is for Linux");

mod arch;
mod condvar;
mod futex;
mod hold;
#[cfg(all(feature = "lock_api", not(loom)))]
mod lock_api;
#[cfg(all(loom, test))]
mod models;
mod mutex;
mod note;
mod once;
#[cfg(all(feature = "std", target_pointer_width = "64", target_endian = "little", not(loom)))]
mod robust;
mod rwlock;
mod sharing;
mod spin;
mod time;

pub use condvar::Condvar;
pub use hold::{Hold, Missing, Status, hold, replace_area, status};
pub use mutex::{Mutex, MutexGuard, RawMutex};
pub use once::Once;
#[cfg(all(feature = "std", target_pointer_width = "64", target_endian = "little", not(loom)))]
pub use robust::{RobustError, RobustMutex, Taken};
pub use rwlock::{RawRwLock, ReadGuard, RwLock, WriteGuard};
pub use sharing::{Private, Shared, Sharing};
pub use time::{Clock, Deadline};

/// The calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: the C library gives the address of the calling thread's own.
    unsafe { *libc::__errno_location() }
}
