//! What is known beforehand about products: one file per product.

pub(crate) mod postgres;

/// Functions of libraries that take the spin lock of their first argument for their caller, and the one that gives it back
/// (POSIX.1-2024; glibc keeps an int there).
pub(crate) const SPIN_LOCKS: &[&str] = &["pthread_spin_lock"];
/// The same name where it is one of [`SPIN_LOCKS`].
pub(crate) fn spin_lock(name: &str) -> Option<&'static str> {
    SPIN_LOCKS.iter().find(|known| **known == name).copied()
}

/// See [`SPIN_LOCKS`].
pub(crate) const SPIN_UNLOCK: &str = "pthread_spin_unlock";
/// Bytes of such a lock.
pub(crate) const SPIN_LOCK_BYTES: usize = 4;

/// Functions that do not come back to their caller.
pub(crate) const NEVER_RETURN: &[&str] = &[
    "__stack_chk_fail",
    "__fortify_fail",
    "__chk_fail",
    "__assert_fail",
    "__longjmp_chk",
    "longjmp",
    "siglongjmp",
    "_longjmp",
    "abort",
    "exit",
    "_exit",
    "quick_exit",
    "pthread_exit",
    "__cxa_throw",
    "__cxa_rethrow",
    "_Unwind_Resume",
    "_ZSt9terminatev",
    "proc_exit",
    "ExceptionalCondition",
    "pg_re_throw",
    "ReThrowError",
];
