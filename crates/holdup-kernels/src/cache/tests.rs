use super::*;
use crate::archive::made::{Made, deb, rpm};
use crate::image::tests::{bz_image, efi_image};
use holdup_model::{Event, progress::Silent};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

#[derive(Default)]
struct NoteRecorder(Vec<String>);

impl Observer for NoteRecorder {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Step(text) | Event::Note(text) = event {
            self.0.push(text.to_owned());
        }
    }
}

fn options() -> Options {
    Options { arch: "x86_64".into(), ..Options::default() }
}

fn offline() -> Options {
    Options { offline: true, ..options() }
}

fn a_cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("cache")).unwrap();
    (folder, cache)
}

/// A package file with a kernel, its configuration and one module.
fn package(folder: &Path, release: &str) -> PathBuf {
    let image = bz_image(release);
    let (boot, config) = (format!("./boot/vmlinuz-{release}"), format!("./boot/config-{release}"));
    let module = format!("./lib/modules/{release}/kernel/x.ko");
    let members = [
        Made::File(&boot, &image),
        Made::File(&config, b"CONFIG_PREEMPT=y\n"),
        Made::File(&module, b"module"),
        Made::File("./usr/share/doc/x", b"doc"),
    ];
    let path = folder.join(format!("{release}.deb"));
    fs::write(&path, deb(&format!("linux-image-{release}"), &members)).unwrap();
    path
}

fn as_if_fetched(cache: &Cache, folder: &Path, spec: &str, version: &str, suite: &str) -> Kernel {
    let abi = format!("{}+deb13", crate::debian::version::upstream(version));
    let image = folder.join("image");
    fs::write(&image, bz_image(&format!("{abi}-amd64"))).unwrap();
    let spec = Spec::parse(spec).unwrap();
    let addition =
        Addition { spec: &spec, key: None, image: &image, config: None, modules: None, source: "test".into() };
    let package = Package::Debian { version: version.into(), abi, flavour: None, suite: suite.into() };
    let held = lock::Held::take(cache.root(), "test", &options(), &mut Silent).unwrap();
    cache.store(&held, &addition, Some(package), &options()).unwrap()
}

#[test]
fn a_package_file_becomes_an_entry_that_is_found_again_and_removed() {
    let (folder, cache) = a_cache();
    let path = package(folder.path(), "7.0.1-a");
    let spec = Spec::Deb(path.clone());
    assert_eq!(cache.which_for(&spec, &options()).unwrap(), None);
    let kernel = cache.get(&spec, &options(), &mut Silent).unwrap();
    assert_eq!((kernel.release.as_str(), kernel.arch.as_str()), ("7.0.1-a", "x86_64"));
    assert!(kernel.source.contains("linux-image-7.0.1-a 7.0.1-1 amd64") && kernel.source.contains("not verified"));
    assert_eq!(fs::read(&kernel.image).unwrap(), bz_image("7.0.1-a"));
    assert_eq!((kernel.config.is_some(), kernel.modules.is_some()), (true, false));
    assert_eq!(cache.which_for(&spec, &options()).unwrap().as_ref(), Some(&kernel));
    // The entry has no modules yet.
    let with_modules = Options { modules: true, ..options() };
    assert_eq!(cache.which_for(&spec, &with_modules).unwrap(), None);
    let modules = cache.get(&spec, &with_modules, &mut Silent).unwrap().modules.unwrap();
    assert!(modules.ends_with("modules/7.0.1-a") && modules.join("kernel/x.ko").is_file());
    let entries = cache.list().unwrap();
    assert_eq!(entries.len(), 1);
    assert!(entries[0].bytes > 2700 && entries[0].specs == [spec.to_string()]);
    assert!(cache.remove(&spec, &options(), &mut Silent).unwrap().is_some());
    assert!(cache.remove(&spec, &options(), &mut Silent).unwrap().is_none());
    assert!(cache.list().unwrap().is_empty() && !kernel.image.exists());
    assert!(!cache.root().join("scratch/0").exists());
}

#[test]
fn an_image_for_efi_is_unpacked_for_qemu() {
    let (folder, cache) = a_cache();
    let path = folder.path().join("vmlinuz.efi");
    fs::write(&path, efi_image("7.2.1-a")).unwrap();
    let arm = Options { arch: "aarch64".to_owned(), ..options() };
    let kernel = cache.get(&Spec::File(path.clone()), &arm, &mut Silent).unwrap();
    for _ in 0..2 {
        let plain = cache.bootable(&kernel).unwrap();
        assert_eq!(crate::image::read_image(&plain).unwrap().kind, "Image");
        assert_eq!(cache.part_size(Part::Images).unwrap().count, 1);
    }
    fs::write(&path, bz_image("7.2.1-a")).unwrap();
    let kernel = cache.get(&Spec::File(path.clone()), &options(), &mut Silent).unwrap();
    assert_eq!(cache.bootable(&kernel).unwrap(), kernel.image);
}

#[test]
fn an_rpm_becomes_an_entry() {
    let (folder, cache) = a_cache();
    let path = folder.path().join("x.rpm");
    let image = bz_image("7.0.1-1.x");
    fs::write(&path, rpm(&[("./lib/modules/7.0.1-1.x/vmlinuz", 0o100_755, &image)])).unwrap();
    let kernel = cache.get(&Spec::Rpm(path), &options(), &mut Silent).unwrap();
    assert_eq!(kernel.release, "7.0.1-1.x");
    assert!(kernel.source.starts_with("kernel-core 7.0.1-1.x x86_64"), "{}", kernel.source);
}

#[test]
fn a_damaged_entry_is_refused_and_removed_and_made_anew_unless_offline() {
    let (folder, cache) = a_cache();
    let spec = Spec::Deb(package(folder.path(), "7.0.1-a"));
    for with in [offline(), options()] {
        let kernel = cache.get(&spec, &options(), &mut Silent).unwrap();
        let mut image = fs::read(&kernel.image).unwrap();
        image[1000] ^= 1;
        fs::write(&kernel.image, image).unwrap();
        let mut recorder = NoteRecorder::default();
        let again = cache.get(&spec, &with, &mut recorder);
        if with.offline {
            let problem = again.unwrap_err();
            assert!(problem.why.contains("damaged") && problem.why.contains("SHA-256"), "{problem}");
            assert!(!kernel.image.exists());
        } else {
            assert_eq!(fs::read(again.unwrap().image).unwrap(), bz_image("7.0.1-a"));
            assert!(recorder.0.iter().any(|line| line.contains("damaged")), "{:?}", recorder.0);
        }
    }
    let kernel = cache.get(&spec, &options(), &mut Silent).unwrap();
    fs::write(&kernel.image, "short").unwrap();
    assert!(cache.which_for(&spec, &options()).unwrap_err().why.contains("has 5 bytes and had"));
}

#[test]
fn invalid_manifests_are_reported() {
    let (folder, cache) = a_cache();
    let kernel = cache.get(&Spec::Deb(package(folder.path(), "7.0.1-a")), &options(), &mut Silent).unwrap();
    let manifest = kernel.image.parent().unwrap().join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    for (wrong, says) in [
        (text.replace("\"vmlinuz\"", "\"../../../../etc/passwd\""), "outside it"),
        (text.replace("holdup.kernel/1", "holdup.kernel/9"), "schema"),
        (text[..text.len() / 2].to_owned(), "manifest"),
    ] {
        fs::write(&manifest, wrong).unwrap();
        assert!(cache.list().unwrap().is_empty());
        let damaged = cache.damaged().unwrap();
        assert!(damaged[0].1.contains(says), "{}", damaged[0].1);
    }
    let mut recorder = NoteRecorder::default();
    assert!(cache.remove(&Spec::parse("debian:7.0").unwrap(), &options(), &mut recorder).unwrap().is_none());
    assert!(recorder.0[0].contains("is damaged and was removed: its manifest"), "{:?}", recorder.0);
    assert!(cache.damaged().unwrap().is_empty());
}

#[test]
fn offline_a_spec_is_the_newest_that_is_cached() {
    let (folder, cache) = a_cache();
    for (spec, version, suite) in [
        ("debian:7.0.9", "7.0.9-1", "trixie-backports"),
        ("debian:7.0.13", "7.0.13-1~bpo13+1", "trixie-backports"),
        ("debian:7.1.3", "7.1.3-1", "sid"),
    ] {
        as_if_fetched(&cache, folder.path(), spec, version, suite);
    }
    let release = |spec: &str| {
        let spec = Spec::parse(spec).unwrap();
        cache.get(&spec, &offline(), &mut Silent).map(|kernel| kernel.release)
    };
    assert_eq!(release("debian:7.0").unwrap(), "7.0.13+deb13-amd64");
    assert_eq!(release("debian:7.0.9").unwrap(), "7.0.9+deb13-amd64");
    assert_eq!(release("debian:sid").unwrap(), "7.1.3+deb13-amd64");
    assert_eq!(release("debian:7.0/amd64").unwrap(), "7.0.13+deb13-amd64");
    let problem = release("debian:7.0/rt").unwrap_err();
    assert!(problem.why.contains("--offline") && problem.hint.unwrap().contains("7.1.3+deb13-amd64"));
    let arm = Options { arch: "aarch64".into(), ..offline() };
    assert!(cache.get(&Spec::parse("debian:7.0").unwrap(), &arm, &mut Silent).is_err());
    // A complete version in the cache is not looked up.
    let exact = Spec::parse("debian:7.0.9").unwrap();
    let nowhere = Options { mirror: Some("file:/dev/null/missing".into()), ..options() };
    assert_eq!(cache.get(&exact, &nowhere, &mut Silent).unwrap().release, "7.0.9+deb13-amd64");
}

#[test]
fn a_kernel_that_was_built_is_found_by_what_it_was_made_from() {
    let (folder, cache) = a_cache();
    let image = folder.path().join("bzImage");
    fs::write(&image, bz_image("7.2.1-holdup")).unwrap();
    let spec = Spec::parse("build:debian:7.2,RSEQ_SLICE_EXTENSION=y").unwrap();
    let mut addition =
        Addition { spec: &spec, key: Some("k".into()), image: &image, config: None, modules: None, source: "s".into() };
    let kernel = cache.add(&addition, &options(), &mut Silent).unwrap();
    assert_eq!(cache.made("k").unwrap().as_ref(), Some(&kernel));
    assert_eq!(cache.made("other").unwrap(), None);
    assert_eq!(cache.which_for(&spec, &options()).unwrap(), Some(kernel.clone()));
    let arm = Options { arch: "aarch64".into(), ..options() };
    let problem = cache.add(&addition, &arm, &mut Silent).unwrap_err().to_string();
    assert!(problem.contains("x86_64") && problem.contains("aarch64"), "{problem}");
    fs::write(&kernel.image, "damaged").unwrap();
    assert_eq!(cache.made("k").unwrap(), None);
    fs::write(&image, "no kernel").unwrap();
    addition.key = None;
    assert!(cache.add(&addition, &options(), &mut Silent).unwrap_err().why.contains("not a kernel"));
}

#[test]
fn package_files_without_one_kernel_are_refused() {
    let (folder, cache) = a_cache();
    let path = folder.path().join("x.deb");
    let (a, b) = (bz_image("7.0.1-a"), bz_image("7.0.1-b"));
    let two = [Made::File("./boot/vmlinuz-7.0.1-a", &a), Made::File("./boot/vmlinuz-7.0.1-b", &b)];
    for (members, says) in [
        (&[Made::File("./usr/share/doc/x", b"doc")][..], "no kernel image"),
        (&two, "several kernels"),
        (&[Made::File("./boot/vmlinuz-7.0.1-a", b"text")], "not a kernel"),
        (&[Made::Link("./boot/vmlinuz-7.0.1-a", "/etc/passwd")], "is a link"),
    ] {
        fs::write(&path, deb("linux-image", members)).unwrap();
        let problem = cache.get(&Spec::Deb(path.clone()), &options(), &mut Silent).unwrap_err();
        assert!(problem.why.contains(says), "{problem}");
        assert!(cache.list().unwrap().is_empty());
    }
}

/// The other process of the test below holds the lock until its standard input ends.
#[test]
fn holds_the_lock_for_another_test() {
    let Some(root) = std::env::var_os("HOLDUP_TEST_LOCK") else { return };
    let _held = lock::Held::take(Path::new(&root), "fetching debian:7.0", &options(), &mut Silent).unwrap();
    println!("\nheld");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

#[test]
fn a_second_process_waits_and_says_for_whom() {
    let (folder, cache) = a_cache();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cache::tests::holds_the_lock_for_another_test", "--nocapture"])
        .env("HOLDUP_TEST_LOCK", cache.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "held"));
    let mut release = other.stdin.take().unwrap();
    /// Releases the other process once the wait is reported.
    struct Waiting<'a>(Vec<String>, &'a mut dyn Write);
    impl Observer for Waiting<'_> {
        fn event(&mut self, event: Event<'_>) {
            if let Event::Step(text) = event
                && text.starts_with("waiting")
            {
                self.0.push(text.to_owned());
                self.1.write_all(b"go\n").unwrap();
                self.1.flush().unwrap();
            }
        }
    }
    let mut waiting = Waiting(Vec::new(), &mut release);
    let kernel = cache.get(&Spec::Deb(package(folder.path(), "7.0.1-a")), &options(), &mut waiting).unwrap();
    let begin = format!("waiting for process {} (fetching debian:7.0)", other.id());
    assert!(waiting.0[0].starts_with(&begin), "{:?}", waiting.0);
    assert!(kernel.image.exists() && other.wait().unwrap().success());
    let cancelled = Options { cancel: Some(std::sync::Arc::new(true.into())), ..options() };
    let _held = lock::Held::take(cache.root(), "test", &options(), &mut Silent).unwrap();
    let problem = lock::Held::take(cache.root(), "test", &cancelled, &mut Silent).unwrap_err();
    assert_eq!(problem.kind, holdup_model::ProblemKind::Interrupted);
}

#[test]
fn leftovers_of_a_killed_run_do_not_block_the_next() {
    let (folder, cache) = a_cache();
    fs::create_dir_all(cache.root().join("scratch/0/entry")).unwrap();
    fs::write(cache.root().join("scratch/0/entry/vmlinuz"), "half").unwrap();
    cache.get(&Spec::Deb(package(folder.path(), "7.0.1-a")), &options(), &mut Silent).unwrap();
    assert!(!cache.root().join("scratch/0").exists());
}

#[test]
fn invalid_package_names_never_reach_apt() {
    let (_folder, cache) = a_cache();
    for name in ["", "-o", "a b", "../x", "A", "x/trixie"] {
        assert!(cache.package(name, None, &options(), &mut Silent).is_err(), "{name}");
    }
    assert!(cache.package("x", Some("-t"), &options(), &mut Silent).is_err());
    let problem = cache.package("libpq5", None, &offline(), &mut Silent).unwrap_err();
    assert!(problem.why.contains("--offline"), "{problem}");
}

#[test]
fn a_file_with_the_image_of_an_entry_does_not_take_its_place() {
    let (folder, cache) = a_cache();
    let fetched = as_if_fetched(&cache, folder.path(), "debian:7.0.9", "7.0.9-1", "trixie-backports");
    let spec = Spec::Deb(package(folder.path(), &fetched.release));
    let of_file = cache.get(&spec, &options(), &mut Silent).unwrap();
    assert_eq!(of_file.sha256, fetched.sha256);
    assert_ne!(of_file.image, fetched.image);
    let offline = cache.get(&Spec::parse("debian:7.0").unwrap(), &offline(), &mut Silent).unwrap();
    assert_eq!((offline.image, offline.source.as_str()), (fetched.image, "test"));
    assert_eq!(cache.which_for(&spec, &options()).unwrap(), Some(of_file));
}

#[test]
fn an_entry_that_another_run_replaced_or_removed_is_not_damaged() {
    let (folder, cache) = a_cache();
    let spec = Spec::Deb(package(folder.path(), "7.0.1-a"));
    let kernel = cache.get(&spec, &options(), &mut Silent).unwrap();
    let found = || cache.entries().unwrap().0.remove(0);
    let mut earlier = found();
    // As the manifest was before another run put a new configuration there.
    earlier.manifest.files[0].sha256 = "0".repeat(64);
    assert_eq!(cache.whole(earlier, &spec).unwrap().as_ref(), Some(&kernel));
    let earlier = found();
    fs::remove_dir_all(&earlier.folder).unwrap();
    assert_eq!(cache.whole(earlier, &spec).unwrap(), None);
    assert_eq!(cache.get(&spec, &options(), &mut Silent).unwrap(), kernel);
}

#[test]
fn an_entry_is_there_at_every_moment_while_it_is_replaced() {
    let (_folder, cache) = a_cache();
    let (new, to) = (cache.root().join("new"), cache.root().join("kernels/x"));
    for text in ["1", "2"] {
        fs::create_dir_all(&new).unwrap();
        fs::write(new.join("f"), text).unwrap();
        cache.put(&new, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("f")).unwrap(), text);
    }
    assert!(cache.put(&cache.root().join("absent"), &to).is_err());
    assert!(to.join("f").exists());
}

#[test]
fn the_next_lock_removes_what_killed_runs_left() {
    let (_folder, cache) = a_cache();
    let left = cache.root().join(REMOVED).join("1-1-7.0.1");
    fs::create_dir_all(left.join("modules")).unwrap();
    drop(lock::Held::take(cache.root(), "test", &options(), &mut Silent).unwrap());
    assert!(!left.exists() && cache.root().join(REMOVED).is_dir());
}

#[test]
fn a_cache_that_another_user_can_change_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let top = tempfile::tempdir().unwrap();
    let own = top.path().join("own");
    Cache::open(&own).unwrap();
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    symlink(&own, top.path().join("link")).unwrap();
    let problem = Cache::open(&top.path().join("link")).unwrap_err();
    assert!(problem.hint.unwrap().contains("--cache"));
    assert!(super::is_safe_from_others(&own.join(".cache/holdup")));
    fs::set_permissions(&own, PermissionsExt::from_mode(0o770)).unwrap();
    assert!(Cache::open(&own).unwrap_err().why.contains("other users may write it"));
}

#[test]
#[ignore = "takes root, which alone can give a folder away"]
fn root_uses_no_cache_of_another_user() {
    let top = tempfile::tempdir().unwrap();
    let home = top.path().join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(54_321), None).unwrap();
    for place in [home.clone(), home.join("cache")] {
        let problem = Cache::open(&place).unwrap_err();
        assert!(problem.why.contains("54321"), "{problem}");
    }
    assert!(!super::is_safe_from_others(&home.join(".cache/holdup")));
}

#[test]
fn a_home_that_is_not_there_is_never_made() {
    let top = tempfile::tempdir().unwrap();
    let root_with = |home: &str| {
        let home = top.path().join(home);
        super::root_for(1000, &|name| (name == "HOME").then(|| home.clone()))
    };
    std::fs::create_dir(top.path().join("there")).unwrap();
    assert_eq!(root_with("there"), top.path().join("there/.cache/holdup"));
    assert!(!root_with("missing").starts_with(top.path()));
}
