//! PostgreSQL versions other than the host's, for guests.
//!
//! Each is an entry `postgres/MAJOR-VERSION-MACHINE/`, whose `root/` has the server, its clients and all their libraries from
//! one suite, the C library and its loader included: the guest uses no file of the host. Packages that set a system up are left
//! out, and no maintainer script runs.

mod fetch;
mod manifest;
pub(in crate::cache) mod suites;
mod tree;

use super::Cache;
use super::lock::Held;
use super::stored::{Checked, Damaged, Stored, scan};
use crate::debian::version::{compare, upstream};
use crate::files::now_unix_ns;
use crate::{Options, debian};
use holdup_model::{Event, Observer, Problem};
use manifest::{Manifest, ROOT};
use std::path::{Path, PathBuf};
use suites::Wanted;

/// A lookup is repeated after this time, ns: minor versions come four times a year.
pub(in crate::cache) const BELIEVED_NS: u64 = 7 * 24 * 3600 * 1_000_000_000;

const PROGRAMS: [&str; 3] = ["initdb", "pgbench", "postgres"];

/// An unpacked PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresRoot {
    /// The root folder of its files.
    pub root: PathBuf,
    /// The folder of its programs, below `root`.
    pub bin: PathBuf,
    /// The version of the server's package, such as `17.11-0+deb13u1` or `19~rc1-1`.
    pub version: String,
    /// Package, version, architecture, suite, and the number of other packages.
    pub source: String,
}

/// A cached PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresEntry {
    /// The spec of exactly this version: `deb:17.11`.
    pub spec: String,
    /// Its files.
    pub root: PostgresRoot,
    /// As `uname -m` prints it.
    pub arch: String,
    /// Its size on disk.
    pub bytes: u64,
    /// When it was added, since 1970.
    pub fetched_unix_ns: u64,
}

type Found = Stored<Manifest>;

impl Found {
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

    /// True if no lookup of a newer version is needed.
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

/// The newest PostgreSQL of a version (`17`, `17.11`, `19rc1`), from the cache or from Debian's archive through apt, which
/// verifies it. A newer version is looked up once a week; if the archive cannot be reached, the cached one is used, with a
/// note.
///
/// # Errors
/// When no suite has it (the hint lists the versions), or it cannot be fetched or stored. Offline, when it is not cached.
pub fn postgres(
    major: &str,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<PostgresRoot, Problem> {
    let wanted = Wanted::parse(major)?;
    let is_enough = |found: &Found| options.offline || found.is_believed(&wanted);
    if let Some(found) = newest(cache, &wanted, options, observer)?.filter(is_enough) {
        return Ok(found.root());
    }
    if options.offline {
        return Err(not_here(cache, &wanted, options)?);
    }
    let held = Held::take(cache.root(), &format!("fetching PostgreSQL {wanted}"), options, observer)?;
    // Another run may have fetched it while this one waited.
    let found = newest(cache, &wanted, options, observer)?;
    if let Some(found) = found.as_ref().filter(|found| is_enough(found)) {
        return Ok(found.root());
    }
    let scratch = held.scratch()?;
    match (fetch::fetch(cache, &wanted, options, scratch.path(), observer), found) {
        (Ok(fetched), _) => Ok(fetched.root()),
        (Err(why), Some(found)) => {
            options.check("looking for a newer PostgreSQL")?;
            let version = &found.manifest.version;
            observer.event(Event::Note(&format!("PostgreSQL {version} of the cache is used; {why}")));
            Ok(found.root())
        }
        (Err(why), None) => Err(why),
    }
}

fn not_here(cache: &Cache, wanted: &Wanted, options: &Options) -> Result<Problem, Problem> {
    let (whole, _) = entries(cache)?;
    let mine = whole.iter().filter(|found| found.manifest.arch == options.arch);
    let there: Vec<&str> = mine.map(|found| upstream(&found.manifest.version)).collect();
    let problem = Problem::host(
        format!("PostgreSQL `deb:{wanted}`"),
        format!("it is not in the cache {}, and nothing may be fetched (offline)", cache.root().display()),
    );
    Ok(match there.is_empty() {
        true => problem,
        false => problem.hint(format!("the cache has {}", there.join(", "))),
    })
}

/// All cached PostgreSQL versions.
pub fn postgres_kept(cache: &Cache) -> Result<Vec<PostgresEntry>, Problem> {
    Ok(entries(cache)?.0.iter().map(Found::entry).collect())
}

/// Removes and returns all cached versions that match, and damaged ones.
///
/// # Errors
/// When the text is not a version, or the cache cannot be written.
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
    for found in
        whole.iter().filter(|found| wanted.matches(&found.manifest.version) && found.manifest.arch == options.arch)
    {
        removed.push(found.entry());
        cache.discard(&found.folder)?;
    }
    for (folder, why) in damaged {
        observer.event(Event::Note(&format!("{} is damaged and was removed: {why}", folder.display())));
        cache.discard(&folder)?;
    }
    Ok(removed)
}

/// The newest whole match in the cache; damaged entries are removed.
fn newest(
    cache: &Cache,
    wanted: &Wanted,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Option<Found>, Problem> {
    let (mut whole, _) = entries(cache)?;
    whole.retain(|found| found.manifest.arch == options.arch && wanted.matches(&found.manifest.version));
    while let Some(found) = whole.pop() {
        match found.checked() {
            Checked::Whole(found) => return Ok(Some(found)),
            Checked::Gone => {}
            Checked::Damaged(found, why) => {
                let version = &found.manifest.version;
                observer.event(Event::Note(&format!(
                    "PostgreSQL {version} of the cache is damaged and was removed: {why}"
                )));
                cache.discard(&found.folder)?;
            }
        }
    }
    Ok(None)
}

/// All entries by version.
fn entries(cache: &Cache) -> Result<(Vec<Found>, Damaged), Problem> {
    let (mut whole, damaged) = scan(&folder(cache))?;
    whole.sort_by(|a: &Found, b| {
        compare(&a.manifest.version, &b.manifest.version).then_with(|| a.folder.cmp(&b.folder))
    });
    Ok((whole, damaged))
}

#[cfg(test)]
mod tests;
