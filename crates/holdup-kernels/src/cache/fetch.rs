//! Kernels from package files and from Debian's archive.

use super::lock::Held;
use super::manifest::Package;
use super::{Addition, Cache, Found};
use crate::archive::{read_rpm, unpack_deb, unpack_rpm};
use crate::debian::{self, Apt, Available};
use crate::files::{check_room, now_unix_ns, problem, sha256};
use crate::image::read_image;
use crate::{DebianSpec, Kernel, Options, Spec, Wanted};
use holdup_model::{Event, Observer, Problem};
use std::fs;
use std::path::{Path, PathBuf};

/// An answer of the archive is reused for this long, ns.
const BELIEVED_NS: u64 = 24 * 3600 * 1_000_000_000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Deb,
    Rpm,
}

impl Cache {
    pub(super) fn of_file(
        &self,
        spec: &Spec,
        path: &Path,
        form: Form,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Kernel, Problem> {
        if let Some(kernel) = self.cached(self.of_package(path, options)?, spec, options, observer)? {
            crate::image::check_arch(&kernel.image, &read_image(&kernel.image)?, &options.arch)?;
            return Ok(kernel);
        }
        let held = Held::take(&self.root, &format!("unpacking {spec}"), options, observer)?;
        let scratch = held.scratch()?;
        let bytes = path.metadata().map_err(|e| problem("package", path, &e))?.len();
        check_room(&self.root, bytes.saturating_mul(3), &spec.to_string())?;
        observer.event(Event::Step(&format!("unpacking {}", path.display())));
        let into = scratch.path().join("unpacked");
        fs::create_dir_all(&into).map_err(|e| problem("folder", &into, &e))?;
        let wanted = |path: &str| debian::belongs(path, None, options.modules);
        let source = match form {
            Form::Deb => {
                let (facts, _) = unpack_deb(path, &into, &wanted)?;
                format!("{} {} {}", facts.package, facts.version, facts.architecture)
            }
            Form::Rpm => {
                let facts = read_rpm(path)?;
                unpack_rpm(path, &into, &wanted)?;
                format!("{} {}-{} {}", facts.name, facts.version, facts.release, facts.architecture)
            }
        };
        let (image, release) = only_image(&into, path)?;
        let sha256 = sha256(path).map_err(|e| problem("package", path, &e))?;
        let config = debian::config_below(&into, &release);
        let modules = debian::modules_below(&into, &release).filter(|_| options.modules);
        let addition = Addition {
            spec,
            key: None,
            image: &image,
            config: config.as_deref(),
            modules: modules.as_deref(),
            source: format!("{source}, the file {}; its signature was not verified", path.display()),
        };
        self.store(&held, &addition, Some(Package::File { sha256 }), options)
    }

    /// The kernel of an entry, if it is whole. A damaged entry is removed; offline that is an error, otherwise a note.
    fn cached(
        &self,
        found: Option<Found>,
        spec: &Spec,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Option<Kernel>, Problem> {
        let Some(found) = found else { return Ok(None) };
        match self.whole(found, spec) {
            Ok(kernel) => Ok(kernel),
            Err(damaged) if options.offline => Err(damaged),
            Err(damaged) => {
                observer.event(Event::Note(&format!("{}: {}", damaged.what, damaged.why)));
                Ok(None)
            }
        }
    }

    pub(super) fn of_debian(
        &self,
        spec: &Spec,
        wanted: &DebianSpec,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Kernel, Problem> {
        let known = self.newest(wanted, options)?;
        if known.as_ref().is_some_and(|found| options.offline || is_current(found, spec, wanted))
            && let Some(kernel) = self.cached(known, spec, options, observer)?
        {
            return Ok(kernel);
        }
        if options.offline {
            return Err(self.not_cached(wanted, options)?);
        }
        let held = Held::take(&self.root, &format!("fetching {spec}"), options, observer)?;
        // Another run may have fetched it while this one waited.
        let known = self.newest(wanted, options)?;
        if known.as_ref().is_some_and(|found| is_current(found, spec, wanted))
            && let Some(kernel) = self.cached(known, spec, options, observer)?
        {
            return Ok(kernel);
        }
        let scratch = held.scratch()?;
        match self.ask(wanted, options, scratch.path(), observer) {
            Ok((apt, kernel)) => self.fetch(spec, &kernel, &apt, &held, options, observer),
            Err(problem) => {
                options.check("fetching a kernel")?;
                // The cache may still have what the archive dropped or cannot deliver.
                let known = self.newest(wanted, options)?;
                let kernel = self.cached(known, spec, options, observer)?.ok_or_else(|| problem.clone())?;
                observer.event(Event::Note(&format!(
                    "the newest in the cache is used, {}: {}: {}",
                    kernel.release, problem.what, problem.why
                )));
                Ok(kernel)
            }
        }
    }

    /// Resolves a spec in the archive.
    fn ask<'a>(
        &self,
        wanted: &DebianSpec,
        options: &'a Options,
        scratch: &'a Path,
        observer: &mut dyn Observer,
    ) -> Result<(Apt<'a>, Available), Problem> {
        let suite = match &wanted.wanted {
            Wanted::Suite(suite) => Some(suite.as_str()),
            Wanted::Version(_) => None,
        };
        let apt = Apt::prepare(&self.root, options, scratch, suite)?;
        apt.update(suite, false, observer)?;
        let architecture = debian::architecture(&options.arch).unwrap_or_default();
        let mut all = debian::available(&apt, architecture, observer)?;
        if debian::choose(&all, wanted, architecture).is_err() && !apt.is_just_updated() {
            apt.update(suite, true, observer)?;
            all = debian::available(&apt, architecture, observer)?;
        }
        let chosen = debian::choose(&all, wanted, architecture)?.clone();
        Ok((apt, chosen))
    }

    fn fetch(
        &self,
        spec: &Spec,
        kernel: &Available,
        apt: &Apt<'_>,
        held: &Held,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Kernel, Problem> {
        let exact = DebianSpec { wanted: Wanted::Version(kernel.version.clone()), flavour: kernel.flavour.clone() };
        if let Some(found) = self.newest(&exact, options)? {
            let found = self.touch(found, spec)?;
            if let Some(kernel) = self.cached(Some(found), spec, options, observer)? {
                return Ok(kernel);
            }
        }
        let scratch = held.scratch()?;
        let files = debian::fetch(apt, kernel, options, scratch.path(), observer)?;
        let facts = read_image(&files.image)?;
        if facts.release != kernel.release {
            let why = format!("its image is {}, not {}", facts.release, kernel.release);
            return Err(Problem::host(format!("package {}", kernel.package), why));
        }
        let addition = Addition {
            spec,
            key: None,
            image: &files.image,
            config: files.config.as_deref(),
            modules: files.modules.as_deref().filter(|_| options.modules),
            source: files.source,
        };
        let package = Package::Debian {
            version: kernel.version.clone(),
            abi: kernel.abi.clone(),
            flavour: kernel.flavour.clone(),
            suite: kernel.suite.clone(),
        };
        self.store(held, &addition, Some(package), options)
    }

    /// The error for a kernel that is not in the cache.
    fn not_cached(&self, wanted: &DebianSpec, options: &Options) -> Result<Problem, Problem> {
        let cached: Vec<String> =
            self.list()?.into_iter().filter(|e| e.kernel.arch == options.arch).map(|e| e.kernel.release).collect();
        let has = match cached.is_empty() {
            true => format!("the cache has no kernel for {}", options.arch),
            false => format!("the cache has {}", cached.join(", ")),
        };
        Ok(Problem::host(format!("kernel `debian:{wanted}`"), "it is not in the cache, and --offline was given")
            .hint(has))
    }

    /// Debian's kernels, newest first.
    pub fn available(&self, options: &Options, observer: &mut dyn Observer) -> Result<Vec<Available>, Problem> {
        let held = Held::take(&self.root, "listing kernels", options, observer)?;
        let scratch = held.scratch()?;
        let apt = Apt::prepare(&self.root, options, scratch.path(), None)?;
        if options.offline && !apt.has_index() {
            let why = "its index is not in the cache, and --offline was given";
            return Err(Problem::host("Debian's archive", why).hint("run it once without --offline"));
        }
        if !options.offline {
            apt.update(None, false, observer)?;
        }
        debian::available(&apt, debian::architecture(&options.arch).unwrap_or_default(), observer)
    }
}

/// True if no lookup is needed: the spec names one version, or the last lookup was less than a day ago.
fn is_current(found: &Found, spec: &Spec, wanted: &DebianSpec) -> bool {
    let asked = found.manifest.asked_unix_ns.get(&spec.to_string());
    let is_recent = asked.is_some_and(|at| now_unix_ns().saturating_sub(*at) < BELIEVED_NS);
    is_recent || found.manifest.is_exactly(wanted)
}

/// The only image below a folder, and its release.
fn only_image(folder: &Path, package: &Path) -> Result<(PathBuf, String), Problem> {
    let mut releases: Vec<String> = Vec::new();
    for path in crate::files::below(folder).map_err(|e| problem("folder", folder, &e))? {
        let text = path.to_string_lossy();
        let of_boot = text.strip_prefix("boot/vmlinuz-").or_else(|| text.strip_prefix("boot/vmlinux-"));
        let of_modules = text.strip_suffix("/vmlinuz").or_else(|| text.strip_suffix("/vmlinux"));
        let release = of_boot.or_else(|| of_modules.and_then(|folder| folder.rsplit('/').next()));
        releases.extend(release.map(str::to_owned));
    }
    releases.sort();
    releases.dedup();
    let what = format!("package {}", package.display());
    match releases.as_slice() {
        [release] => {
            let image = debian::image_below(folder, release);
            let image = image.ok_or_else(|| Problem::host(what, "its image is a link"))?;
            Ok((image, release.clone()))
        }
        [] => Err(Problem::host(what, "it has no kernel image")
            .hint("the image is in linux-image-… or, since 6.19, linux-binary-… (Debian), in kernel-core (Fedora)")),
        many => Err(Problem::host(what, format!("it has several kernels: {}", many.join(", ")))),
    }
}
