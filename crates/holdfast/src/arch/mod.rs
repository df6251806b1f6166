//! What differs between architectures: a file for each that something was written for.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as here;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod other;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use other as here;

pub(crate) use here::{HAS_SLICE_EXTENSION, RSEQ_SIGNATURE, rseq_symbols, thread_pointer};
