//! Debian's kernels and their packages.
//!
//! Up to 6.18 one package, `linux-image-RELEASE`, contains everything. From 6.19 on it is empty; the image is in
//! `linux-binary-RELEASE`, modules in `linux-modules-RELEASE`, the configuration in `linux-base-RELEASE`. The index keeps old
//! images and drops the other two.

use super::apt::{Apt, Found};
use super::version::{compare, distance, fits, kernel_name, upstream};
use crate::archive::unpack_deb;
use crate::{DebianSpec, Options, Wanted};
use holdup_model::{Event, Observer, Problem};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const NEAREST: usize = 12;

/// A kernel in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    /// `7.0.13+deb13-cloud-amd64`.
    pub release: String,
    /// The release without flavour and architecture: `7.0.13+deb13`.
    pub abi: String,
    /// `None` for the default flavour.
    pub flavour: Option<String>,
    /// The package's version: `7.0.13-1~bpo13+1`.
    pub version: String,
    pub suite: String,
    /// The package with the image.
    pub package: String,
}

impl Available {
    /// The spec of exactly this kernel.
    pub fn spec(&self) -> String {
        let flavour = self.flavour.as_ref().map(|flavour| format!("/{flavour}")).unwrap_or_default();
        format!("debian:{}{flavour}", upstream(&self.version))
    }
}

/// All kernels in the index, newest first.
pub(crate) fn available(
    apt: &Apt<'_>,
    architecture: &str,
    observer: &mut dyn Observer,
) -> Result<Vec<Available>, Problem> {
    let mut packages = BTreeMap::new();
    // An image package beside a binary package is empty, so the second prefix overwrites the first.
    for begin in ["linux-image-", "linux-binary-"] {
        for name in apt.names(begin, observer)? {
            if let Some(kernel) = kernel_name(&name, architecture) {
                packages.insert(kernel.release.to_owned(), name.clone());
            }
        }
    }
    let names: Vec<String> = packages.into_values().collect();
    let mut all: Vec<Available> = apt
        .versions(&names, observer)?
        .into_iter()
        .filter_map(|found| {
            let kernel = kernel_name(&found.package, architecture)?;
            Some(Available {
                release: kernel.release.to_owned(),
                abi: kernel.abi.clone(),
                flavour: kernel.flavour.clone(),
                version: found.version.clone(),
                suite: found.suite.clone(),
                package: found.package.clone(),
            })
        })
        .collect();
    all.sort_by(|a, b| compare(&b.version, &a.version).then_with(|| a.release.cmp(&b.release)));
    Ok(all)
}

/// The newest match.
///
/// # Errors
/// When nothing matches; the hint lists the nearest versions.
pub(crate) fn choose<'a>(
    all: &'a [Available],
    spec: &DebianSpec,
    architecture: &str,
) -> Result<&'a Available, Problem> {
    let flavour = spec.flavour.as_deref().filter(|flavour| *flavour != architecture);
    let of_flavour: Vec<&Available> = all.iter().filter(|kernel| kernel.flavour.as_deref() == flavour).collect();
    let fitting = of_flavour.iter().find(|kernel| match &spec.wanted {
        Wanted::Version(wanted) => fits(wanted, &kernel.version, &kernel.abi),
        Wanted::Suite(suite) => kernel.suite == *suite,
    });
    if let Some(kernel) = fitting {
        return Ok(kernel);
    }
    let what = format!("kernel `debian:{spec}`");
    if of_flavour.is_empty() {
        let flavours: BTreeSet<&str> = all.iter().filter_map(|kernel| kernel.flavour.as_deref()).collect();
        let flavours: Vec<&str> = flavours.into_iter().collect();
        return Err(Problem::usage(what, format!("the archive has no such flavour for {architecture}"))
            .hint(format!("flavours: {}; without one, the normal kernel", flavours.join(", "))));
    }
    if let Wanted::Suite(suite) = &spec.wanted {
        return Err(Problem::host(what, format!("the suite {suite} has no kernel of that flavour for {architecture}")));
    }
    Err(Problem::host(what, "the archive's index has no such version").hint(nearest(&of_flavour, &spec.wanted)))
}

fn nearest(kernels: &[&Available], wanted: &Wanted) -> String {
    let Wanted::Version(wanted) = wanted else { return String::new() };
    let mut versions: Vec<&str> = kernels.iter().map(|kernel| upstream(&kernel.version)).collect();
    versions.dedup();
    versions.sort_by_key(|version| distance(wanted, version));
    let omitted = versions.len().saturating_sub(NEAREST);
    versions.truncate(NEAREST);
    let more = if omitted == 0 { String::new() } else { format!(" and {omitted} more") };
    format!("nearest versions: {}{more}", versions.join(", "))
}

#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) image: PathBuf,
    pub(crate) config: Option<PathBuf>,
    pub(crate) modules: Option<PathBuf>,
    pub(crate) source: String,
}

/// Fetches a kernel's packages and unpacks them below `scratch`.
pub(crate) fn fetch(
    apt: &Apt<'_>,
    kernel: &Available,
    options: &Options,
    scratch: &Path,
    observer: &mut dyn Observer,
) -> Result<Files, Problem> {
    let found = Found { package: kernel.package.clone(), version: kernel.version.clone(), suite: kernel.suite.clone() };
    let into = scratch.join("unpacked");
    let package = apt.download(&found, observer)?;
    unpack_kernel(&package, &into.join("image"), &kernel.release, options.modules, observer)?;
    let architecture = crate::debian::architecture(&options.arch).unwrap_or_default();
    let mut source = format!("{} {} {architecture} ({})", kernel.package, kernel.version, kernel.suite);
    let image = image_below(&into.join("image"), &kernel.release).ok_or_else(|| {
        Problem::host(format!("package {} {}", kernel.package, kernel.version), "it has no kernel image")
    })?;
    let mut config = config_below(&into.join("image"), &kernel.release);
    if config.is_none() {
        options.check("fetching a kernel's configuration")?;
        if let Some((folder, note)) = other(apt, kernel, &BASE, &into, observer)? {
            config = config_below(&folder, &kernel.release);
            source.push_str(&note);
        }
    }
    let mut modules = modules_below(&into.join("image"), &kernel.release);
    if modules.is_none() && options.modules {
        options.check("fetching a kernel's modules")?;
        if let Some((folder, note)) = other(apt, kernel, &MODULES, &into, observer)? {
            modules = modules_below(&folder, &kernel.release);
            source.push_str(&note);
        }
    }
    Ok(Files { image, config, modules, source })
}

/// A package beside the one with the image.
struct Beside {
    kind: &'static str,
    holds: &'static str,
    /// True if it may come unverified from the pool once it has left the index: a configuration is only read, modules would be
    /// executed.
    unverified: bool,
}

const BASE: Beside = Beside { kind: "linux-base", holds: "configuration", unverified: true };
const MODULES: Beside = Beside { kind: "linux-modules", holds: "modules", unverified: false };

/// Fetches and unpacks a package beside the one with the image; returns its folder and a note for the kernel's source.
///
/// Returns `None`, with a note, only if the package has left the signed index and is not available: the cache records that.
///
/// # Errors
/// For reasons that may have gone at the next attempt.
fn other(
    apt: &Apt<'_>,
    kernel: &Available,
    package: &Beside,
    into: &Path,
    observer: &mut dyn Observer,
) -> Result<Option<(PathBuf, String)>, Problem> {
    let name = format!("{}-{}", package.kind, kernel.release);
    let folder = into.join(package.kind);
    let without = |why: &str| format!("without the kernel's {}: package {name}: {why}", package.holds);
    let in_index = apt.versions(std::slice::from_ref(&name), observer)?;
    if let Some(found) = in_index.into_iter().find(|found| found.version == kernel.version) {
        let file = apt.download(&found, observer)?;
        unpack_kernel(&file, &folder, &kernel.release, true, observer)?;
        return Ok(Some((folder, format!("; {name} {}", found.version))));
    }
    if !package.unverified {
        observer.event(Event::Note(&without("it has left the signed index and cannot be verified")));
        return Ok(None);
    }
    let neighbour =
        Found { package: kernel.package.clone(), version: kernel.version.clone(), suite: kernel.suite.clone() };
    let Some(file) = apt.download_unverified(&name, &neighbour, observer)? else {
        observer.event(Event::Note(&without("it has left the signed index, and the pool does not have it")));
        return Ok(None);
    };
    unpack_kernel(&file, &folder, &kernel.release, false, observer)?;
    let note = format!("; configuration not verified: {name} {} has left the signed index", kernel.version);
    Ok(Some((folder, note)))
}

fn unpack_kernel(
    package: &Path,
    into: &Path,
    release: &str,
    modules: bool,
    observer: &mut dyn Observer,
) -> Result<(), Problem> {
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    observer.event(Event::Step(&format!("unpacking {name}")));
    std::fs::create_dir_all(into).map_err(|e| crate::files::problem("folder", into, &e))?;
    unpack_deb(package, into, &|path| belongs(path, Some(release), modules))?;
    Ok(())
}

/// True if a path in a package is an image, a configuration or, with `modules`, a module.
pub(crate) fn belongs(path: &str, release: Option<&str>, modules: bool) -> bool {
    if let Some(name) = path.strip_prefix("boot/") {
        return ["vmlinuz-", "vmlinux-", "config-"]
            .iter()
            .any(|begin| name.strip_prefix(begin).is_some_and(|rest| release.is_none_or(|release| rest == release)));
    }
    let Some(rest) = path.strip_prefix("usr/lib/modules/").or_else(|| path.strip_prefix("lib/modules/")) else {
        return false;
    };
    match rest.split_once('/') {
        Some((of, name)) if release.is_none_or(|release| of == release) => {
            modules || matches!(name, "vmlinuz" | "vmlinux" | "config")
        }
        _ => false,
    }
}

fn module_folders(folder: &Path, release: &str) -> [PathBuf; 2] {
    [folder.join("usr/lib/modules").join(release), folder.join("lib/modules").join(release)]
}

fn first_file(paths: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    // Links are not followed.
    paths.into_iter().find(|path| std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()))
}

pub(crate) fn image_below(folder: &Path, release: &str) -> Option<PathBuf> {
    let [new, old] = module_folders(folder, release);
    let boot = folder.join("boot");
    first_file([
        boot.join(format!("vmlinuz-{release}")),
        new.join("vmlinuz"),
        old.join("vmlinuz"),
        boot.join(format!("vmlinux-{release}")),
        new.join("vmlinux"),
        old.join("vmlinux"),
    ])
}

pub(crate) fn config_below(folder: &Path, release: &str) -> Option<PathBuf> {
    let [new, old] = module_folders(folder, release);
    first_file([folder.join("boot").join(format!("config-{release}")), new.join("config"), old.join("config")])
}

pub(crate) fn modules_below(folder: &Path, release: &str) -> Option<PathBuf> {
    module_folders(folder, release).into_iter().find(|folder| folder.join("kernel").is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(version: &str, flavour: Option<&str>, suite: &str) -> Available {
        let abi = format!("{}+deb13", upstream(version));
        Available {
            release: format!("{abi}-amd64"),
            abi,
            flavour: flavour.map(str::to_owned),
            version: version.to_owned(),
            suite: suite.to_owned(),
            package: "linux-binary".to_owned(),
        }
    }

    fn chosen(spec: &str, all: &[Available]) -> Result<String, String> {
        let crate::Spec::Debian(spec) = crate::Spec::parse(spec).unwrap() else { panic!("{spec}") };
        choose(all, &spec, "amd64").map(|kernel| kernel.version.clone()).map_err(|problem| problem.to_string())
    }

    #[test]
    fn the_newest_match_is_chosen_and_alternatives_are_listed() {
        let mut all: Vec<Available> =
            (1..20).map(|patch| kernel(&format!("7.0.{patch}-1"), None, "trixie-backports")).rev().collect();
        all.push(kernel("6.12.107-1", None, "trixie"));
        all.push(kernel("6.12.107-1", Some("cloud"), "trixie"));
        assert_eq!(chosen("debian:7.0", &all).unwrap(), "7.0.19-1");
        assert_eq!(chosen("debian:7.0.3/amd64", &all).unwrap(), "7.0.3-1");
        assert_eq!(chosen("debian:trixie/cloud", &all).unwrap(), "6.12.107-1");
        let error = chosen("debian:7.0.30", &all).unwrap_err();
        assert!(error.contains("nearest versions: 7.0.19, 7.0.18") && error.contains("and 8 more"), "{error}");
        let error = chosen("debian:7.0/fast", &all).unwrap_err();
        assert!(error.contains("flavours: cloud"), "{error}");
        assert!(chosen("debian:forky", &all).unwrap_err().contains("suite forky"));
    }

    #[test]
    fn paths_of_a_kernel() {
        let release = Some("7.2.1-a");
        for (path, bare, full) in [
            ("boot/vmlinuz-7.2.1-a", true, true),
            ("boot/vmlinuz-7.2.1-b", false, false),
            ("boot/config-7.2.1-a", true, true),
            ("boot/System.map-7.2.1-a", false, false),
            ("usr/lib/modules/7.2.1-a/config", true, true),
            ("lib/modules/7.2.1-a/kernel/fs/ext4.ko.xz", false, true),
            ("lib/modules/7.2.1-b/kernel/fs/ext4.ko.xz", false, false),
            ("usr/share/doc/linux/changelog.gz", false, false),
        ] {
            assert_eq!((belongs(path, release, false), belongs(path, release, true)), (bare, full), "{path}");
        }
        assert!(belongs("boot/vmlinuz-anything", None, false));
    }
}
