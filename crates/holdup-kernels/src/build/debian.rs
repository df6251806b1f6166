//! Debian's kernel source packages, such as `linux-source-7.2`.
//!
//! The package has one relevant file, `usr/src/linux-source-7.2.tar.xz`, whose paths begin with the package's name and which
//! includes Debian's patches. Source: the packages 6.12 to 7.3.

use super::source::Version;
use crate::archive::{read_deb, reason, unpack_deb, unpack_tar};
use crate::files::{now_unix_ns, problem, sha256};
use crate::{Cache, Options};
use holdup_model::{Event, Observer, Problem, ProblemKind};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The newest package is looked up again after this time, ns.
const BELIEVED_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A cached source package, verified by apt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Package {
    /// `linux-source-7.2`.
    name: String,
    /// `7.2.12-1~bpo13+1`.
    version: String,
    path: PathBuf,
    sha256: String,
    /// The last lookup, since 1970.
    asked_unix_ns: u64,
}

impl Package {
    /// `linux-source-7.2_7.2.12-1~bpo13+1`.
    pub(super) fn id(&self) -> String {
        format!("{}_{}", self.name, self.version)
    }

    pub(super) fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// Its contribution to a build's key.
    pub(super) fn state(&self) -> String {
        format!("package {} sha256 {}", self.title(), self.sha256)
    }

    /// The kernel's version: the part before Debian's revision.
    pub(super) fn kernel(&self) -> Result<Version, Problem> {
        let upstream = self.version.rsplit_once('-').map_or(self.version.as_str(), |(upstream, _)| upstream);
        Version::parse(upstream)
            .ok_or_else(|| Problem::host(format!("package {}", self.title()), "its version is not a kernel's"))
    }

    /// True if it has the requested version: `7.2` matches 7.2.12, `7.2.1` does not.
    fn fits(&self, version: &str) -> bool {
        let rest = self.kernel().ok().and_then(|kernel| kernel.text.strip_prefix(version).map(str::to_owned));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// The package for a version (`7.2` and `7.2.12` are in `linux-source-7.2`).
fn package_name(version: &str) -> Result<String, Problem> {
    let parsed = Version::parse(version).filter(|_| version.chars().all(|c| c.is_ascii_digit() || c == '.'));
    let parsed = parsed.ok_or_else(|| {
        Problem::usage(format!("kernel source `debian:{}`", version.escape_debug()), "not a kernel version")
            .hint("such as debian:7.2 or debian:7.2.12")
    })?;
    Ok(format!("linux-source-{}.{}", parsed.major, parsed.minor))
}

/// The newest package with this version or version prefix.
///
/// The archive is asked at most once a day, and never for a complete version in the cache; if it cannot be reached, the cached
/// package is used, with a note.
pub(super) fn package(
    version: &str,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Package, Problem> {
    let name = package_name(version)?;
    let note = cache.root().join("build").join(format!("{name}.newest"));
    let known = read_note(&note).filter(|known| known.fits(version) && known.path.is_file());
    if let Some(known) = &known {
        let is_exact = known.kernel()?.text == version;
        let age_ns = now_unix_ns().saturating_sub(known.asked_unix_ns);
        if options.offline || is_exact || age_ns < BELIEVED_NS {
            return Ok(known.clone());
        }
    }
    let path = match (cache.package(&name, None, options, observer), known) {
        (Ok(path), _) => path,
        (Err(problem), Some(known)) if problem.kind != ProblemKind::Interrupted => {
            let text = format!("{} is used, a newer version was not looked up: {problem}", known.title());
            observer.event(Event::Note(&text));
            return Ok(known);
        }
        (Err(problem), _) => return Err(problem),
    };
    let facts = read_deb(&path)?;
    let sha256 = sha256(&path).map_err(|e| problem("package", &path, &e))?;
    let found = Package { name, version: facts.version, path, sha256, asked_unix_ns: now_unix_ns() };
    if !found.fits(version) {
        let why = format!("the newest is {}", found.title());
        return Err(Problem::host(format!("kernel source `debian:{version}`"), why));
    }
    write_note(&note, &found)?;
    Ok(found)
}

fn read_note(path: &Path) -> Option<Package> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn write_note(path: &Path, package: &Package) -> Result<(), Problem> {
    let failed = |e: io::Error| Problem::host(format!("cache {}", path.display()), e.to_string());
    let text = serde_json::to_vec(package).map_err(|e| failed(e.into()))?;
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    // Renamed when complete, so that no process reads half of it.
    let new = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).map_err(failed)
}

/// Unpacks the source to `tree`, if that does not exist.
///
/// # Errors
/// When the package is damaged or has no source, or files cannot be written.
pub(super) fn unpack(
    package: &Package,
    tree: &Path,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<(), Problem> {
    if tree.is_dir() {
        return Ok(());
    }
    observer.event(Event::Step(&format!("unpacking {}", package.title())));
    let failed = |e: io::Error| Problem::host(format!("source {}", tree.display()), e.to_string());
    // Renamed when complete.
    let new = tree.with_extension("new");
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(failed)?;
    }
    std::fs::create_dir_all(&new).map_err(failed)?;
    let is_source = |path: &str| path.starts_with("usr/src/linux-source-") && path.contains(".tar");
    let (_, unpacked) = unpack_deb(&package.path, &new, &is_source)?;
    let [tar] = unpacked.files.as_slice() else {
        let why = format!("it has {} source archives below usr/src", unpacked.files.len());
        return Err(Problem::host(format!("package {}", package.title()), why));
    };
    let tar = new.join(tar);
    let sources = unpack_source(&tar, &new.join("unpacked"), options, observer)?;
    std::fs::remove_file(&tar).map_err(failed)?;
    std::fs::rename(&sources, tree).map_err(failed)?;
    std::fs::remove_dir_all(&new).map_err(failed)
}

/// Unpacks a source archive and returns its only top-level folder.
fn unpack_source(path: &Path, into: &Path, options: &Options, observer: &mut dyn Observer) -> Result<PathBuf, Problem> {
    let what = || format!("source archive {}", path.file_name().unwrap_or_default().to_string_lossy());
    let damaged = |e: io::Error| Problem::host(what(), reason(&e));
    let mut file = File::open(path).map_err(damaged)?;
    std::fs::create_dir_all(into).map_err(damaged)?;
    // After an interrupt nothing more is written, and the rest is skipped quickly.
    let unpacked = unpack_tar(&mut file, into, &|_| options.check("").is_ok()).map_err(damaged)?;
    options.check("unpacking a kernel's source")?;
    if !unpacked.left_out.is_empty() {
        observer.event(Event::Note(&format!("{}: left out: {}", what(), unpacked.left_out.join("; "))));
    }
    let mut tops: Vec<PathBuf> =
        std::fs::read_dir(into).map_err(damaged)?.flatten().map(|entry| entry.path()).collect();
    match (tops.pop(), tops.is_empty()) {
        (Some(top), true) if top.is_dir() => Ok(top),
        _ => Err(Problem::host(what(), "it does not have exactly one folder")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::progress::Silent;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_version_names_its_package() {
        assert_eq!(package_name("7.2").unwrap(), "linux-source-7.2");
        assert_eq!(package_name("6.12.95").unwrap(), "linux-source-6.12");
        for text in ["", "7", "trixie", "7.2/cloud", "7.2;x", "../7.2"] {
            assert!(package_name(text).is_err(), "{text}");
        }
    }

    fn known(version: &str) -> Package {
        let name = "linux-source-7.2".to_owned();
        let here = PathBuf::from("/dev/null");
        Package { name, version: version.to_owned(), path: here, sha256: "s".to_owned(), asked_unix_ns: 1 }
    }

    #[test]
    fn a_version_matches_whole_or_up_to_a_dot() {
        let package = known("7.2.12-1~bpo13+1");
        assert_eq!(package.kernel().unwrap().text, "7.2.12");
        for (version, fits) in [("7.2", true), ("7.2.12", true), ("7.2.1", false), ("7", true), ("7.2.12.1", false)] {
            assert_eq!(package.fits(version), fits, "{version}");
        }
        assert!(known("odd").kernel().is_err() && !known("odd").fits("7.2"));
    }

    #[test]
    fn offline_only_cached_packages_are_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let options = Options { offline: true, ..Options::default() };
        assert!(package("7.2", &cache, &options, &mut Silent).is_err());
        let file = folder.path().join("a.deb");
        std::fs::write(&file, "").unwrap();
        let here = Package { path: file, ..known("7.2.12-1") };
        write_note(&folder.path().join("build/linux-source-7.2.newest"), &here).unwrap();
        assert_eq!(package("7.2", &cache, &options, &mut Silent).unwrap(), here);
        assert_eq!(package("7.2.12", &cache, &options, &mut Silent).unwrap(), here);
        assert!(package("7.2.13", &cache, &options, &mut Silent).is_err());
        std::fs::write(folder.path().join("build/linux-source-7.2.newest"), "{").unwrap();
        assert!(package("7.2", &cache, &options, &mut Silent).is_err());
    }

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let output = std::process::Command::new("tar").arg("-C").arg(folder.path()).args(["-c", "."]).output().unwrap();
        output.stdout
    }

    #[test]
    fn a_source_archive_has_one_folder_and_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (tar, into) = (folder.path().join("s.tar"), folder.path().join("new").join("into"));
        let unpack = |bytes: &[u8]| {
            let _absent_at_first = std::fs::remove_dir_all(&into);
            std::fs::write(&tar, bytes).unwrap();
            unpack_source(&tar, &into, &Options::default(), &mut Silent)
        };
        let whole = archive(&[("linux-source-7.2/kernel/a.c", "a"), ("linux-source-7.2/Makefile", "m")]);
        let top = unpack(&whole).unwrap();
        assert_eq!(top, into.join("linux-source-7.2"));
        assert_eq!(std::fs::read_to_string(top.join("kernel/a.c")).unwrap(), "a");
        assert!(unpack(&whole[..1024]).is_err());
        assert!(unpack(&archive(&[("a/b", "x"), ("c/d", "y")])).is_err());
        assert!(unpack(&archive(&[("a", "x")])).is_err());
        let ended = Options { cancel: Some(Arc::new(AtomicBool::new(true))), ..Options::default() };
        std::fs::write(&tar, &whole).unwrap();
        let problem = unpack_source(&tar, &folder.path().join("other"), &ended, &mut Silent).unwrap_err();
        assert_eq!(problem.kind, ProblemKind::Interrupted);
    }
}
