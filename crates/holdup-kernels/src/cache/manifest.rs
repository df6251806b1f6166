//! What lies beside each kernel: its facts, and the sums of its files.

use crate::files::{below, sha256, write_manifest};
use crate::{Kernel, debian};
use holdup_model::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The schema of a manifest.
const SCHEMA: &str = "holdup.kernel/1";

/// The file of a manifest in its entry.
const FILE: &str = "manifest.json";

/// One entry, as its manifest has it. Paths are relative to the entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) schema: String,
    pub(super) kernel: Kernel,
    /// The specs that were answered with it, each with the time when that was looked up last, since 1970, ns.
    pub(super) asked_unix_ns: BTreeMap<String, u64>,
    /// What it was made from, where it was made here.
    pub(super) key: Option<String>,
    /// The package that held the image, where one did.
    pub(super) package: Option<Package>,
    /// Whether the modules were asked for when it was fetched, so that their absence is an answer.
    pub(super) modules_asked: bool,
    pub(super) files: Vec<Sum>,
    pub(super) fetched_unix_ns: u64,
}

/// A package of Debian's, or the sum of a file that is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Package {
    Debian { version: String, abi: String, flavour: Option<String>, suite: String },
    File { sha256: String },
}

/// One file of an entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Manifest {
    pub(super) fn of(kernel: Kernel) -> Manifest {
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

    pub(super) fn read(entry: &Path) -> Result<Manifest, String> {
        let text = fs::read_to_string(entry.join(FILE)).map_err(|e| format!("its manifest: {e}"))?;
        let manifest: Manifest = serde_json::from_str(&text).map_err(|e| format!("its manifest: {e}"))?;
        if manifest.schema != SCHEMA {
            return Err(format!("its manifest is of the schema `{}`, not {SCHEMA}", manifest.schema.escape_debug()));
        }
        let kernel = &manifest.kernel;
        let paths = [Some(&kernel.image), kernel.config.as_ref(), kernel.modules.as_ref()];
        let files = manifest.files.iter().map(|file| &file.path);
        let leaves = |path: &Path| path.is_absolute() || path.components().any(|part| part.as_os_str() == "..");
        if let Some(path) = paths.into_iter().flatten().chain(files).find(|path| leaves(path)) {
            return Err(format!("its manifest has a file outside it: {}", path.display()));
        }
        Ok(manifest)
    }

    /// Writes it anew, whole or not at all.
    pub(super) fn write(&self, entry: &Path) -> Result<(), Problem> {
        write_manifest(self, &entry.join(FILE))
    }

    /// Sums all files of an entry that is being made.
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

    /// Whether the files are what they were: image and configuration by their sums, modules by their lengths, which is
    /// enough for a disk that was full and a copy that was cut off.
    pub(super) fn check(&self, entry: &Path) -> Result<(), String> {
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

    /// The kernel with full paths, for the spec that asks.
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

    /// Whether this is Debian's kernel that a spec asks for; gives its version, by which the newest is found.
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

    /// Whether a spec names just this kernel, so that no newer one could fit it.
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
