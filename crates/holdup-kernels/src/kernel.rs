//! A kernel on disk, and the options for obtaining one.

use holdup_model::Problem;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bootable kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The spec that it was requested by.
    pub spec: String,
    /// The image: a bzImage (of x86 or s390x), an arm64 Image (plain, compressed or for EFI), or an ELF vmlinux.
    pub image: PathBuf,
    /// As `uname -r` prints it, read from the image: `7.0.13+deb13-amd64`.
    pub release: String,
    /// The image's version string: release, builder, compiler, date.
    pub version_line: String,
    /// As `uname -m` prints it: `x86_64`, `aarch64` or `s390x`.
    pub arch: String,
    /// SHA-256 of the image in hexadecimal.
    pub sha256: String,
    /// Its configuration, where it is available.
    pub config: Option<PathBuf>,
    /// The folder `…/modules/RELEASE`, if modules were requested and are available.
    pub modules: Option<PathBuf>,
    /// Its origin: packages with versions and architecture, or a path, and which parts were not verified.
    pub source: String,
}

/// Options for obtaining kernels.
#[derive(Debug, Clone)]
pub struct Options {
    /// The archive in apt's notation (`http://HOST/debian`); that of this machine's apt if unset.
    pub mirror: Option<String>,
    /// Use only the cache.
    pub offline: bool,
    /// The kernel's machine, as `uname -m` prints it: `x86_64`, `aarch64` or `s390x`.
    pub arch: String,
    /// Fetch modules too (160 MB for the default flavour).
    pub modules: bool,
    /// Set by the caller to cancel.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Options {
    fn default() -> Self {
        Options { mirror: None, offline: false, arch: std::env::consts::ARCH.to_owned(), modules: false, cancel: None }
    }
}

impl Options {
    /// Fails once the caller has cancelled.
    ///
    /// # Errors
    /// [`Problem::interrupted`] once `cancel` is set.
    pub fn check(&self, what: &str) -> Result<(), Problem> {
        match &self.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(Problem::interrupted(what)),
            _ => Ok(()),
        }
    }
}
