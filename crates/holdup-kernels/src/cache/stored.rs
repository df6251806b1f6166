//! Entries of the cache, each a folder with a manifest.

use crate::files::{problem, read_manifest};
use holdup_model::Problem;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of a manifest in its entry.
pub(super) const FILE: &str = "manifest.json";

pub(super) trait ManifestFile: DeserializeOwned {
    /// The schema that is read.
    const SCHEMA: &'static str;
    fn schema(&self) -> &String;
    fn paths(&self) -> Vec<&PathBuf>;
    /// Reads the manifest of an entry; the error says what is wrong with it.
    fn read(entry: &Path) -> Result<Self, String> {
        read_manifest(&entry.join(FILE), Self::SCHEMA, |manifest: &Self| manifest.schema(), Self::paths)
    }
    /// Compares the files of the entry with the manifest.
    fn check(&self, entry: &Path) -> Result<(), String>;
}

/// An entry as it was found on disk.
pub(super) struct Stored<M> {
    pub(super) folder: PathBuf,
    pub(super) manifest: M,
}

/// Folders whose manifest cannot be read, each with the reason.
pub(super) type Damaged = Vec<(PathBuf, String)>;

pub(super) enum Checked<M> {
    Whole(Stored<M>),
    /// Another process has removed it.
    Gone,
    Damaged(Stored<M>, String),
}

impl<M: ManifestFile> Stored<M> {
    /// Checks an entry's files. If they do not match, the manifest is read again: another run may have replaced the entry.
    pub(super) fn checked(mut self) -> Checked<M> {
        let Err(why) = self.manifest.check(&self.folder) else { return Checked::Whole(self) };
        let again = M::read(&self.folder).map_err(|_| why).and_then(|manifest| {
            self.manifest = manifest;
            self.manifest.check(&self.folder)
        });
        match again {
            Ok(()) => Checked::Whole(self),
            Err(_) if !self.folder.exists() => Checked::Gone,
            Err(why) => Checked::Damaged(self, why),
        }
    }
}

/// All entries below a folder, in no order.
pub(super) fn scan<M: ManifestFile>(folder: &Path) -> Result<(Vec<Stored<M>>, Damaged), Problem> {
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    let all = match fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok((whole, damaged)),
        all => all.map_err(|e| problem("cache", folder, &e))?,
    };
    for entry in all {
        let folder = entry.map_err(|e| problem("cache", folder, &e))?.path();
        match M::read(&folder) {
            Ok(manifest) => whole.push(Stored { folder, manifest }),
            // Another run may have removed it since.
            Err(_) if !folder.exists() => {}
            Err(why) => damaged.push((folder, why)),
        }
    }
    Ok((whole, damaged))
}
