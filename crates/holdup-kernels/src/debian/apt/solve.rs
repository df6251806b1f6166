//! Packages with their dependencies, as apt resolves them in the index of few suites.

use super::{Apt, Found, IndexEntry, Kind, place, problem};
use crate::Options;
use crate::files::{check_room, human_size, sha256};
use holdup_model::{Event, Observer, Problem};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Disk space for packages and their unpacked files, at most, by the size of the packages.
const ROOM_FACTOR: u64 = 6;

#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    /// Packages by name, or `name=version`.
    pub(crate) packages: &'a [String],
    /// Packages that apt takes for installed, so that it chooses neither them nor their own dependencies.
    pub(crate) left_out: &'a [String],
    /// The source package whose versions are preferred in every suite.
    pub(crate) source: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Solved {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl<'a> Apt<'a> {
    /// apt with the index of the packages or the sources of these suites only, in its own folder. The cache's lock must be held.
    pub(crate) fn alone(
        kind: Kind,
        root: &Path,
        options: &'a Options,
        scratch: &'a Path,
        suites: &[&str],
    ) -> Result<Self, Problem> {
        let sources = if kind == Kind::Sources { "-sources" } else { "" };
        let name = format!("{sources}-{}", suites.join("-"));
        let apt = Apt::with_suites(kind, root, options, scratch, &name, suites)?;
        // Uncompressed, an index is six times as large; apt reads both.
        let compressed = apt.folder.join("etc/apt.conf.d/compressed.conf");
        fs::write(&compressed, "Acquire::GzipIndexes \"true\";\n").map_err(|e| problem("file", &compressed, &e))?;
        Ok(apt)
    }

    /// The packages to install for `request`, without recommendations.
    ///
    /// # Errors
    /// When a dependency is missing; with apt's messages.
    pub(crate) fn solve(&self, request: &Request<'_>, observer: &mut dyn Observer) -> Result<Vec<Solved>, Problem> {
        let files = [
            ("state/status", status(request.left_out, self.architecture)),
            ("etc/preferences", format!("Package: src:{}\nPin: version *\nPin-Priority: 990\n", request.source)),
        ];
        for (name, text) in files {
            let path = self.folder.join(name);
            fs::write(&path, text).map_err(|e| problem("file", &path, &e))?;
        }
        let mut install = vec!["install", "-qq", "--yes", "--print-uris", "--no-install-recommends"];
        install.extend(request.packages.iter().map(String::as_str));
        let said = self.run("apt-get", &install, observer)?;
        let names: Vec<String> = said.text.lines().filter_map(name_in).map(exactly).collect();
        if !said.is_ok || names.is_empty() {
            let what = format!("packages {}", request.packages.join(", "));
            return Err(Problem::host(what, said.reason("apt chose nothing")));
        }
        // `install` prints the checksum that the archive lists first, which need not be SHA-256.
        let mut download = vec!["download", "--print-uris"];
        download.extend(names.iter().map(String::as_str));
        let said = self.run("apt-get", &download, observer)?;
        let places: BTreeMap<(String, String), IndexEntry> =
            said.text.lines().filter_map(|line| Some((name_in(line)?, place(line)?))).collect();
        let solved: Vec<Solved> = places
            .into_iter()
            .map(|((package, version), place)| Solved { package, version, bytes: place.bytes, sha256: place.sha256 })
            .collect();
        match solved.len() == names.len() {
            true => Ok(solved),
            false => {
                let why = said.reason("the index has no SHA-256 of some of them");
                Err(Problem::host(format!("{} packages", names.len()), why))
            }
        }
    }

    /// Downloads packages into the scratch folder and verifies them; returns the files in the same order.
    ///
    /// # Errors
    /// When the disk is too full, or a package cannot be fetched or does not match the signed index.
    pub(crate) fn download_all(
        &self,
        solved: &[Solved],
        for_what: &str,
        observer: &mut dyn Observer,
    ) -> Result<Vec<PathBuf>, Problem> {
        let bytes = solved.iter().map(|one| one.bytes).sum::<u64>();
        check_room(self.scratch, bytes.saturating_mul(ROOM_FACTOR), for_what)?;
        let size = human_size(bytes);
        let packages = if solved.len() > 1 { format!(": {} packages", solved.len()) } else { String::new() };
        observer.event(Event::Step(&format!("fetching {for_what}{packages} ({size})")));
        let folder = self.scratch.join("packages");
        fs::create_dir_all(&folder).map_err(|e| problem("folder", &folder, &e))?;
        let names: Vec<String> = solved.iter().map(|one| exactly((one.package.clone(), one.version.clone()))).collect();
        let mut download = vec!["download", "-q"];
        download.extend(names.iter().map(String::as_str));
        let said = self.run_in(&folder, "apt-get", &download, Some((&folder, &size)), observer)?;
        if !said.is_ok {
            return Err(Problem::host(for_what, said.reason("apt did not fetch it")));
        }
        let there = fs::read_dir(&folder).map_err(|e| problem("folder", &folder, &e))?;
        let mut files: BTreeMap<(String, String), PathBuf> = there
            .filter_map(Result::ok)
            .filter_map(|entry| Some((name_of_file(&entry.file_name().to_string_lossy())?, entry.path())))
            .collect();
        solved.iter().map(|one| verified(one, files.remove(&(one.package.clone(), one.version.clone())))).collect()
    }

    /// Downloads the files of a source package into `folder`; apt compares them with the sums of the signed index.
    ///
    /// # Errors
    /// When they cannot be fetched or do not match; with apt's messages.
    pub(crate) fn download_source(
        &self,
        found: &Found,
        folder: &Path,
        observer: &mut dyn Observer,
    ) -> Result<(), Problem> {
        let name = format!("{}={}", found.package, found.version);
        observer.event(Event::Step(&format!("fetching the source of {} {}", found.package, found.version)));
        fs::create_dir_all(folder).map_err(|e| problem("folder", folder, &e))?;
        let arguments = ["source", "-qq", "--download-only", "--only-source", &name];
        let watched = Some((folder, found.package.as_str()));
        let said = self.run_in(folder, "apt-get", &arguments, watched, observer)?;
        match said.is_ok {
            true => Ok(()),
            false => Err(Problem::host(format!("source package {name}"), said.reason("apt did not fetch it"))),
        }
    }

    /// Removes files that apt recreates from the index.
    pub(crate) fn trim(&self) {
        for name in ["cache/pkgcache.bin", "cache/srcpkgcache.bin"] {
            let _was_absent = fs::remove_file(self.folder.join(name));
        }
    }
}

fn verified(one: &Solved, file: Option<PathBuf>) -> Result<PathBuf, Problem> {
    let what = format!("package {} {}", one.package, one.version);
    let Some(file) = file else { return Err(Problem::host(what, "apt did not fetch it")) };
    let is = sha256(&file).map_err(|e| problem("package", &file, &e))?;
    if is != one.sha256 {
        let why = format!("its SHA-256 is {is}, and the signed index says {}", one.sha256);
        return Err(Problem::host(what, why).hint("fetch it again"));
    }
    Ok(file)
}

/// A dpkg status file with packages installed at a version above every requirement.
fn status(installed: &[String], architecture: &str) -> String {
    let mut text = String::new();
    for package in installed {
        let _infallible = writeln!(
            text,
            "Package: {package}\nStatus: install ok installed\nArchitecture: {architecture}\n\
             Multi-Arch: foreign\nVersion: 999:9999\nMaintainer: none\nDescription: left out\n"
        );
    }
    text
}

fn exactly((package, version): (String, String)) -> String {
    format!("{package}={version}")
}

/// Name and version in a line `'URI' FILE BYTES SUM`.
fn name_in(line: &str) -> Option<(String, String)> {
    let (_, rest) = line.strip_prefix('\'')?.split_once('\'')?;
    name_of_file(rest.split_whitespace().next()?)
}

/// Name and version in `NAME_VERSION_ARCHITECTURE.deb`, where apt escapes the epoch's colon.
fn name_of_file(file: &str) -> Option<(String, String)> {
    let mut parts = file.strip_suffix(".deb")?.split('_');
    let (name, version, _) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then(|| (name.to_owned(), version.replace("%3a", ":")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_read_from_what_apt_prints() {
        let line = "'http://mirror.example/debian/pool/main/z/zlib/zlib1g_1.3%2breally-1%2bb1_amd64.deb' \
                    zlib1g_1%3a1.3+really-1+b1_amd64.deb 88892 SHA256:00";
        assert_eq!(name_in(line).map(exactly).unwrap(), "zlib1g=1:1.3+really-1+b1");
        for other in
            ["Reading package lists...", "'x", "'x' y", "'x' a_1.deb 1 SHA256:00", "'x' a_1_b_c.deb 1 SHA256:0"]
        {
            assert_eq!(name_in(other), None, "{other}");
        }
    }

    #[test]
    fn packages_left_out_count_as_installed() {
        let text = status(&["perl".to_owned(), "libllvm19".to_owned()], "arm64");
        let stanzas: Vec<&str> = text.trim_end().split("\n\n").collect();
        assert_eq!(stanzas.len(), 2);
        assert!(stanzas[1].starts_with("Package: libllvm19\nStatus: install ok installed\nArchitecture: arm64\n"));
        assert!(status(&[], "amd64").is_empty());
    }

    #[test]
    fn a_package_that_differs_from_the_index_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a_1_amd64.deb");
        fs::write(&file, "cut off").unwrap();
        let mut one = Solved { package: "a".into(), version: "1".into(), bytes: 7, sha256: sha256(&file).unwrap() };
        assert_eq!(verified(&one, Some(file.clone())).unwrap(), file);
        one.sha256.replace_range(..1, "z");
        assert!(verified(&one, Some(file)).unwrap_err().why.contains("signed index says z"));
        assert!(verified(&one, None).unwrap_err().what.contains("package a 1"));
    }
}
