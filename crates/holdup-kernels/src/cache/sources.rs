//! Debian's source packages of PostgreSQL.
//!
//! `packages/SUITE/NAME_VERSION/` has the files of one: the .dsc, whose sums apt has compared with the signed index, and the
//! archives that it lists.

use super::Cache;
use super::lock::Held;
use super::postgres::BELIEVED_NS;
use super::postgres::suites::{Wanted, choose, in_order, listing};
use crate::Options;
use crate::debian::version::compare;
use crate::debian::{Apt, Found, Kind};
use crate::files::{now_unix_ns, problem, sha256};
use holdup_model::{Event, Observer, Problem, ProblemKind};
use std::fs;
use std::path::{Path, PathBuf};

/// How the name of a source package's description ends.
const DSC: &str = ".dsc";

/// The majors that are listed where one is missing.
const MAJORS: std::ops::RangeInclusive<u32> = 13..=25;

/// The time of the last lookup, ns since 1970.
const LOOKED_UP: &str = "looked-up";

/// A source package in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourcePackage {
    /// `postgresql-18`.
    pub(crate) name: String,
    /// `18.6-1`.
    pub(crate) version: String,
    /// Its .dsc file, which has the sums of the others.
    pub(crate) dsc: PathBuf,
    /// SHA-256 of the .dsc.
    pub(crate) sha256: String,
}

impl SourcePackage {
    fn read(folder: &Path) -> Option<SourcePackage> {
        let mut all = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let dsc = all.find(|path| path.extension().is_some_and(|end| end == "dsc"))?;
        let name = folder.file_name()?.to_str()?.replace("%3a", ":");
        SourcePackage::called(&name, dsc)
    }

    /// A package whose `NAME_VERSION` is known.
    fn called(name: &str, dsc: PathBuf) -> Option<SourcePackage> {
        let (name, version) = name.split_once('_')?;
        let sha256 = sha256(&dsc).ok()?;
        Some(SourcePackage { name: name.to_owned(), version: version.to_owned(), dsc, sha256 })
    }

    /// A .dsc file of the user's; the archives that it lists lie beside it.
    fn of_file(path: &str) -> Result<SourcePackage, Problem> {
        let failed = |why: String| Problem::usage(format!("source package {path}"), why);
        let dsc = fs::canonicalize(path).map_err(|e| failed(e.to_string()))?;
        let name = dsc.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let package = SourcePackage::called(&name, dsc);
        package.filter(|package| package.major() > 0).ok_or_else(|| {
            failed("its name is not that of PostgreSQL's source".to_owned()).hint("such as postgresql-18_18.6-1.dsc")
        })
    }

    /// `18`.
    pub(crate) fn major(&self) -> u32 {
        super::postgres::suites::major_of(&self.name).unwrap_or_default()
    }

    /// The name of the folder in which it is built.
    pub(crate) fn folder_name(&self) -> String {
        format!("{}_{}", self.name, self.version.replace([':', '/'], "_"))
    }

    fn folder(&self) -> &Path {
        self.dsc.parent().unwrap_or(&self.dsc)
    }

    fn age_ns(&self) -> u64 {
        let text = fs::read_to_string(self.folder().join(LOOKED_UP)).unwrap_or_default();
        now_unix_ns().saturating_sub(text.trim().parse().unwrap_or(0))
    }

    fn note_lookup(&self) -> Result<(), Problem> {
        let path = self.folder().join(LOOKED_UP);
        fs::write(&path, now_unix_ns().to_string()).map_err(|e| problem("file", &path, &e))
    }
}

impl Cache {
    /// The newest source package of a PostgreSQL version (`18`, `18.6`), from the cache or from Debian's archive, or one that is
    /// named by the path of its .dsc, which nothing verifies. A newer one
    /// is looked up once a week; if the archive cannot be reached, the cached one is used, with a note.
    ///
    /// # Errors
    /// When no suite has it (the hint lists the versions), or it cannot be fetched. Offline, when it is not cached.
    pub(crate) fn postgres_source(
        &self,
        version: &str,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<SourcePackage, Problem> {
        if version.ends_with(DSC) {
            return SourcePackage::of_file(version);
        }
        let wanted = Wanted::parse(version)?;
        let kept = self.kept_source(&wanted);
        let is_enough =
            |kept: &SourcePackage| options.offline || wanted.is_exactly(&kept.version) || kept.age_ns() < BELIEVED_NS;
        match kept {
            Some(kept) if is_enough(&kept) => return Ok(kept),
            None if options.offline => {
                let why = format!("it is not in the cache {}, and nothing may be fetched", self.root.display());
                return Err(Problem::host(format!("source of PostgreSQL {wanted}"), why)
                    .hint(format!("without --offline it is fetched: holdup postgres build {wanted}")));
            }
            _ => {}
        }
        let held = Held::take(&self.root, &format!("fetching the source of PostgreSQL {wanted}"), options, observer)?;
        let scratch = held.scratch()?;
        match (self.fetch_source(&wanted, options, scratch.path(), observer), kept) {
            (Err(why), Some(kept)) if why.kind != ProblemKind::Interrupted => {
                observer.event(Event::Note(&format!("the source {} of the cache is used; {why}", kept.version)));
                Ok(kept)
            }
            (fetched, _) => fetched,
        }
    }

    fn fetch_source(
        &self,
        wanted: &Wanted,
        options: &Options,
        scratch: &Path,
        observer: &mut dyn Observer,
    ) -> Result<SourcePackage, Problem> {
        let (mut others, mut unread) = (Vec::new(), Vec::new());
        for place in in_order(wanted.major) {
            let suite = place.suite();
            let apt = Apt::alone(Kind::Sources, &self.root, options, scratch, &[suite])?;
            let names: Vec<String> = MAJORS.map(|major| format!("postgresql-{major}")).collect();
            let found = apt.update(Some(suite), false, observer).and_then(|()| apt.versions(&names, observer));
            let found = match found {
                Ok(found) => found,
                Err(problem) => {
                    options.check("fetching the source of PostgreSQL")?;
                    unread.push(problem.to_string());
                    continue;
                }
            };
            let fetched = choose(&found, wanted).map(|one| self.keep_source(&apt, one, scratch, observer));
            apt.trim();
            if let Some(fetched) = fetched {
                return fetched;
            }
            others.extend(found);
        }
        let what = format!("source of PostgreSQL {wanted}");
        if others.is_empty() {
            return Err(Problem::host(what, format!("no index of sources could be read: {}", unread.join("; ")))
                .hint("has the archive deb-src? --mirror URL names another"));
        }
        Err(Problem::host(what, "no suite of Debian's archive has it").hint(format!("versions: {}", listing(&others))))
    }

    fn keep_source(
        &self,
        apt: &Apt<'_>,
        found: &Found,
        scratch: &Path,
        observer: &mut dyn Observer,
    ) -> Result<SourcePackage, Problem> {
        let name = format!("{}_{}", found.package, found.version.replace(':', "%3a"));
        let suite = self.root.join("packages").join(&found.suite);
        let to = suite.join(&name);
        if let Some(here) = SourcePackage::read(&to) {
            here.note_lookup()?;
            return Ok(here);
        }
        let new = scratch.join(&name);
        apt.download_source(found, &new, observer).map_err(|problem| {
            problem
                .hint("where the archive lists it and does not have it: --mirror URL, or the path of a .dsc as version")
        })?;
        let package = SourcePackage::read(&new)
            .ok_or_else(|| Problem::host(format!("source package {name}"), "apt fetched no .dsc file"))?;
        package.note_lookup()?;
        fs::create_dir_all(&suite).map_err(|e| problem("folder", &suite, &e))?;
        self.put(&new, &to)?;
        SourcePackage::read(&to).ok_or_else(|| Problem::internal(name, "it is gone"))
    }

    /// The newest in the cache.
    fn kept_source(&self, wanted: &Wanted) -> Option<SourcePackage> {
        let suites = fs::read_dir(self.root.join("packages")).into_iter().flatten().flatten();
        let begin = format!("postgresql-{}_", wanted.major);
        suites
            .flat_map(|suite| fs::read_dir(suite.path()).into_iter().flatten().flatten())
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin))
            .filter_map(|entry| SourcePackage::read(&entry.path()))
            .filter(|package| wanted.matches(&package.version))
            .max_by(|a, b| compare(&a.version, &b.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::progress::Silent;

    #[test]
    fn the_newest_kept_source_is_used_offline_and_what_is_missing_says_how_to_fetch_it() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let options = Options { offline: true, ..Options::default() };
        let of = |version: &str| cache.postgres_source(version, &options, &mut Silent);
        let missing = of("18").unwrap_err();
        assert!(missing.hint.unwrap().contains("holdup postgres build 18"));
        for (suite, version) in [("forky", "18.5-1"), ("sid", "18.10-1")] {
            let place = folder.path().join(format!("packages/{suite}/postgresql-18_{version}"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(format!("postgresql-18_{version}.dsc")), version).unwrap();
        }
        let is = of("18").unwrap();
        assert_eq!((is.name.as_str(), is.version.as_str()), ("postgresql-18", "18.10-1"));
        assert_eq!(of("18.5").unwrap().version, "18.5-1");
        assert!(of("17").is_err() && of("newest").is_err());
        let own = folder.path().join("postgresql-17_17.11-0+deb13u1.dsc");
        assert!(of(own.to_str().unwrap()).is_err());
        fs::write(&own, "x").unwrap();
        let is = of(own.to_str().unwrap()).unwrap();
        assert_eq!((is.major(), is.version.as_str()), (17, "17.11-0+deb13u1"));
        fs::write(folder.path().join("other_1.dsc"), "x").unwrap();
        assert!(of(folder.path().join("other_1.dsc").to_str().unwrap()).unwrap_err().hint.is_some());
    }
}
