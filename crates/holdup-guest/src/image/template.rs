//! A data folder made in advance.
//!
//! initdb is slow under emulation, and its result differs each time (the system identifier, times): a template is made
//! once for each build of PostgreSQL and kept, so that images with it are the same as long as it is kept.

use super::PostgresFiles;
use super::tree::Tree;
use holdup_model::{Observer, Problem};
use std::path::{Path, PathBuf};

/// Where the guest finds it: this, `-`, the major version.
pub const GUEST_FOLDER: &str = "/var/lib/holdup/template";

/// A data folder that initdb made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The folder.
    pub folder: PathBuf,
}

impl Template {
    pub(crate) fn add(&self, _tree: &mut Tree) -> Result<(), Problem> {
        Ok(())
    }
}

/// x
pub fn template(_files: &PostgresFiles, _cache: &Path, _observer: &mut dyn Observer) -> Result<Template, Problem> {
    Err(Problem::internal("x", "y"))
}
