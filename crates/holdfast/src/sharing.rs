//! Who may use a lock: the threads of one process, or all processes that have its memory.

/// Whether waiters of several processes meet at a lock.
///
/// The layout is the same for both. What differs is how the kernel finds the sleepers: by process and address ([`Private`]),
/// or by the page behind the address ([`Shared`]), which costs a look-up of the page. All users of one lock must agree.
pub trait Sharing: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// `FUTEX_PRIVATE_FLAG` or 0.
    #[doc(hidden)]
    const FUTEX_FLAG: i32;
}

/// The lock is used by threads of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Private;

/// The lock lies in memory that several processes have mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shared;

impl Sharing for Private {
    const FUTEX_FLAG: i32 = libc::FUTEX_PRIVATE_FLAG;
}

impl Sharing for Shared {
    const FUTEX_FLAG: i32 = 0;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Private {}
    impl Sealed for super::Shared {}
}
