//! Kernels for guests: specs, their sources, and the cache. [`Spec::parse`] reads the text in a plan, [`Cache::get`] returns
//! the [`Kernel`] on disk: `archive` unpacks packages, `debian` runs apt, `build` runs make, `cache` stores the results with
//! their sums. `cache/postgres` does the same for PostgreSQL.
//!
//! Not in here: booting (`holdup-guest`), and the network. Everything from Debian comes through apt, which verifies it. Start
//! at `cache/mod.rs` ([`Cache::get`]).
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

pub use archive::{
    DebFacts, RpmFacts, Unpacked, decompressed, is_compressed, read_deb, read_rpm, unpack_deb, unpack_rpm,
};
pub use cache::{Addition, BuiltServer, Cache, Entry, Part, PartSize};
pub use cache::{PostgresEntry, PostgresRoot, postgres, postgres_kept, postgres_remove};
pub use debian::Available;
pub use files::{hex, lock, sha256};
pub use image::{ImageFacts, check_arch, image_facts, read_image};
pub use kernel::{Kernel, Options};
pub use spec::{BuildSpec, DebianSpec, Spec, Wanted};
