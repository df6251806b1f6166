//! PostgreSQL 15 to 19.
//!
//! Sources: `src/backend/storage/lmgr/s_lock.c`, `src/backend/storage/lmgr/lwlock.c`,
//! `src/backend/storage/buffer/{freelist,bufmgr}.c`, `src/backend/utils/error/elog.c`, `src/include/utils/elog.h` of 15.18,
//! 18 and 19.

/// By these symbols a binary is known as a PostgreSQL server.
pub(crate) const SIGNS: &[&str] = &["s_lock", "perform_spin_delay", "PostgresMain"];

/// Functions that are called only after a failed attempt: all of their code is waiting, until they have the lock.
/// `S_LOCK` of s_lock.h calls `s_lock` where `TAS` fails.
pub(crate) const WAITS_FROM_ENTRY: &[&str] = &["s_lock"];

/// Functions that take a lock for their caller, and what that lock is called behind the caller's name.
/// `LWLockWaitListLock` is static: it is known by the name that it gives to its spin delay.
pub(crate) const LOCKS: &[(&str, &str)] =
    &[("s_lock", ""), ("LockBufHdr", "buffer header"), ("LWLockWaitListLock", "wait list")];

/// Functions that do nothing but call another one with the arguments that they got, which has no symbol:
/// caller and called. `LWLockRelease` and `LWLockReleaseDisowned` share the second since 18.
pub(crate) const PASS_ON: &[(&str, &str)] = &[("LWLockReleaseDisowned", "LWLockReleaseInternal")];

/// `errstart(elevel, domain)` sets the level of a report in its first argument, and `errfinish` does not come back when
/// that was at least ERROR (elog.h: 21 since PostgreSQL 14).
pub(crate) const REPORT_BEGINS: &[&str] = &["errstart", "errstart_cold"];
pub(crate) const REPORT_ENDS: &str = "errfinish";
pub(crate) const LEAST_FINAL_LEVEL: u64 = 21;

/// `s_lock(lock, file, line, func)`: the argument with the name of the function whose source takes the lock, which
/// distinguishes inlined copies.
pub(crate) const NAME_ARGUMENT: usize = 3;

/// Functions that are inlined where a spin lock is taken, and name themselves in that argument: since 19 `SpinLockAcquire` of spin.h is
/// no macro.
pub(crate) const INLINED: &[&str] = &["SpinLockAcquire"];

/// Functions of error reports, which run at most once per report: what they call is not followed.
pub(crate) const NOT_FOLLOWED: &[&str] = &[
    "errstart",
    "errstart_cold",
    "errfinish",
    "errmsg",
    "errmsg_internal",
    "errdetail",
    "errcode",
    "errhint",
    "ExceptionalCondition",
];
