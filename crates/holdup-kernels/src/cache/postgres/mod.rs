//! PostgreSQL of another version than the host's, for guests.
//!
//! `postgres/MAJOR-VERSION-MACHINE/` holds one each: `root/` has the server and its clients with all that they load,
//! the C library and its loader included, all from the same suite, so that the guest runs none of the host's files.
//! What sets a system up is left out; nothing of the packages is run.

mod fetch;
mod manifest;
mod suites;
mod tree;

use super::Cache;
use super::lock::Held;
use crate::debian::version::{compare, upstream};
use crate::files::{now_unix_ns, problem};
use crate::{Options, debian};
use holdup_model::{Event, Observer, Problem};
use manifest::{Manifest, ROOT};
use std::fs;
use std::path::{Path, PathBuf};
use suites::Wanted;

/// How long the archive is believed that there is no newer one, ns: minor versions come four times a year.
const BELIEVED_NS: u64 = 7 * 24 * 3600 * 1_000_000_000;

/// What a guest runs.
const PROGRAMS: [&str; 3] = ["initdb", "pgbench", "postgres"];

/// PostgreSQL with all that it needs, unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresRoot {
    /// The folder that is `/` for its files.
    pub root: PathBuf,
    /// The folder of its programs, below `root`.
    pub bin: PathBuf,
    /// The version of the server's package, such as `17.11-0+deb13u1` or `19~rc1-1`.
    pub version: String,
    /// Where it comes from: package, version, architecture, suite, and how many packages came along.
    pub source: String,
}

/// A PostgreSQL in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresEntry {
    /// The text by which a plan names just this one: `deb:17.11`.
    pub spec: String,
    /// Its files.
    pub root: PostgresRoot,
    /// The machine that it runs on, as `uname -m` says it.
    pub arch: String,
    /// What it takes on disk.
    pub bytes: u64,
    /// When it was put here, since 1970.
    pub fetched_unix_ns: u64,
}

/// An entry as it was found on disk.
struct Kept {
    folder: PathBuf,
    manifest: Manifest,
}

/// The folder of an entry that is damaged, and why.
type Damaged = (PathBuf, String);

impl Kept {
    fn root(&self) -> PostgresRoot {
        let manifest = &self.manifest;
        let root = self.folder.join(ROOT);
        let architecture = debian::architecture(&manifest.arch).unwrap_or(&manifest.arch);
        let suite = manifest.suites.last().map(String::as_str).unwrap_or_default();
        let others = manifest.packages.len().saturating_sub(1);
        let (major, version) = (manifest.major, &manifest.version);
        PostgresRoot {
            bin: bin(&root, major),
            root,
            version: version.clone(),
            source: format!("postgresql-{major} {version} {architecture} ({suite}) with {others} other packages"),
        }
    }

    fn entry(&self) -> PostgresEntry {
        PostgresEntry {
            spec: format!("deb:{}", upstream(&self.manifest.version)),
            root: self.root(),
            arch: self.manifest.arch.clone(),
            bytes: self.manifest.bytes(),
            fetched_unix_ns: self.manifest.fetched_unix_ns,
        }
    }

    /// Whether the archive need not be asked for a newer one.
    fn is_believed(&self, wanted: &Wanted) -> bool {
        let age = now_unix_ns().saturating_sub(self.manifest.looked_up_unix_ns);
        wanted.is_exactly(&self.manifest.version) || age < BELIEVED_NS
    }
}

fn folder(cache: &Cache) -> PathBuf {
    cache.root().join("postgres")
}

fn bin(root: &Path, major: u32) -> PathBuf {
    root.join(format!("usr/lib/postgresql/{major}/bin"))
}

/// The newest PostgreSQL of a version (`17`, `17.11`, `19rc1`), from the cache, else from Debian's archive through
/// apt, which verifies it. The archive is asked once a week whether there is a newer one; where it cannot be reached
/// then, what is kept is used, with a note.
///
/// # Errors
/// When no suite has it, with all that there are; when it cannot be fetched or kept. Offline, when it is not here.
pub fn postgres(
    major: &str,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<PostgresRoot, Problem> {
    let wanted = Wanted::parse(major)?;
    let is_enough = |kept: &Kept| options.offline || kept.is_believed(&wanted);
    if let Some(kept) = newest(cache, &wanted, options, observer)?.filter(is_enough) {
        return Ok(kept.root());
    }
    if options.offline {
        return Err(not_here(cache, &wanted, options)?);
    }
    let held = Held::take(cache.root(), &format!("fetching PostgreSQL {wanted}"), options, observer)?;
    // Another run may have fetched it while this one waited.
    let kept = newest(cache, &wanted, options, observer)?;
    if let Some(kept) = kept.as_ref().filter(|kept| is_enough(kept)) {
        return Ok(kept.root());
    }
    let scratch = held.scratch()?;
    match (fetch::fetch(cache, &wanted, options, scratch.path(), observer), kept) {
        (Ok(fetched), _) => Ok(fetched.root()),
        (Err(why), Some(kept)) => {
            options.check("looking for a newer PostgreSQL")?;
            let version = &kept.manifest.version;
            observer.event(Event::Note(&format!("PostgreSQL {version} of the cache is used; {why}")));
            Ok(kept.root())
        }
        (Err(why), None) => Err(why),
    }
}

fn not_here(cache: &Cache, wanted: &Wanted, options: &Options) -> Result<Problem, Problem> {
    let (whole, _) = entries(cache)?;
    let mine = whole.iter().filter(|kept| kept.manifest.arch == options.arch);
    let there: Vec<&str> = mine.map(|kept| upstream(&kept.manifest.version)).collect();
    let problem = Problem::host(
        format!("PostgreSQL `deb:{wanted}`"),
        format!("it is not in the cache {}, and nothing may be fetched (offline)", cache.root().display()),
    );
    Ok(match there.is_empty() {
        true => problem,
        false => problem.hint(format!("the cache has {}", there.join(", "))),
    })
}

/// All PostgreSQL in a cache, by version.
///
/// # Errors
/// When the folder cannot be read.
pub fn postgres_kept(cache: &Cache) -> Result<Vec<PostgresEntry>, Problem> {
    Ok(entries(cache)?.0.iter().map(Kept::entry).collect())
}

/// Removes the PostgreSQL of a version, all of them where several fit, damaged ones included; gives what was removed.
///
/// # Errors
/// When the text is no version, or the cache cannot be written.
pub fn postgres_remove(
    version: &str,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Vec<PostgresEntry>, Problem> {
    let wanted = Wanted::parse(version)?;
    let _held = Held::take(cache.root(), &format!("removing PostgreSQL {wanted}"), options, observer)?;
    let (whole, damaged) = entries(cache)?;
    let mut removed = Vec::new();
    for kept in whole.iter().filter(|kept| wanted.fits(&kept.manifest.version) && kept.manifest.arch == options.arch) {
        removed.push(kept.entry());
        cache.discard(&kept.folder)?;
    }
    for (folder, why) in damaged {
        observer.event(Event::Note(&format!("{} is damaged and was removed: {why}", folder.display())));
        cache.discard(&folder)?;
    }
    Ok(removed)
}

/// The newest in the cache that fits and is whole; damaged ones are removed.
fn newest(
    cache: &Cache,
    wanted: &Wanted,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Option<Kept>, Problem> {
    let (mut whole, _) = entries(cache)?;
    while let Some(mut kept) = whole.pop() {
        if kept.manifest.arch != options.arch || !wanted.fits(&kept.manifest.version) {
            continue;
        }
        // Another run may have put a new one there since, or removed it.
        let checked = kept.manifest.check(&kept.folder).or_else(|_| {
            kept.manifest = Manifest::read(&kept.folder)?;
            kept.manifest.check(&kept.folder)
        });
        match checked {
            Ok(()) => return Ok(Some(kept)),
            Err(_) if !kept.folder.exists() => {}
            Err(why) => {
                let version = &kept.manifest.version;
                observer.event(Event::Note(&format!(
                    "PostgreSQL {version} of the cache is damaged and was removed: {why}"
                )));
                cache.discard(&kept.folder)?;
            }
        }
    }
    Ok(None)
}

/// All entries by version, and those whose manifest cannot be read with the reason.
fn entries(cache: &Cache) -> Result<(Vec<Kept>, Vec<Damaged>), Problem> {
    let folder = folder(cache);
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    let all = match fs::read_dir(&folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok((whole, damaged)),
        all => all.map_err(|e| problem("cache", &folder, &e))?,
    };
    for entry in all {
        let folder = entry.map_err(|e| problem("cache", &folder, &e))?.path();
        match Manifest::read(&folder) {
            Ok(manifest) => whole.push(Kept { folder, manifest }),
            // Another run may have removed it since.
            Err(_) if !folder.exists() => {}
            Err(why) => damaged.push((folder, why)),
        }
    }
    whole.sort_by(|a, b| compare(&a.manifest.version, &b.manifest.version).then_with(|| a.folder.cmp(&b.folder)));
    Ok((whole, damaged))
}

#[cfg(test)]
mod tests;
