//! The cache: a folder of kernels, packages and PostgreSQL versions.
//!
//! `kernels/RELEASE-SUM/` has one kernel with its manifest, `packages/SUITE/` packages, `postgres/` PostgreSQL versions,
//! `apt/ARCHITECTURE/` the state of apt, `scratch/` temporary folders, `removed/` entries being deleted. An entry appears
//! atomically, by a rename. Writers hold `lock`; a reader that finds a damaged entry removes it without the lock.

mod fetch;
mod lock;
mod manifest;
mod packages;
mod parts;
mod postgres;
mod resident;
mod servers;
mod sources;
mod store;
mod stored;

use crate::files::{bytes_below, now_unix_ns, problem};
use crate::image::{MOST_BYTES, is_for_efi, zboot};
use crate::{DebianSpec, Kernel, Options, Spec};
use holdup_files::{Folder, check_ancestors, private_folder};
use holdup_model::{Event, Observer, Problem};
use manifest::{Manifest, Package};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

pub use parts::{Part, PartSize};
pub use postgres::{PostgresEntry, PostgresRoot, postgres, postgres_kept, postgres_remove};
pub use servers::BuiltServer;
pub(crate) use sources::SourcePackage;
pub use store::Addition;
use stored::{Checked, Damaged, Stored, scan};

/// Entries that are being deleted.
const REMOVED: &str = "removed";

/// A cache folder, which several runs can use at the same time.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A cached kernel.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its `spec` is the first of `specs`.
    pub kernel: Kernel,
    /// All specs that it answered, sorted.
    pub specs: Vec<String>,
    /// Its size on disk.
    pub bytes: u64,
    /// When it was added, since 1970.
    pub fetched_unix_ns: u64,
}

type Found = Stored<Manifest>;

/// The default folder of a user whose environment is `get`.
fn root_for(euid: u32, get: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let set = |name: &str| get(name).filter(|value| !value.as_os_str().is_empty());
    if let Some(named) = set("HOLDUP_CACHE") {
        return named;
    }
    set("XDG_CACHE_HOME")
        .map(|cache| cache.join("holdup"))
        .into_iter()
        .chain(set("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache/holdup")))
        .find(|place| is_safe_from_others(place))
        .unwrap_or_else(|| match euid {
            0 => PathBuf::from("/var/cache/holdup"),
            _ => std::env::temp_dir().join(format!("holdup-{euid}")),
        })
}

impl Cache {
    /// Opens a cache, and creates it if necessary.
    ///
    /// # Errors
    /// When the folder cannot be created, is a link, belongs to another user or may be written by others; for root, when another
    /// user could replace it: its content is booted, and executed as root.
    pub fn open(root: &Path) -> Result<Cache, Problem> {
        let open = || {
            let path = std::path::absolute(root)?;
            match Folder::open_own(&path) {
                // The content of one that others may write need not be ours.
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => private_folder(&path)?,
            };
            // `removed` is created now, because the disk may be full when it is needed.
            ["kernels", REMOVED].iter().try_for_each(|folder| fs::create_dir_all(root.join(folder)))?;
            root.canonicalize()
        };
        let root =
            open().map_err(|e| problem("cache", root, &e).hint("--cache DIR or HOLDUP_CACHE chooses another place"))?;
        Ok(Cache { root })
    }

    /// The default: `$HOLDUP_CACHE`, else `$XDG_CACHE_HOME/holdup`, else `~/.cache/holdup`. Root skips folders that another
    /// user can change, such as the home that `sudo` may keep, and a home that is not there, and uses `/var/cache/holdup`; users without a home use
    /// `holdup-UID` in the folder for temporary files.
    pub fn default_root() -> PathBuf {
        root_for(rustix::process::geteuid().as_raw(), &|name| std::env::var_os(name).map(PathBuf::from))
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of section maps of the programs that were under test, below the root of a cache.
    pub fn maps(root: &Path) -> PathBuf {
        root.join("maps")
    }

    /// All whole kernels, by release. [`Cache::damaged`] lists the others.
    pub fn list(&self) -> Result<Vec<Entry>, Problem> {
        let (whole, _) = self.entries()?;
        let mut entries: Vec<Entry> = whole.iter().map(Found::entry).collect();
        entries.sort_by(|a, b| {
            crate::debian::version::compare(&a.kernel.release, &b.kernel.release)
                .then_with(|| a.kernel.sha256.cmp(&b.kernel.sha256))
        });
        Ok(entries)
    }

    /// Folders of entries whose manifest cannot be read, each with the reason.
    pub fn damaged(&self) -> Result<Vec<(PathBuf, String)>, Problem> {
        self.entries().map(|(_, damaged)| damaged)
    }

    fn entries(&self) -> Result<(Vec<Found>, Damaged), Problem> {
        scan(&self.root.join("kernels"))
    }

    /// The kernel of a spec for this machine, without the network: from the cache, or from the path in the spec. Its files are
    /// checked.
    ///
    /// # Errors
    /// When an entry is damaged (it is removed), or the path is not a kernel.
    pub fn which(&self, spec: &Spec) -> Result<Option<Kernel>, Problem> {
        self.which_for(spec, &Options::default())
    }

    /// [`Cache::which`] for any machine, and with modules on request.
    pub fn which_for(&self, spec: &Spec, options: &Options) -> Result<Option<Kernel>, Problem> {
        let found = match spec {
            Spec::File(path) => return resident::file(spec, path, options).map(Some),
            Spec::Host => return resident::host(Path::new("/"), spec, options).map(Some),
            Spec::Debian(debian) => self.newest(debian, options)?,
            Spec::Deb(path) | Spec::Rpm(path) => self.of_package(path, options)?,
            Spec::Build(_) => self.of_spec(&spec.to_string(), options)?,
        };
        found.map_or(Ok(None), |found| self.whole(found, spec))
    }

    /// Checks an entry's files. A damaged entry is removed; one that another process removed is `None`.
    fn whole(&self, found: Found, spec: &Spec) -> Result<Option<Kernel>, Problem> {
        match found.checked() {
            Checked::Whole(found) => Ok(Some(found.manifest.kernel(&found.folder, spec.to_string()))),
            Checked::Gone => Ok(None),
            Checked::Damaged(found, why) => {
                self.discard(&found.folder)?;
                let what = format!("kernel {} in the cache {}", found.manifest.kernel.release, self.root.display());
                Err(Problem::host(what, format!("it is damaged and was removed: {why}"))
                    .hint(format!("holdup kernels fetch {spec}")))
            }
        }
    }

    /// The image of a kernel as QEMU boots it: one for EFI is unpacked below `images`, because QEMU unpacks those itself only in
    /// newer versions.
    ///
    /// # Errors
    /// When it cannot be read, or the cache cannot be written.
    pub fn bootable(&self, kernel: &Kernel) -> Result<PathBuf, Problem> {
        let failed = |e: std::io::Error| problem("kernel", &kernel.image, &e);
        let mut begin = Vec::new();
        holdup_files::open_input(&kernel.image)
            .and_then(|file| file.take(8).read_to_end(&mut begin))
            .map_err(failed)?;
        if !is_for_efi(&begin) {
            return Ok(kernel.image.clone());
        }
        let bytes = holdup_files::read_input(&kernel.image, MOST_BYTES).map_err(failed)?;
        let folder = self.root.join(Part::Images.name());
        let path = folder.join(format!("{}.image", kernel.sha256));
        let part = folder.join(format!("{}-{}.part", kernel.sha256, std::process::id()));
        let plain = zboot(&bytes).map_err(|why| Problem::host(format!("kernel {}", kernel.image.display()), why))?;
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&part, plain))
            .and_then(|()| fs::rename(&part, &path))
            .map_err(|e| problem("cache", &path, &e))?;
        Ok(path)
    }

    /// Removes an entry or a file atomically.
    fn discard(&self, folder: &Path) -> Result<(), Problem> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        // With the time, because pids are reused.
        let aside = self.root.join(REMOVED).join(format!("{}-{}-{name}", now_unix_ns(), std::process::id()));
        match fs::rename(folder, &aside) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| problem("cache", folder, &e))?,
        }
        let removed = match aside.is_dir() {
            true => fs::remove_dir_all(&aside),
            false => fs::remove_file(&aside),
        };
        match removed {
            // The holder of the lock cleans up too.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(|e| problem("cache", &aside, &e)),
        }
    }

    /// Moves a new entry to `to` atomically. A previous entry is afterwards at `entry`, or deleted.
    fn put(&self, entry: &Path, to: &Path) -> Result<(), Problem> {
        let failed = |e: &std::io::Error| problem("cache", to, e);
        match renameat_with(CWD, entry, CWD, to, RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(()),
            Err(Errno::NOENT) => {}
            // A file system without RENAME_EXCHANGE: for a moment there is no entry.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => self.discard(to)?,
            Err(e) => return Err(failed(&e.into())),
        }
        fs::rename(entry, to).map_err(|e| failed(&e))
    }

    fn matching(&self, options: &Options, fits: impl Fn(&Manifest) -> bool) -> Result<Vec<Found>, Problem> {
        let (mut whole, _) = self.entries()?;
        whole.retain(|found| {
            let manifest = &found.manifest;
            let has_modules = !options.modules || manifest.modules_asked;
            manifest.kernel.arch == options.arch && has_modules && fits(manifest)
        });
        Ok(whole)
    }

    /// The newest cached Debian kernel that a spec matches.
    fn newest(&self, spec: &DebianSpec, options: &Options) -> Result<Option<Found>, Problem> {
        let fitting = self.matching(options, |manifest| manifest.fits(spec).is_some())?;
        let version = |found: &Found| found.manifest.fits(spec).unwrap_or_default().to_owned();
        Ok(fitting.into_iter().max_by(|a, b| crate::debian::version::compare(&version(a), &version(b))))
    }

    /// The kernel from a package file with the same content.
    fn of_package(&self, path: &Path, options: &Options) -> Result<Option<Found>, Problem> {
        let sum = crate::files::sha256(path).map_err(|e| problem("package", path, &e))?;
        let package = Package::File { sha256: sum };
        let any_machine = |manifest: &Manifest| manifest.package.as_ref() == Some(&package);
        let (whole, _) = self.entries()?;
        let mut found = whole.into_iter().filter(|found| any_machine(&found.manifest));
        Ok(found.find(|found| !options.modules || found.manifest.modules_asked))
    }

    fn of_spec(&self, spec: &str, options: &Options) -> Result<Option<Found>, Problem> {
        let fitting = self.matching(options, |manifest| manifest.asked_unix_ns.contains_key(spec))?;
        Ok(fitting.into_iter().max_by_key(|found| found.manifest.fetched_unix_ns))
    }

    /// The kernel that was added under a key ([`Addition::key`]), if its files are whole. A damaged one is removed.
    ///
    /// # Errors
    /// When the cache cannot be read, or a damaged entry cannot be removed.
    pub fn made(&self, key: &str) -> Result<Option<Kernel>, Problem> {
        let (whole, _) = self.entries()?;
        let Some(found) = whole.into_iter().find(|found| found.manifest.key.as_deref() == Some(key)) else {
            return Ok(None);
        };
        match found.checked() {
            // Its replacement may have another key.
            Checked::Whole(found) if found.manifest.key.as_deref() == Some(key) => {
                Ok(Some(found.manifest.kernel(&found.folder, found.manifest.kernel.spec.clone())))
            }
            Checked::Whole(_) | Checked::Gone => Ok(None),
            Checked::Damaged(found, _) => self.discard(&found.folder).map(|()| None),
        }
    }

    /// Removes and returns the kernel of a spec, if there is one (kernels of `file:` and `host` specs are not in the cache),
    /// and all damaged entries, with a note for each.
    pub fn remove(
        &self,
        spec: &Spec,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Option<Entry>, Problem> {
        let _held = lock::Held::take(&self.root, &format!("removing {spec}"), options, observer)?;
        for (folder, why) in self.damaged()? {
            self.discard(&folder)?;
            observer.event(Event::Note(&format!("{} is damaged and was removed: {why}", folder.display())));
        }
        let found = match spec {
            Spec::File(_) | Spec::Host => None,
            Spec::Debian(debian) => self.newest(debian, options)?,
            Spec::Deb(path) | Spec::Rpm(path) if path.exists() => self.of_package(path, options)?,
            Spec::Deb(_) | Spec::Rpm(_) | Spec::Build(_) => self.of_spec(&spec.to_string(), options)?,
        };
        let Some(found) = found else { return Ok(None) };
        let entry = found.entry();
        self.discard(&found.folder)?;
        Ok(Some(entry))
    }

    /// The kernel of a spec: from the cache, otherwise from its source, which may be the network.
    ///
    /// The archive is asked at most once a day for a spec such as `debian:7.0`, and never again for a complete version.
    ///
    /// # Errors
    /// When it is not available; if only the version is wrong, the hint lists the nearest ones.
    pub fn get(&self, spec: &Spec, options: &Options, observer: &mut dyn Observer) -> Result<Kernel, Problem> {
        match spec {
            Spec::Build(build) => crate::build::build(build, self, options, observer),
            Spec::File(path) => resident::file(spec, path, options),
            Spec::Host => resident::host(Path::new("/"), spec, options),
            Spec::Deb(path) => self.of_file(spec, path, fetch::Form::Deb, options, observer),
            Spec::Rpm(path) => self.of_file(spec, path, fetch::Form::Rpm, options, observer),
            Spec::Debian(debian) => self.of_debian(spec, debian, options, observer),
        }
    }
}

impl Found {
    fn entry(&self) -> Entry {
        let specs: Vec<String> = self.manifest.asked_unix_ns.keys().cloned().collect();
        let first = specs.first().cloned().unwrap_or_else(|| self.manifest.kernel.spec.clone());
        Entry {
            kernel: self.manifest.kernel(&self.folder, first),
            specs,
            bytes: bytes_below(&self.folder),
            fetched_unix_ns: self.manifest.fetched_unix_ns,
        }
    }
}

/// True if no other user can change a folder at this path. Always true for users other than root.
fn is_safe_from_others(place: &Path) -> bool {
    let there = place.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    there.is_some_and(|above| check_ancestors(&above).is_ok())
}

#[cfg(test)]
mod tests;
