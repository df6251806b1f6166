//! What lies beside each PostgreSQL: its packages, and the lengths of its files.

use crate::files::{below, write_manifest};
use holdup_model::Problem;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

const SCHEMA: &str = "holdup.postgres/1";

/// The file of a manifest in its entry.
const FILE: &str = "manifest.json";

/// The folder of an entry that is the root of what was unpacked.
pub(super) const ROOT: &str = "root";

/// One entry, as its manifest has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    schema: String,
    pub(super) major: u32,
    /// The version of the server's package.
    pub(super) version: String,
    /// The machine, as `uname -m` says it.
    pub(super) arch: String,
    /// The suites that it was chosen from; the last one has the server.
    pub(super) suites: Vec<String>,
    pub(super) packages: Vec<Package>,
    /// Files and links below the root.
    files: Vec<Length>,
    pub(super) fetched_unix_ns: u64,
    /// When the archive said last that there is no newer one.
    pub(super) looked_up_unix_ns: u64,
}

/// A package that was unpacked.
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

    pub(super) fn read(entry: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(entry.join(FILE)).map_err(|e| format!("its manifest: {e}"))?;
        let manifest: Manifest = serde_json::from_str(&text).map_err(|e| format!("its manifest: {e}"))?;
        if manifest.schema != SCHEMA {
            return Err(format!("its manifest is of the schema `{}`, not {SCHEMA}", manifest.schema.escape_debug()));
        }
        let stays = |file: &&Length| !file.path.components().all(|part| matches!(part, Component::Normal(_)));
        match manifest.files.iter().find(stays) {
            Some(file) => Err(format!("its manifest has a file outside it: {}", file.path.display())),
            None => Ok(manifest),
        }
    }

    /// Writes it anew, whole or not at all.
    pub(super) fn write(&self, entry: &Path) -> Result<(), Problem> {
        write_manifest(self, &entry.join(FILE))
    }

    /// Takes down all files of an entry that is being made.
    pub(super) fn measure(&mut self, entry: &Path) -> io::Result<()> {
        let root = entry.join(ROOT);
        self.files.clear();
        for path in below(&root)? {
            let bytes = fs::symlink_metadata(root.join(&path))?.len();
            self.files.push(Length { path, bytes });
        }
        Ok(())
    }

    /// Whether all files are there in their lengths, which is enough for a disk that was full and a copy that was cut
    /// off.
    pub(super) fn check(&self, entry: &Path) -> Result<(), String> {
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

    /// What its files take.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_or_gone_is_seen() {
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
