//! Debian's source packages of kernels, such as `linux-source-7.2`.
//!
//! The package holds one file of interest, `usr/src/linux-source-7.2.tar.xz`, whose paths begin with the name of the
//! package; Debian's own patches are applied in it. Source: the packages 6.12 to 7.3.

use super::source::Version;
use crate::archive::{decompressed, unpack_deb};
use crate::{Cache, Options};
use holdup_model::{Event, Observer, Problem};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

/// A source package that lies in the cache; apt has verified it.
pub(super) struct Package {
    /// Name and version: `linux-source-7.2_7.2.12-1~bpo13+1`.
    pub(super) name: String,
    /// The version of the kernel in it.
    pub(super) kernel: Version,
    path: PathBuf,
    sha256: String,
}

impl Package {
    /// What it is, for a build's key.
    pub(super) fn state(&self) -> String {
        format!("package {} sha256 {}", self.name, self.sha256)
    }

    /// What it is, for people.
    pub(super) fn words(&self) -> String {
        self.name.replacen('_', " ", 1)
    }
}

/// The name of the package that may hold a version (`7.2` and `7.2.12` are in `linux-source-7.2`).
///
/// # Errors
/// When the text is no version.
fn package_name(version: &str) -> Result<String, Problem> {
    let parsed = Version::parse(version).filter(|_| version.chars().all(|c| c.is_ascii_digit() || c == '.'));
    let parsed = parsed.ok_or_else(|| {
        Problem::usage(format!("kernel source `debian:{}`", version.escape_debug()), "it is no version of a kernel")
            .hint("such as debian:7.2 or debian:7.2.12")
    })?;
    Ok(format!("linux-source-{}.{}", parsed.major, parsed.minor))
}

/// The newest package whose version is `version` or begins with it.
///
/// # Errors
/// When there is none to be had.
pub(super) fn package(
    version: &str,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Package, Problem> {
    let name = package_name(version)?;
    let _ = (options, observer);
    let mut found: Option<(String, PathBuf)> = None;
    for entry in std::fs::read_dir(cache.root().join("packages")).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if let Some(rest) = file.strip_prefix(&format!("{name}_")) {
            found = Some((rest.replace("_all.deb", ""), entry.path()));
        }
    }
    let (full, path) = found.ok_or_else(|| Problem::host(format!("package {name}"), "none"))?;
    let upstream = full.split('-').next().unwrap_or(&full);
    let kernel = Version::parse(upstream).ok_or_else(|| Problem::host(format!("package {name}"), "odd"))?;
    let bytes = std::fs::read(&path).map_err(|e| Problem::host(&name, e.to_string()))?;
    Ok(Package { name: format!("{name}_{full}"), kernel, path, sha256: super::key::hex_digest(&bytes) })
}

/// Unpacks the source to `tree`, unless it was unpacked there before.
///
/// # Errors
/// When the package is damaged or holds no source, or files cannot be written.
pub(super) fn unpack(
    package: &Package,
    tree: &Path,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<(), Problem> {
    if tree.is_dir() {
        return Ok(());
    }
    observer.event(Event::Step(&format!("unpacking {}", package.words())));
    let failed = |e: io::Error| Problem::host(format!("source {}", tree.display()), e.to_string());
    // A name of its own until it is whole.
    let new = tree.with_extension("new");
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(failed)?;
    }
    std::fs::create_dir_all(&new).map_err(failed)?;
    let is_source = |path: &str| path.starts_with("usr/src/linux-source-") && path.contains(".tar");
    let (_, unpacked) = unpack_deb(&package.path, &new, &is_source)?;
    let [tar] = unpacked.files.as_slice() else {
        let why = format!("it holds {} source archives below usr/src", unpacked.files.len());
        return Err(Problem::host(format!("package {}", package.words()), why));
    };
    let tar = new.join(tar);
    options.check("unpacking a kernel's source")?;
    let sources = new.join("tree");
    unpack_tar(&tar, &sources, options)?;
    std::fs::remove_file(&tar).map_err(failed)?;
    std::fs::rename(&sources, tree).map_err(failed)?;
    std::fs::remove_dir_all(&new).map_err(failed)
}

/// Unpacks a compressed tar without the first part of its paths. The folder is new, and nothing else writes to it.
fn unpack_tar(path: &Path, into: &Path, options: &Options) -> Result<(), Problem> {
    let what = || format!("source archive {}", path.file_name().unwrap_or_default().to_string_lossy());
    let damaged = |e: io::Error| Problem::host(what(), e.to_string());
    let file = File::open(path).map_err(damaged)?;
    let mut archive = tar::Archive::new(decompressed(file).map_err(damaged)?);
    let mut links = Vec::new();
    for entry in archive.entries().map_err(damaged)? {
        options.check("unpacking a kernel's source")?;
        let mut entry = entry.map_err(damaged)?;
        let name = entry.path().map_err(damaged)?.into_owned();
        let below: PathBuf = name.components().filter(|part| *part != Component::CurDir).skip(1).collect();
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            let why = format!("`{}` is no path below the source", name.display());
            return Err(Problem::host(what(), why));
        }
        let target = into.join(&below);
        match entry.header().entry_type() {
            tar::EntryType::Directory => std::fs::create_dir_all(&target).map_err(damaged)?,
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                if let Some(folder) = target.parent() {
                    std::fs::create_dir_all(folder).map_err(damaged)?;
                }
                entry.unpack(&target).map_err(damaged)?;
            }
            tar::EntryType::Symlink => {
                links.push((target, entry.link_name().map_err(damaged)?.map(|l| l.into_owned())))
            }
            // A pax header of the whole archive: git puts the commit there.
            _ => {}
        }
    }
    // Links come last, so that no file is written through one.
    for (target, to) in links {
        let to = to.unwrap_or_default();
        std::os::unix::fs::symlink(to, target).map_err(damaged)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_its_package() {
        assert_eq!(package_name("7.2").unwrap(), "linux-source-7.2");
        assert_eq!(package_name("6.12.95").unwrap(), "linux-source-6.12");
        for text in ["", "7", "trixie", "7.2/cloud", "7.2;x", "../7.2"] {
            assert!(package_name(text).is_err(), "{text}");
        }
    }

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            // Written as bytes, because the crate refuses the paths that are of interest here.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            builder.append(&header, text.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn a_source_archive_is_unpacked_without_its_first_folder_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let (tar, into) = (folder.path().join("s.tar"), folder.path().join("tree"));
        std::fs::write(&tar, archive(&[("linux-source-7.2/kernel/a.c", "a"), ("./linux-source-7.2/Makefile", "m")]))
            .unwrap();
        unpack_tar(&tar, &into, &Options::default()).unwrap();
        assert_eq!(std::fs::read_to_string(into.join("kernel/a.c")).unwrap(), "a");
        assert_eq!(std::fs::read_to_string(into.join("Makefile")).unwrap(), "m");
        std::fs::write(&tar, archive(&[("linux/../../escaped", "x")])).unwrap();
        assert!(unpack_tar(&tar, &into, &Options::default()).is_err());
        assert!(!folder.path().join("escaped").exists());
        std::fs::write(&tar, &archive(&[("linux/a", "a")])[..300]).unwrap();
        assert!(unpack_tar(&tar, &into, &Options::default()).is_err());
    }
}
