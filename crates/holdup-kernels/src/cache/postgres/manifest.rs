//! The manifest beside each PostgreSQL: its packages, and the lengths of its files.

use crate::cache::stored::{FILE, ManifestFile};
use crate::files::{below, write_manifest};
use holdup_model::Problem;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "holdup.postgres/1";

/// The folder of an entry into which its packages were unpacked.
pub(super) const ROOT: &str = "root";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    schema: String,
    pub(super) major: u32,
    /// The version of the server's package.
    pub(super) version: String,
    /// As `uname -m` prints it.
    pub(super) arch: String,
    /// The suites that it was chosen from; the last one has the server.
    pub(super) suites: Vec<String>,
    pub(super) packages: Vec<Package>,
    /// Files and links below the root.
    files: Vec<Length>,
    pub(super) fetched_unix_ns: u64,
    /// When the archive last had no newer version.
    pub(super) looked_up_unix_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sha256: String,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Length {
    path: PathBuf,
    bytes: u64,
}

impl Manifest {
    pub(super) fn new(major: u32, version: &str, arch: &str, suites: &[&str], packages: Vec<Package>) -> Self {
        let now = crate::files::now_unix_ns();
        Manifest {
            schema: SCHEMA.to_owned(),
            major,
            version: version.to_owned(),
            arch: arch.to_owned(),
            suites: suites.iter().map(|suite| (*suite).to_owned()).collect(),
            packages,
            files: Vec::new(),
            fetched_unix_ns: now,
            looked_up_unix_ns: now,
        }
    }

    pub(super) fn write(&self, entry: &Path) -> Result<(), Problem> {
        write_manifest(self, &entry.join(FILE))
    }

    /// Records the files of a new entry.
    pub(super) fn measure(&mut self, entry: &Path) -> io::Result<()> {
        let root = entry.join(ROOT);
        self.files.clear();
        for path in below(&root)? {
            let bytes = fs::symlink_metadata(root.join(&path))?.len();
            self.files.push(Length { path, bytes });
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

impl ManifestFile for Manifest {
    const SCHEMA: &'static str = SCHEMA;

    fn schema(&self) -> &String {
        &self.schema
    }

    fn paths(&self) -> Vec<&PathBuf> {
        self.files.iter().map(|file| &file.path).collect()
    }

    /// Compares the lengths of all files: enough for a full disk and a truncated copy.
    fn check(&self, entry: &Path) -> Result<(), String> {
        if self.files.is_empty() {
            return Err("its manifest has no files".to_owned());
        }
        for file in &self.files {
            let metadata = fs::symlink_metadata(entry.join(ROOT).join(&file.path));
            let is = metadata.map_err(|e| format!("{}: {e}", file.path.display()))?.len();
            if is != file.bytes {
                return Err(format!("{} has {is} bytes and had {}", file.path.display(), file.bytes));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_and_missing_files_are_found() {
        let entry = tempfile::tempdir().unwrap();
        let root = entry.path().join(ROOT);
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/dash"), "0123").unwrap();
        std::os::unix::fs::symlink("dash", root.join("usr/bin/sh")).unwrap();
        let package = Package { name: "dash".into(), version: "1".into(), sha256: "0".into(), bytes: 3 };
        let mut manifest = Manifest::new(17, "17.1-1", "x86_64", &["trixie"], vec![package]);
        assert!(manifest.check(entry.path()).is_err());
        manifest.measure(entry.path()).unwrap();
        manifest.write(entry.path()).unwrap();
        let read = Manifest::read(entry.path()).unwrap();
        read.check(entry.path()).unwrap();
        assert_eq!((read.bytes(), read.packages.len()), (8, 1));
        fs::write(root.join("usr/bin/dash"), "012").unwrap();
        assert_eq!(read.check(entry.path()).unwrap_err(), "usr/bin/dash has 3 bytes and had 4");
        fs::remove_file(root.join("usr/bin/sh")).unwrap();
        fs::write(root.join("usr/bin/dash"), "0123").unwrap();
        assert!(read.check(entry.path()).unwrap_err().starts_with("usr/bin/sh: "));
    }

    #[test]
    fn a_manifest_that_is_none_is_an_error() {
        let entry = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::new(17, "17.1-1", "x86_64", &["trixie"], Vec::new());
        manifest.files.push(Length { path: "../../etc/passwd".into(), bytes: 1 });
        manifest.write(entry.path()).unwrap();
        assert!(Manifest::read(entry.path()).unwrap_err().contains("outside"));
        for text in ["", "{", "\u{0}", "[]", r#"{"schema":"holdup.postgres/1"}"#] {
            fs::write(entry.path().join(FILE), text).unwrap();
            assert!(Manifest::read(entry.path()).is_err(), "{text}");
        }
        fs::write(entry.path().join(FILE), [0xff, 0xfe]).unwrap();
        assert!(Manifest::read(entry.path()).is_err());
    }
}
