//! The folder in which kernels are kept.
//!
//! `kernels/RELEASE-SUM/` holds one kernel each with its manifest, `packages/SUITE/` packages, `postgres/` PostgreSQL
//! with what it needs, `apt/ARCHITECTURE/` the state of apt, `scratch/` what is under way, `removed/` what is on its way
//! out. Entries appear whole, by a rename. Who writes holds `lock`; who finds an entry damaged removes it without.

mod fetch;
mod lock;
mod manifest;
mod packages;
mod parts;
mod postgres;
mod resident;
mod store;

use crate::files::{bytes_below, now_unix_ns, problem};
use crate::{DebianSpec, Kernel, Options, Spec};
use holdup_files::{check_ancestors, private_folder};
use holdup_model::{Event, Observer, Problem};
use manifest::{Manifest, Package};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use parts::{Part, PartSize};
pub use postgres::{PostgresEntry, PostgresRoot, postgres, postgres_kept, postgres_remove};
pub use store::Addition;

/// The folder of what is on its way out.
const REMOVED: &str = "removed";

/// A cache of kernels and of packages: a folder that several runs may use at once.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A kernel in the cache.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The kernel; its `spec` is the first of `specs`.
    pub kernel: Kernel,
    /// All specs that were answered with it, in alphabetical order.
    pub specs: Vec<String>,
    /// What it takes on disk.
    pub bytes: u64,
    /// When it was put here, since 1970.
    pub fetched_unix_ns: u64,
}

/// Folders of entries that cannot be read, each with the reason.
type Damaged = Vec<(PathBuf, String)>;

/// An entry as it was found on disk.
struct Found {
    folder: PathBuf,
    manifest: Manifest,
}

impl Cache {
    /// Opens a cache, which is made where there is none.
    ///
    /// # Errors
    /// When the folder cannot be made, is a link or belongs to another user; for root, when another user could put
    /// another folder in its place: what lies in it is booted, and run as root.
    pub fn open(root: &Path) -> Result<Cache, Problem> {
        let open = || {
            private_folder(&std::path::absolute(root)?)?;
            // The folder for what is removed is made now, because a disk may be full when something is.
            ["kernels", REMOVED].iter().try_for_each(|folder| fs::create_dir_all(root.join(folder)))?;
            root.canonicalize()
        };
        let root =
            open().map_err(|e| problem("cache", root, &e).hint("--cache DIR or HOLDUP_CACHE chooses another place"))?;
        Ok(Cache { root })
    }

    /// Where the cache is unless it is said: `$HOLDUP_CACHE`, else `$XDG_CACHE_HOME/holdup`, else `~/.cache/holdup`.
    /// Root leaves out what another user can change, such as the home that `sudo` may keep, and takes
    /// `/var/cache/holdup`; others without a home take `holdup-UID` in the folder for temporary files.
    pub fn default_root() -> PathBuf {
        let euid = rustix::process::geteuid();
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(named) = set("HOLDUP_CACHE") {
            return named;
        }
        set("XDG_CACHE_HOME")
            .map(|cache| cache.join("holdup"))
            .into_iter()
            .chain(set("HOME").map(|home| home.join(".cache/holdup")))
            .find(|place| can_be_ours(place))
            .unwrap_or_else(|| match euid.is_root() {
                true => PathBuf::from("/var/cache/holdup"),
                false => std::env::temp_dir().join(format!("holdup-{}", euid.as_raw())),
            })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All kernels in it, by release. Damaged ones are left out; [`Cache::damaged`] tells them.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>, Problem> {
        let (whole, _) = self.entries()?;
        let mut entries: Vec<Entry> = whole.iter().map(Found::entry).collect();
        entries.sort_by(|a, b| {
            crate::debian::version::compare(&a.kernel.release, &b.kernel.release)
                .then_with(|| a.kernel.sha256.cmp(&b.kernel.sha256))
        });
        Ok(entries)
    }

    /// The entries whose manifest cannot be read, each with its folder and the reason.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn damaged(&self) -> Result<Vec<(PathBuf, String)>, Problem> {
        self.entries().map(|(_, damaged)| damaged)
    }

    fn entries(&self) -> Result<(Vec<Found>, Damaged), Problem> {
        let folder = self.root.join("kernels");
        let (mut whole, mut damaged) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&folder).map_err(|e| problem("cache", &folder, &e))? {
            let entry = entry.map_err(|e| problem("cache", &folder, &e))?.path();
            match Manifest::read(&entry) {
                Ok(manifest) => whole.push(Found { folder: entry, manifest }),
                // Another run may have removed it since.
                Err(_) if !entry.exists() => {}
                Err(why) => damaged.push((entry, why)),
            }
        }
        Ok((whole, damaged))
    }

    /// The kernel of a spec as far as it can be had without the network, for the machine that holdup runs on: from the
    /// cache, or where the spec says it lies. Its files are checked.
    ///
    /// # Errors
    /// When an entry is damaged, which removes it, or what lies where the spec says is no kernel.
    pub fn which(&self, spec: &Spec) -> Result<Option<Kernel>, Problem> {
        self.which_for(spec, &Options::default())
    }

    /// [`Cache::which`] for any machine, and with modules where they are asked for.
    ///
    /// # Errors
    /// As [`Cache::which`].
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

    /// Checks an entry's files; a damaged entry is removed, and one that somebody else removed is `None`.
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

    /// Removes an entry or a file, at once for all who look.
    fn discard(&self, folder: &Path) -> Result<(), Problem> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        // The time, because the number of a process comes again.
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
            // The holder of the lock cleans up here too.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(|e| problem("cache", &aside, &e)),
        }
    }

    /// Puts a new entry at `to`, at once for all who look. What was there is afterwards at `entry` or gone.
    fn put(&self, entry: &Path, to: &Path) -> Result<(), Problem> {
        let failed = |e: &std::io::Error| problem("cache", to, e);
        match renameat_with(CWD, entry, CWD, to, RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(()),
            Err(Errno::NOENT) => {}
            // A file system that cannot exchange; there is a moment without the entry.
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

    /// The newest of Debian's kernels in the cache that fits.
    fn newest(&self, spec: &DebianSpec, options: &Options) -> Result<Option<Found>, Problem> {
        let fitting = self.matching(options, |manifest| manifest.fits(spec).is_some())?;
        let version = |found: &Found| found.manifest.fits(spec).unwrap_or_default().to_owned();
        Ok(fitting.into_iter().max_by(|a, b| crate::debian::version::compare(&version(a), &version(b))))
    }

    /// The kernel that came out of a package file, by what is in the file.
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

    /// The kernel that was added under a key ([`Addition::key`]), where its files are still whole; a damaged one is
    /// removed and not given.
    ///
    /// # Errors
    /// When the cache cannot be read, or a damaged entry not be removed.
    pub fn made(&self, key: &str) -> Result<Option<Kernel>, Problem> {
        let (whole, _) = self.entries()?;
        let Some(found) = whole.into_iter().find(|found| found.manifest.key.as_deref() == Some(key)) else {
            return Ok(None);
        };
        match found.checked() {
            // What took its place may be made from something else.
            Checked::Whole(found) if found.manifest.key.as_deref() == Some(key) => {
                Ok(Some(found.manifest.kernel(&found.folder, found.manifest.kernel.spec.clone())))
            }
            Checked::Whole(_) | Checked::Gone => Ok(None),
            Checked::Damaged(found, _) => self.discard(&found.folder).map(|()| None),
        }
    }

    /// Removes the kernel of a spec; gives it, or `None` where there is none. What a `file:` or `host` spec names is
    /// not in the cache. Damaged entries are removed as well, with a note: no spec names them.
    ///
    /// # Errors
    /// When the cache cannot be written.
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

    /// The kernel of a spec: from the cache, else from where the spec says it comes from, which may be the network.
    ///
    /// An answer of the archive is believed for a day, so that `debian:7.0` is looked up once a day at most; one that
    /// names a whole version is not looked up again.
    ///
    /// # Errors
    /// When it cannot be had; where the version is not to be had, the error lists the nearest that are.
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

/// What an entry is when it is looked at closely.
enum Checked {
    Whole(Found),
    /// Somebody else has removed it.
    Gone,
    /// It is damaged, and why.
    Damaged(Found, String),
}

impl Found {
    /// Checks an entry's files. Where they do not fit, the manifest is read again: another run may have put a new entry
    /// there since.
    fn checked(mut self) -> Checked {
        let Err(why) = self.manifest.check(&self.folder) else { return Checked::Whole(self) };
        match Manifest::read(&self.folder) {
            Ok(manifest) => self.manifest = manifest,
            Err(_) if !self.folder.exists() => return Checked::Gone,
            Err(_) => return Checked::Damaged(self, why),
        }
        match self.manifest.check(&self.folder) {
            Ok(()) => Checked::Whole(self),
            Err(_) if !self.folder.exists() => Checked::Gone,
            Err(why) => Checked::Damaged(self, why),
        }
    }

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

/// Whether no other user can change what is, or would be made, at a place. Always so for others than root.
fn can_be_ours(place: &Path) -> bool {
    let there = place.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    there.is_some_and(|above| check_ancestors(&above).is_ok())
}

#[cfg(test)]
mod tests;
