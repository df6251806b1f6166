//! A kernel that lies on disk, and how it may be had.

use holdup_model::Problem;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kernel that a guest can boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The text that asked for it.
    pub spec: String,
    /// The image: a bzImage, an arm64 Image (plain, compressed or for EFI), or an ELF vmlinux.
    pub image: PathBuf,
    /// Its release, as `uname -r` will say it, read from the image itself: `7.0.13+deb13-amd64`.
    pub release: String,
    /// All that the image says about its version: release, who built it, with what, when.
    pub version_line: String,
    /// The machine that it runs on, as `uname -m` says it: `x86_64` or `aarch64`.
    pub arch: String,
    /// SHA-256 of the image, in hexadecimal.
    pub sha256: String,
    /// The configuration that it was built with, where it could be had.
    pub config: Option<PathBuf>,
    /// The folder of its modules, `…/modules/RELEASE`, where they were asked for and could be had.
    pub modules: Option<PathBuf>,
    /// Where it comes from: packages with versions and architecture, or a path; also says what was not verified.
    pub source: String,
}

/// How kernels may be had.
#[derive(Debug, Clone)]
pub struct Options {
    /// The archive to fetch from, as apt writes it (`http://HOST/debian`); the one of this machine's apt where unset.
    pub mirror: Option<String>,
    /// Use only what is in the cache.
    pub offline: bool,
    /// The machine that the kernel is for, as `uname -m` says it: `x86_64` or `aarch64`.
    pub arch: String,
    /// Have the modules as well; of the normal flavour they are 160 MB.
    pub modules: bool,
    /// Set from outside to end what is under way.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Options {
    fn default() -> Self {
        Options { mirror: None, offline: false, arch: std::env::consts::ARCH.to_owned(), modules: false, cancel: None }
    }
}

impl Options {
    /// Ends what is under way when that was asked for.
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
