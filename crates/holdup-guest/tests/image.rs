//! Images as a whole: the bytes of archives, what is refused, what the cache does.
use holdup_guest::image::{Image, ImageRequest, PostgresFiles, assemble};
use holdup_model::progress::Silent;
use holdup_model::{Event, Observer, Problem};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A static program that does nothing, as an ELF file for x86-64: a header and no segments.
fn static_program() -> Vec<u8> {
    let mut elf = vec![0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16..20].copy_from_slice(&[2, 0, 62, 0]);
    elf[20] = 1;
    elf[52..56].copy_from_slice(&[64, 0, 56, 0]);
    elf
}

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("agent"), static_program()).unwrap();
        World(top)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn request(&self) -> ImageRequest {
        ImageRequest {
            agent: self.at("agent"),
            postgres: None,
            more_postgres: Vec::new(),
            programs: Vec::new(),
            modules: None,
            extra: Vec::new(),
            facts: vec![("/etc/holdup/plan".to_owned(), "a plan\n".to_owned())],
            template: None,
        }
    }

    fn assemble(&self, request: &ImageRequest) -> Result<Image, Problem> {
        assemble(request, &self.at("images"), &mut Silent)
    }
}

/// What cpio(1) lists; `None` where it is not installed.
fn listed(image: &Path) -> Option<Vec<String>> {
    let input = std::fs::File::open(image).unwrap();
    let done = Command::new("cpio").args(["-t", "--quiet"]).stdin(input).stderr(Stdio::piped()).output().ok()?;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect())
}

fn the_same_content_is_the_same_bytes_anywhere() {
    let images: Vec<Image> = [World::new(), World::new()]
        .iter()
        .map(|world| {
            let mut request = world.request();
            std::fs::create_dir_all(world.at("extra/sub")).unwrap();
            std::fs::write(world.at("extra/sub/file"), "x").unwrap();
            std::os::unix::fs::symlink(".", world.at("extra/sub/again")).unwrap();
            request.extra.push((world.at("extra"), "/opt/extra".into()));
            let image = world.assemble(&request).unwrap();
            assert!(!image.cached);
            if let Some(names) = listed(&image.path) {
                for name in
                    ["init", "dev/console", "dev/null", "dev/shm", "etc/holdup/plan", "opt/extra/sub/file", "lib"]
                {
                    assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
                }
                let mut sorted = names.clone();
                sorted.sort();
                assert_eq!(names, sorted);
            }
            assert_eq!(std::fs::metadata(&image.path).unwrap().len(), image.bytes);
            image
        })
        .collect();
    assert_eq!(images[0].sha256, images[1].sha256);
    assert_eq!(images[0].files, images[1].files);
    assert_ne!(images[0].path.file_name(), images[1].path.file_name(), "the files are others");
}

fn an_image_is_kept_until_something_changes() {
    let world = World::new();
    let mut request = world.request();
    let first = world.assemble(&request).unwrap();
    let again = world.assemble(&request).unwrap();
    assert!(again.cached && again.sha256 == first.sha256 && again.path == first.path);
    request.facts[0].1.push('x');
    let other = world.assemble(&request).unwrap();
    assert!(!other.cached && other.sha256 != first.sha256);
    // The same content in a file that was written again is another image by name, and the same bytes.
    request.facts[0].1.pop();
    std::fs::write(world.at("agent2"), static_program()).unwrap();
    std::fs::rename(world.at("agent2"), world.at("agent")).unwrap();
    let rewritten = world.assemble(&request).unwrap();
    assert!(!rewritten.cached);
    assert_eq!(rewritten.sha256, first.sha256);
}

#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Note(text) = event {
            self.0.push(text.to_owned());
        }
    }
}

fn a_kept_image_that_was_tampered_with_is_made_again() {
    let world = World::new();
    let request = world.request();
    let first = world.assemble(&request).unwrap();
    let whole = std::fs::read(&first.path).unwrap();
    let mut notes = Notes::default();
    let mut damage = |bytes: &[u8], word: &str| {
        std::fs::write(&first.path, bytes).unwrap();
        let again = assemble(&request, &world.at("images"), &mut notes).unwrap();
        assert!(!again.cached);
        assert_eq!(std::fs::read(&again.path).unwrap(), whole);
        assert!(notes.0.last().unwrap().contains(word), "{:?}", notes.0);
    };
    let mut turned = whole.clone();
    turned[200] ^= 1;
    damage(&turned, "was changed");
    damage(&whole[..whole.len() - 4], "size");
    // Written again with the same content: read in full, found to be right.
    std::fs::write(&first.path, &whole).unwrap();
    assert!(world.assemble(&request).unwrap().cached);
    std::fs::write(first.path.with_extension("json"), "{").unwrap();
    assert!(!world.assemble(&request).unwrap().cached);
}

fn eight_images_are_kept_and_leftovers_go() {
    let world = World::new();
    let mut request = world.request();
    std::fs::create_dir_all(world.at("images")).unwrap();
    std::fs::write(world.at("images/0123.part"), "left by a killed process").unwrap();
    let mut last = None;
    for number in 0..11 {
        request.facts[0].1 = number.to_string();
        last = Some(world.assemble(&request).unwrap().path);
    }
    let mut names: Vec<PathBuf> = std::fs::read_dir(world.at("images")).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let images: Vec<&PathBuf> = names.iter().filter(|p| p.extension().is_some_and(|e| e == "cpio")).collect();
    assert_eq!(images.len(), 8, "{names:?}");
    assert!(images.contains(&&last.unwrap()));
    assert!(!names.iter().any(|p| p.extension().is_some_and(|e| e == "part")), "{names:?}");
}

fn two_at_once_share_a_cache() {
    let world = World::new();
    let request = world.request();
    let images: Vec<Image> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| world.assemble(&request).unwrap())).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(images.iter().filter(|image| !image.cached).count(), 1);
    assert!(images.iter().all(|image| image.sha256 == images[0].sha256));
}

fn a_program_brings_what_it_needs() {
    let world = World::new();
    let mut request = world.request();
    let (me, sh) = (std::env::current_exe().unwrap(), PathBuf::from("/bin/sh"));
    // The agent of this host's machine, so that the shell fits it.
    let mut agent = static_program();
    agent[18..20].copy_from_slice(&std::fs::read(&me).unwrap()[18..20]);
    std::fs::write(world.at("agent"), agent).unwrap();
    std::fs::write(world.at("script"), "#! /usr/bin/env -S sh -e\ntrue\n").unwrap();
    request.programs = vec![sh, world.at("script")];
    let image = world.assemble(&request).unwrap();
    if let Some(names) = listed(&image.path) {
        for ending in ["bin/sh", "bin/env", "script", "/libc.so.6"] {
            assert!(names.iter().any(|n| n.ends_with(ending)), "{ending} in {names:?}");
        }
    }
}

fn what_cannot_go_into_an_image_is_refused_by_name() {
    let world = World::new();
    let refused = |change: &dyn Fn(&mut ImageRequest)| {
        let mut request = world.request();
        change(&mut request);
        world.assemble(&request).unwrap_err().to_string()
    };
    let has = |said: String, words: &[&str]| {
        for word in words {
            assert!(said.contains(word), "`{word}` in `{said}`");
        }
    };
    has(refused(&|r| r.agent = "/nowhere/agent".into()), &["/nowhere/agent"]);
    has(refused(&|r| r.agent = "/bin/sh".into()), &["agent /bin/sh", "must be static", "hint:"]);
    has(refused(&|r| r.programs.push("sh".into())), &["program sh", "slash"]);
    has(refused(&|r| r.programs.push("/nowhere/tool".into())), &["program /nowhere/tool", "hint:"]);
    std::fs::File::create(world.at("text")).unwrap().write_all(b"just text").unwrap();
    let text = world.at("text");
    has(refused(&|r| r.programs.push(text.clone())), &["text", "neither an ELF file nor a script"]);
    has(refused(&|r| r.facts.push(("relative".to_owned(), String::new()))), &["`relative`", "slash"]);
    has(refused(&|r| r.facts.push(("/etc".to_owned(), String::new()))), &["/etc in the guest"]);
    has(refused(&|r| r.extra.push(("/nowhere/x".into(), "/x".into()))), &["/nowhere/x"]);
    has(refused(&|r| r.extra.push(("/dev/null".into(), "/x".into()))), &["/dev/null", "neither"]);
    has(
        refused(&|r| r.postgres = Some(PostgresFiles::Bin(world.at("")))),
        &["no program `postgres`", "hint:"].map(|w| if w.starts_with("no") { "no program" } else { w }),
    );
    let mut arm = static_program();
    arm[18] = 183;
    std::fs::write(world.at("arm"), &arm).unwrap();
    std::fs::set_permissions(world.at("arm"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let arm = world.at("arm");
    has(refused(&|r| r.programs.push(arm.clone())), &["arm64", "the guest is x86-64"]);
}

holdup_testkit::tests!(
    the_same_content_is_the_same_bytes_anywhere,
    an_image_is_kept_until_something_changes,
    a_kept_image_that_was_tampered_with_is_made_again,
    eight_images_are_kept_and_leftovers_go,
    two_at_once_share_a_cache,
    a_program_brings_what_it_needs,
    what_cannot_go_into_an_image_is_refused_by_name
);
