//! PostgreSQL servers that were built here.
//!
//! `servers/VERSION-KEY/` has `root/` with `bin`, `lib` and `share`, which may be copied elsewhere: PostgreSQL finds its folders
//! from its program (`make_relative_path`, src/port/path.c, 17 to 19).

use super::Cache;
use super::lock::Held;
use super::manifest::Sum;
use super::stored::{Checked, Damaged, FILE, ManifestFile, Stored, scan};
use crate::Options;
use crate::files::{below, now_unix_ns, problem, sha256, write_manifest};
use holdup_model::{Event, Observer, Problem};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "holdup.server/1";
const ROOT: &str = "root";
const FOLDER: &str = "servers";

/// A server that was built here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltServer {
    /// The version of Debian's source package: `18.6-1`.
    pub version: String,
    /// As a plan names it: `stock`, `patches/NAME[,patches/NAME…]`.
    pub build: String,
    /// The folder with `bin`, `lib` and `share`.
    pub root: PathBuf,
    /// As `uname -m` prints it.
    pub arch: String,
    /// Source, flags, patches and compiler.
    pub source: String,
    /// A hash over all that it was built from.
    pub key: String,
    /// Its size on disk.
    pub bytes: u64,
    /// When it was built, since 1970.
    pub built_unix_ns: u64,
}

impl BuiltServer {
    /// The folder of its programs.
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Manifest {
    schema: String,
    server: BuiltServer,
    files: Vec<Sum>,
}

impl ManifestFile for Manifest {
    const SCHEMA: &'static str = SCHEMA;

    fn schema(&self) -> &String {
        &self.schema
    }

    fn paths(&self) -> Vec<&PathBuf> {
        self.files.iter().map(|file| &file.path).collect()
    }

    /// Compares the sums of all files: a measurement must not run a program that somebody changed.
    fn check(&self, entry: &Path) -> Result<(), String> {
        let here = sums(&entry.join(ROOT)).map_err(|e| e.to_string())?;
        if let Some(file) = self.files.iter().find(|file| !here.iter().any(|is| is.path == file.path)) {
            return Err(format!("{} is missing", file.path.display()));
        }
        let changed =
            here.iter().find(|is| !self.files.iter().any(|file| file.path == is.path && file.sha256 == is.sha256));
        changed.map_or(Ok(()), |file| Err(format!("{} is not as it was built", file.path.display())))
    }
}

/// Files and links below a folder; a link's sum is that of its text.
fn sums(root: &Path) -> io::Result<Vec<Sum>> {
    let mut all = Vec::new();
    for path in below(root)? {
        let full = root.join(&path);
        let meta = fs::symlink_metadata(&full)?;
        let sha256 = match meta.is_symlink() {
            true => format!("-> {}", fs::read_link(&full)?.display()),
            false => sha256(&full)?,
        };
        all.push(Sum { bytes: meta.len(), sha256, path });
    }
    Ok(all)
}

type Found = Stored<Manifest>;

impl Found {
    fn server(&self) -> BuiltServer {
        let bytes = self.manifest.files.iter().map(|file| file.bytes).sum();
        BuiltServer { root: self.folder.join(ROOT), bytes, ..self.manifest.server.clone() }
    }
}

impl Cache {
    fn built(&self) -> Result<(Vec<Found>, Damaged), Problem> {
        scan(&self.root.join(FOLDER))
    }

    /// All built servers, by version and build. The second list has the folders of damaged ones, each with the reason.
    pub fn built_servers(&self) -> Result<(Vec<BuiltServer>, Damaged), Problem> {
        let (whole, damaged) = self.built()?;
        let mut all: Vec<BuiltServer> = whole.iter().map(Found::server).collect();
        all.sort_by(|a, b| crate::debian::version::compare(&a.version, &b.version).then_with(|| a.build.cmp(&b.build)));
        Ok((all, damaged))
    }

    /// The server with this key. One whose files changed is removed, with a note.
    pub(crate) fn built_server(&self, key: &str, observer: &mut dyn Observer) -> Result<Option<BuiltServer>, Problem> {
        let (whole, _) = self.built()?;
        let Some(found) = whole.into_iter().find(|found| found.manifest.server.key == key) else { return Ok(None) };
        match found.checked() {
            Checked::Whole(found) => Ok(Some(found.server())),
            Checked::Gone => Ok(None),
            Checked::Damaged(found, why) => {
                let server = found.server();
                let text = format!(
                    "PostgreSQL {} ({}) of the cache was changed and is built again: {why}",
                    server.version, server.build
                );
                observer.event(Event::Note(&text));
                self.discard(&found.folder).map(|()| None)
            }
        }
    }

    /// Moves an installed server into the cache. `installed` must be on the cache's file system.
    pub(crate) fn add_server(
        &self,
        server: BuiltServer,
        installed: &Path,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<BuiltServer, Problem> {
        let held = Held::take(&self.root, &format!("adding PostgreSQL {}", server.version), options, observer)?;
        let scratch = held.scratch()?;
        let entry = scratch.path().join("entry");
        let failed = |e: io::Error| problem("cache", &self.root, &e);
        fs::create_dir_all(&entry).and_then(|()| fs::rename(installed, entry.join(ROOT))).map_err(failed)?;
        let short = server.key.get(..8).unwrap_or_default();
        let to = self.root.join(FOLDER).join(format!("{}-{short}", server.version.replace(':', "%3a")));
        let server = BuiltServer { root: PathBuf::from(ROOT), built_unix_ns: now_unix_ns(), ..server };
        let files = sums(&entry.join(ROOT)).map_err(failed)?;
        let manifest = Manifest { schema: SCHEMA.to_owned(), server, files };
        write_manifest(&manifest, &entry.join(FILE))?;
        fs::create_dir_all(self.root.join(FOLDER)).map_err(failed)?;
        self.put(&entry, &to)?;
        Ok(Stored { folder: to, manifest }.server())
    }

    /// Removes and returns the built servers that `fits` chooses, and damaged ones, with a note for each.
    pub fn remove_servers(
        &self,
        fits: impl Fn(&BuiltServer) -> bool,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Vec<BuiltServer>, Problem> {
        let _held = Held::take(&self.root, "removing built PostgreSQL servers", options, observer)?;
        let (whole, damaged) = self.built()?;
        for (folder, why) in damaged {
            observer.event(Event::Note(&format!("{} is damaged and was removed: {why}", folder.display())));
            self.discard(&folder)?;
        }
        let mut removed = Vec::new();
        for found in whole {
            let server = found.server();
            if fits(&server) {
                self.discard(&found.folder)?;
                removed.push(server);
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::progress::Silent;

    #[derive(Default)]
    struct Notes(String);

    impl Observer for Notes {
        fn event(&mut self, event: Event<'_>) {
            if let Event::Note(text) = event {
                self.0.push_str(text);
            }
        }
    }

    fn add(cache: &Cache, build: &str, key: &str) -> BuiltServer {
        let installed = cache.root().join("installed");
        fs::create_dir_all(installed.join("bin")).unwrap();
        fs::write(installed.join("bin/postgres"), build).unwrap();
        std::os::unix::fs::symlink("postgres", installed.join("bin/postmaster")).unwrap();
        let server = BuiltServer {
            version: "18.6-1".to_owned(),
            build: build.to_owned(),
            root: PathBuf::new(),
            arch: "x86_64".to_owned(),
            source: "a test".to_owned(),
            key: key.to_owned(),
            bytes: 0,
            built_unix_ns: 0,
        };
        cache.add_server(server, &installed, &Options::default(), &mut Silent).unwrap()
    }

    #[test]
    fn a_server_is_found_by_its_key_and_one_that_was_changed_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let (stock, other) = (add(&cache, "stock", "aaaaaaaaaa"), add(&cache, "patches/x", "bbbbbbbbbb"));
        assert_eq!(cache.built_server("aaaaaaaaaa", &mut Silent).unwrap(), Some(stock.clone()));
        assert_eq!(cache.built_server("cccccccccc", &mut Silent).unwrap(), None);
        let program = stock.bin().join("postgres");
        let changes: [&dyn Fn(); 3] =
            [&|| fs::write(&program, "STOCK").unwrap(), &|| fs::remove_file(&program).unwrap(), &|| {
                fs::write(stock.bin().join("more"), "").unwrap();
            }];
        for change in changes {
            add(&cache, "stock", "aaaaaaaaaa");
            change();
            let mut notes = Notes::default();
            assert_eq!(cache.built_server("aaaaaaaaaa", &mut notes).unwrap(), None);
            assert!(notes.0.contains("18.6-1 (stock)") && notes.0.contains("changed"), "{}", notes.0);
            assert!(!stock.root.exists());
        }
        let removed = cache.remove_servers(|server| server.build == "patches/x", &Options::default(), &mut Silent);
        assert_eq!(removed.unwrap(), [other]);
        assert_eq!(cache.built_servers().unwrap(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_folder_without_a_manifest_is_damaged_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join("servers/18.6-1-x/root/bin")).unwrap();
        assert_eq!(cache.built_servers().unwrap().1.len(), 1);
        let mut notes = Notes::default();
        cache.remove_servers(|_| false, &Options::default(), &mut notes).unwrap();
        assert!(notes.0.contains("damaged"));
        assert_eq!(cache.built_servers().unwrap().1.len(), 0);
    }
}
