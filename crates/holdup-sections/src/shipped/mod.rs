//! What is known beforehand about products: one file per product.

pub(crate) mod postgres;

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
