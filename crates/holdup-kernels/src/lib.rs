//! Kernels for guests: what a plan may name, where it comes from, and the cache that keeps it.
//!
//! A [`Spec`] is the text that a plan or a command line holds; [`Cache::get`] turns it into a [`Kernel`] that lies on
//! disk. What comes from Debian's archive comes through apt, which verifies it; nothing here opens a connection.
#![forbid(unsafe_code)]

pub mod build;
mod cache;
mod kernel;
mod spec;

pub use cache::{Addition, Cache, Entry};
pub use kernel::{Kernel, Options};
pub use spec::{BuildSpec, DebianSpec, Spec, Wanted};
