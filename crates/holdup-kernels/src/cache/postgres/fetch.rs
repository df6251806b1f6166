//! PostgreSQL out of Debian's archive.

use super::manifest::{Manifest, Package, ROOT};
use super::suites::{COMPILER, SuiteSet, Wanted, choose, in_order, left_out, listing, major_of, packages};
use super::{PROGRAMS, Stored, tree};
use crate::cache::stored::ManifestFile;
use crate::debian::{Apt, Found, Kind, Request};
use crate::files::{now_unix_ns, problem};
use crate::{Cache, Options};
use holdup_model::{Event, Observer, Problem};
use std::fs;
use std::path::Path;

/// Searches the suites and puts the newest matching version into the cache. The lock must be held.
///
/// # Errors
/// When no suite has it; the hint lists the versions that exist.
pub(super) fn fetch(
    cache: &Cache,
    wanted: &Wanted,
    options: &Options,
    scratch: &Path,
    observer: &mut dyn Observer,
) -> Result<Stored<Manifest>, Problem> {
    let (mut others, mut unread) = (Vec::new(), Vec::new());
    for place in in_order(wanted.major) {
        let apt = Apt::alone(Kind::Packages, cache.root(), options, scratch, place.suites)?;
        let found = match servers(&apt, &place, observer) {
            Ok(found) => found,
            Err(problem) => {
                options.check("fetching PostgreSQL from Debian's archive")?;
                apt.trim();
                unread.push(problem.to_string());
                continue;
            }
        };
        let made = choose(&found, wanted).map(|server| {
            let making = Making { cache, apt: &apt, place, server, major: wanted.major, options, scratch };
            making.make(observer)
        });
        apt.trim();
        if let Some(made) = made {
            return made;
        }
        others.extend(found);
    }
    let what = format!("PostgreSQL `deb:{wanted}`");
    if others.is_empty() {
        return Err(Problem::host(what, format!("no index could be read: {}", unread.join("; "))));
    }
    for why in unread {
        observer.event(Event::Note(&why));
    }
    Err(Problem::host(what, format!("no suite of Debian's archive has it for {}", options.arch))
        .hint(format!("versions: {}", listing(&others))))
}

fn servers(apt: &Apt<'_>, place: &SuiteSet, observer: &mut dyn Observer) -> Result<Vec<Found>, Problem> {
    apt.update(Some(place.suite()), false, observer)?;
    let mut names = apt.names("postgresql-", observer)?;
    names.retain(|name| major_of(name).is_some());
    apt.versions(&names, observer)
}

struct Making<'a> {
    cache: &'a Cache,
    apt: &'a Apt<'a>,
    place: SuiteSet,
    server: &'a Found,
    major: u32,
    options: &'a Options,
    scratch: &'a Path,
}

impl Making<'_> {
    /// Unpacks the server and its dependencies as an entry of the cache.
    fn make(&self, observer: &mut dyn Observer) -> Result<Stored<Manifest>, Problem> {
        let (server, arch) = (self.server, &self.options.arch);
        let to =
            super::folder(self.cache).join(format!("{}-{}-{arch}", self.major, server.version.replace(':', "%3a")));
        if let Ok(mut manifest) = Manifest::read(&to)
            && manifest.check(&to).is_ok()
        {
            manifest.looked_up_unix_ns = now_unix_ns();
            manifest.write(&to)?;
            return Ok(Stored { folder: to, manifest });
        }
        let name = format!("PostgreSQL {}", server.version);
        let left_out = left_out(self.apt.names(COMPILER, observer)?);
        let request = Request { packages: &packages(server, self.major), left_out: &left_out, source: &server.package };
        let solved = self.apt.solve(&request, observer)?;
        let files = self.apt.download_all(&solved, &name, observer)?;
        observer.event(Event::Step(&format!("unpacking {name}")));
        let entry = self.scratch.join("entry");
        let root = entry.join(ROOT);
        tree::begin(&root)?;
        for file in &files {
            self.options.check("unpacking PostgreSQL")?;
            tree::add(file, &root, &self.scratch.join("one"))?;
        }
        self.check_programs(&root)?;
        let packages = solved.into_iter().map(|one| Package {
            name: one.package,
            version: one.version,
            sha256: one.sha256,
            bytes: one.bytes,
        });
        let mut manifest = Manifest::new(self.major, &server.version, arch, self.place.suites, packages.collect());
        manifest.measure(&entry).map_err(|e| problem("folder", &entry, &e))?;
        manifest.write(&entry)?;
        fs::create_dir_all(super::folder(self.cache)).map_err(|e| problem("cache", &to, &e))?;
        self.cache.put(&entry, &to)?;
        Ok(Stored { folder: to, manifest })
    }

    /// Fails when Debian divides the packages in another way.
    fn check_programs(&self, root: &Path) -> Result<(), Problem> {
        let bin = super::bin(root, self.major);
        let missing = PROGRAMS.iter().find(|program| !bin.join(program).is_file());
        let package = &self.server.package;
        match missing {
            Some(program) => Err(Problem::host(
                format!("package {package} {}", self.server.version),
                format!("neither it nor what it depends on has the program {program}"),
            )),
            None => Ok(()),
        }
    }
}
