//! The manifest beside each kernel: its facts, and the sums of its files.

use super::stored::{FILE, ManifestFile};
use crate::files::{below, sha256, write_manifest};
use crate::{Kernel, debian};
use holdup_model::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "holdup.kernel/1";

/// Paths are relative to the entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) schema: String,
    pub(super) kernel: Kernel,
    /// The specs that it answers, each with the time of the last lookup.
    pub(super) asked_unix_ns: BTreeMap<String, u64>,
    /// What it was built from.
    pub(super) key: Option<String>,
    pub(super) package: Option<Package>,
    /// True if modules were requested, so that a kernel without them is not fetched again for them.
    pub(super) modules_asked: bool,
    pub(super) files: Vec<Sum>,
    pub(super) fetched_unix_ns: u64,
}

/// The package that held the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Package {
    Debian { version: String, abi: String, flavour: Option<String>, suite: String },
    File { sha256: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Manifest {
    pub(super) fn new(kernel: Kernel) -> Manifest {
        Manifest {
            schema: SCHEMA.to_owned(),
            asked_unix_ns: BTreeMap::new(),
            key: None,
            package: None,
            modules_asked: kernel.modules.is_some(),
            files: Vec::new(),
            fetched_unix_ns: crate::files::now_unix_ns(),
            kernel,
        }
    }

    pub(super) fn write(&self, entry: &Path) -> Result<(), Problem> {
        write_manifest(self, &entry.join(FILE))
    }

    /// Computes the sums of a new entry's files.
    pub(super) fn sum(&mut self, entry: &Path) -> io::Result<()> {
        self.files.clear();
        for path in below(entry)? {
            let full = entry.join(&path);
            if path.as_os_str() != FILE && fs::symlink_metadata(&full)?.is_file() {
                self.files.push(Sum { bytes: full.metadata()?.len(), sha256: sha256(&full)?, path });
            }
        }
        Ok(())
    }

    /// The kernel with full paths.
    pub(super) fn kernel(&self, entry: &Path, spec: String) -> Kernel {
        let full = |path: &PathBuf| entry.join(path);
        Kernel {
            spec,
            image: full(&self.kernel.image),
            config: self.kernel.config.as_ref().map(full),
            modules: self.kernel.modules.as_ref().map(full),
            ..self.kernel.clone()
        }
    }

    /// The version of this kernel, if it is a Debian kernel that a spec matches.
    pub(super) fn fits(&self, spec: &crate::DebianSpec) -> Option<&str> {
        let Some(Package::Debian { version, abi, flavour, suite }) = &self.package else { return None };
        let architecture = debian::architecture(&self.kernel.arch)?;
        let wanted = spec.flavour.as_deref().filter(|flavour| *flavour != architecture);
        let fits = match &spec.wanted {
            crate::Wanted::Version(wanted) => debian::version::fits(wanted, version, abi),
            crate::Wanted::Suite(wanted) => suite == wanted,
        };
        (fits && flavour.as_deref() == wanted).then_some(version)
    }

    /// True if a spec matches only this kernel, so that no newer one could.
    pub(super) fn is_exactly(&self, spec: &crate::DebianSpec) -> bool {
        let Some(Package::Debian { version, abi, .. }) = &self.package else { return false };
        match &spec.wanted {
            crate::Wanted::Version(wanted) => {
                wanted == version || wanted == abi || wanted == debian::version::upstream(version)
            }
            crate::Wanted::Suite(_) => false,
        }
    }
}

impl ManifestFile for Manifest {
    const SCHEMA: &'static str = SCHEMA;

    fn schema(&self) -> &String {
        &self.schema
    }

    fn paths(&self) -> Vec<&PathBuf> {
        let kernel = &self.kernel;
        let own = [Some(&kernel.image), kernel.config.as_ref(), kernel.modules.as_ref()];
        own.into_iter().flatten().chain(self.files.iter().map(|file| &file.path)).collect()
    }

    /// Compares image and configuration by their sums, modules by their lengths: enough for a full disk and a truncated copy.
    fn check(&self, entry: &Path) -> Result<(), String> {
        for file in &self.files {
            let path = entry.join(&file.path);
            let metadata = fs::symlink_metadata(&path).map_err(|e| format!("{}: {e}", file.path.display()))?;
            if !metadata.is_file() || metadata.len() != file.bytes {
                let (is, was) = (metadata.len(), file.bytes);
                return Err(format!("{} has {is} bytes and had {was}", file.path.display()));
            }
            let is_module = self.kernel.modules.as_ref().is_some_and(|modules| file.path.starts_with(modules));
            if !is_module {
                let is = sha256(&path).map_err(|e| format!("{}: {e}", file.path.display()))?;
                if is != file.sha256 {
                    return Err(format!("the SHA-256 of {} is {is} and was {}", file.path.display(), file.sha256));
                }
            }
        }
        match self.files.iter().find(|file| file.path == self.kernel.image) {
            Some(image) if image.sha256 == self.kernel.sha256 => Ok(()),
            _ => Err("its manifest has no image".to_owned()),
        }
    }
}
