use super::manifest::Package;
use super::*;
use crate::cache::stored::ManifestFile;
use holdup_model::ProblemKind;
use holdup_model::progress::Silent;
use std::fs;

struct NoteRecorder(Vec<String>);

impl Observer for NoteRecorder {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Note(text) = event {
            self.0.push(text.to_owned());
        }
    }
}

fn offline() -> Options {
    Options { offline: true, arch: "x86_64".into(), ..Options::default() }
}

fn keep(cache: &Cache, major: u32, version: &str, arch: &str) -> PathBuf {
    let entry = folder(cache).join(format!("{major}-{version}-{arch}"));
    let root = entry.join(ROOT);
    tree::begin(&root).unwrap();
    fs::create_dir_all(bin(&root, major)).unwrap();
    for program in PROGRAMS {
        fs::write(bin(&root, major).join(program), program).unwrap();
    }
    let package = Package { name: "dash".into(), version: "1".into(), sha256: "0".into(), bytes: 3 };
    let mut manifest = Manifest::new(major, version, arch, &["sid", "experimental"], vec![package.clone(), package]);
    manifest.measure(&entry).unwrap();
    manifest.write(&entry).unwrap();
    entry
}

#[test]
fn offline_the_newest_cached_version_is_used() {
    let top = tempfile::tempdir().unwrap();
    let cache = Cache::open(top.path()).unwrap();
    let none = postgres("17", &cache, &offline(), &mut Silent).unwrap_err();
    assert_eq!((none.kind, none.hint), (ProblemKind::Host, None));
    for version in ["17.9-1", "17.11-0+deb13u1"] {
        keep(&cache, 17, version, "x86_64");
    }
    keep(&cache, 17, "17.12-1", "aarch64");
    keep(&cache, 19, "19~rc1-1", "x86_64");
    let version = |wanted: &str| postgres(wanted, &cache, &offline(), &mut Silent).map(|root| root.version);
    assert_eq!(version("17").unwrap(), "17.11-0+deb13u1");
    assert_eq!(version("17.9").unwrap(), "17.9-1");
    assert_eq!(version("19rc").unwrap(), "19~rc1-1");
    let hint = version("18").unwrap_err().hint.unwrap();
    assert_eq!(hint, "the cache has 17.9, 17.11, 19~rc1");
    let root = postgres("19", &cache, &offline(), &mut Silent).unwrap();
    assert_eq!(root.bin, root.root.join("usr/lib/postgresql/19/bin"));
    assert!(root.bin.join("postgres").is_file());
    assert_eq!(root.source, "postgresql-19 19~rc1-1 amd64 (experimental) with 1 other packages");
    let specs: Vec<String> = postgres_kept(&cache).unwrap().into_iter().map(|entry| entry.spec).collect();
    assert_eq!(specs, ["deb:17.9", "deb:17.11", "deb:17.12", "deb:19~rc1"]);
}

#[test]
fn a_recent_entry_is_used_without_a_lookup() {
    let top = tempfile::tempdir().unwrap();
    let cache = Cache::open(top.path()).unwrap();
    let entry = keep(&cache, 17, "17.11-1", "x86_64");
    // Every request to this archive fails or is reported.
    let options = Options { offline: false, mirror: Some("not an address".into()), ..offline() };
    let mut recorder = NoteRecorder(Vec::new());
    postgres("17", &cache, &options, &mut recorder).unwrap();
    assert!(recorder.0.is_empty(), "{:?}", recorder.0);
    let mut manifest = Manifest::read(&entry).unwrap();
    manifest.looked_up_unix_ns = 0;
    manifest.write(&entry).unwrap();
    postgres("17.11", &cache, &options, &mut recorder).unwrap();
    assert!(recorder.0.is_empty(), "{:?}", recorder.0);
    assert_eq!(postgres("17", &cache, &options, &mut recorder).unwrap().version, "17.11-1");
    assert!(recorder.0.iter().any(|note| note.contains("17.11-1 of the cache is used")), "{:?}", recorder.0);
}

#[test]
fn a_damaged_entry_is_removed_and_reported() {
    let top = tempfile::tempdir().unwrap();
    let cache = Cache::open(top.path()).unwrap();
    let entry = keep(&cache, 17, "17.11-1", "x86_64");
    fs::write(entry.join(ROOT).join("usr/lib/postgresql/17/bin/initdb"), "").unwrap();
    let mut recorder = NoteRecorder(Vec::new());
    assert!(postgres("17", &cache, &offline(), &mut recorder).is_err());
    assert!(recorder.0[0].contains("initdb has 0 bytes and had 6"), "{:?}", recorder.0);
    assert!(!entry.exists());
}

#[test]
fn only_the_matching_versions_are_removed() {
    let top = tempfile::tempdir().unwrap();
    let cache = Cache::open(top.path()).unwrap();
    keep(&cache, 17, "17.11-1", "x86_64");
    keep(&cache, 18, "18.6-3", "x86_64");
    let broken = folder(&cache).join("16-16.1-1-x86_64");
    fs::create_dir_all(&broken).unwrap();
    assert_eq!(postgres_kept(&cache).unwrap().len(), 2);
    let removed = postgres_remove("17", &cache, &offline(), &mut Silent).unwrap();
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0].root.version, "17.11-1");
    assert!(!broken.exists() && !removed[0].root.root.exists());
    let left = postgres_kept(&cache).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].spec, "deb:18.6");
    assert!(postgres_remove("no version", &cache, &offline(), &mut Silent).is_err());
}
