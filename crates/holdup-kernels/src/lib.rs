//! Kernels for guests: what a plan may name, where it comes from, and the cache that keeps it.
//!
//! A [`Spec`] is the text that a plan or a command line holds; [`Cache::get`] turns it into a [`Kernel`] that lies on
//! disk. What comes from Debian's archive comes through apt, which verifies it; nothing here opens a connection.
#![forbid(unsafe_code)]

mod archive;
pub mod build;
mod cache;
mod debian;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod image;
mod kernel;
mod spec;

pub use archive::{DebFacts, RpmFacts, Unpacked, decompressed, read_deb, read_rpm, unpack_deb, unpack_rpm};
pub use cache::{Addition, Cache, Entry, Part, PartSize};
pub use cache::{PostgresEntry, PostgresRoot, postgres, postgres_kept, postgres_remove};
pub use debian::Available;
pub use files::{hex, sha256};
pub use image::{ImageFacts, check_arch, image_facts, read_image};
pub use kernel::{Kernel, Options};
pub use spec::{BuildSpec, DebianSpec, Spec, Wanted};
