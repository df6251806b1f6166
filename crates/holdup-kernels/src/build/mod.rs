//! Building kernels from a source, a configuration, options and patches.
//!
//! A build is identified by all its inputs (`key.rs`); the cache returns one that exists. Each source has a folder below the
//! cache that keeps its objects, so another option or patch recompiles only what changes.

mod config;
mod debian;
mod folder;
mod kconfig;
mod key;
mod make;
mod patches;
mod server;
mod source;
mod tools;
mod tree;

pub use folder::{Folder, folders, remove};
pub use patches::{CARRIED, Carried};
pub use server::{CARRIED_SERVER, CarriedServer, STOCK, ServerSpec, Tests, server};

use crate::files::check_room;
use crate::{Addition, BuildSpec, Cache, Kernel, Options, Spec};
use config::Fragment;
use folder::Held;
use holdup_model::{Event, Observer, Problem};
use key::Ingredients;
pub use make::{Call, run as run_builder};
use patches::Patch;
use source::Version;
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::Tools;
use tree::Tree;

/// The configuration of specs that name none.
pub const DEFAULT_CONFIG: &str = "guest-small";

const GUEST_SMALL: &str = include_str!("../../configs/guest-small.config");

/// The first line of a complete `.config`, as make writes it.
const WHOLE_CONFIG: &str = "# Automatically generated file; DO NOT EDIT.";

/// The disk space of a build: source and objects of guest-small, measured with 7.2.12.
const ROOM_BYTES: u64 = 3 << 30;

/// Environment variables that would change the build. Source: `Documentation/kbuild/kbuild.rst`,
/// `Documentation/kbuild/kconfig.rst` (v7.2).
const CLEARED_VARIABLES: &[&str] = &[
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "ARCH",
    "SUBARCH",
    "CROSS_COMPILE",
    "LLVM",
    "LLVM_IAS",
    // Of PostgreSQL's Makefile.global.
    "COPT",
    "PROFILE",
    "CUSTOM_COPT",
    "DESTDIR",
    "CC",
    "HOSTCC",
    "LD",
    "KCPPFLAGS",
    "KAFLAGS",
    "KCFLAGS",
    "HOSTCFLAGS",
    "HOSTLDFLAGS",
    "KBUILD_OUTPUT",
    "KBUILD_EXTMOD",
    "KBUILD_VERBOSE",
    "KCONFIG_CONFIG",
    "KCONFIG_ALLCONFIG",
    "KCONFIG_OVERWRITECONFIG",
    "LOCALVERSION",
    "O",
    "V",
    "W",
    "C",
];

/// A requested configuration.
struct Request {
    name: String,
    /// A complete `.config`, if the spec names one.
    base: Option<String>,
    fragment: Fragment,
}

enum Origin {
    /// A user's tree, which is never written.
    Tree(PathBuf),
    Package(debian::Package),
}

/// Builds a kernel, or returns the one with the same inputs.
///
/// # Errors
/// When the source is not available, a tool is missing (with the package to install), an option or a patch has no effect, make
/// fails (with its error lines and the path of the log), or `options.cancel` is set, which ends make.
pub fn build(
    spec: &BuildSpec,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Kernel, Problem> {
    if options.arch != "x86_64" || std::env::consts::ARCH != "x86_64" {
        let why = format!("holdup builds kernels for x86_64 on x86_64, not for {} here", options.arch);
        return Err(Problem::usage(format!("kernel `build:{spec}`"), why));
    }
    let request = request(spec)?;
    let origin = match spec.source.strip_prefix("debian:") {
        Some(version) => Origin::Package(debian::package(version, cache, options, observer)?),
        None => Origin::Tree(source::tree(&spec.source)?),
    };
    let (version, state) = match &origin {
        Origin::Tree(tree) => (Version::of_tree(tree)?, source::state(tree)?),
        Origin::Package(package) => (package.kernel()?, package.state()),
    };
    let patches = spec.patches.iter().map(|name| Patch::find(name, &version)).collect::<Result<Vec<Patch>, _>>()?;
    let tools = Tools::versions()?;
    let config = format!("{}\n{}", request.base.as_deref().unwrap_or_default(), request.fragment.text());
    let ingredients =
        Ingredients { source: &state, arch: &options.arch, config: &config, patches: &patches, tools: &tools.versions };
    let key = ingredients.key();
    if let Some(kernel) = cache.made(&key)? {
        return Ok(kernel);
    }
    Tools::check(&request.fragment, !patches.is_empty())?;
    check_room(cache.root(), ROOM_BYTES, &format!("build:{spec}"))?;
    let name = match &origin {
        Origin::Tree(tree) => format!("tree-{}", &key::hex_digest(tree.as_os_str().as_encoded_bytes())[..16]),
        Origin::Package(package) => package.id().replace(['/', ':'], "_"),
    };
    let held = folder::hold(cache, &name, options, observer)?;
    // The previous holder may have built the same.
    if let Some(kernel) = cache.made(&key)? {
        return Ok(kernel);
    }
    let sources = prepare(&origin, &held, &state, &patches, options, observer)?;
    let work = Work { held: &held, sources: &sources, version: &version, key: &key, options };
    work.configure(&request, observer)?;
    work.make(observer)?;
    if let Origin::Tree(tree) = &origin {
        unchanged(tree, &state, &held)?;
    }
    let mut parts = vec![origin_title(&origin, &version, &state), request.name];
    parts.extend(spec.options.iter().map(|(name, value)| format!("{name}={value}")));
    parts.extend(patches.iter().map(|patch| format!("patch {}", patch.name)));
    parts.push(tools.versions);
    let spec = Spec::Build(spec.clone());
    let addition = Addition {
        spec: &spec,
        key: Some(key.clone()),
        image: &work.objects().join("arch/x86/boot/bzImage"),
        config: Some(&work.objects().join(".config")),
        modules: None,
        source: parts.join("; "),
    };
    cache.add(&addition, options, observer)
}

fn request(spec: &BuildSpec) -> Result<Request, Problem> {
    let name = spec.config.as_deref().unwrap_or(DEFAULT_CONFIG);
    let text = match name {
        DEFAULT_CONFIG => GUEST_SMALL.to_owned(),
        path => {
            let bytes = holdup_files::read_input(Path::new(path), crate::files::MOST_BYTES).map_err(|e| {
                Problem::usage(format!("configuration {path}"), e.to_string())
                    .hint(format!("a configuration is the path of a .config or a fragment, or {DEFAULT_CONFIG}"))
            })?;
            String::from_utf8(bytes).map_err(|_| Problem::usage(format!("configuration {path}"), "not UTF-8"))?
        }
    };
    let whole = text.starts_with(WHOLE_CONFIG) || text.starts_with("#\n# Automatically generated file; DO NOT EDIT.");
    let (base, mut fragment) = match whole {
        true => (Some(text), Fragment::default()),
        false => (None, Fragment::parse(name, &text)?),
    };
    fragment.lay_over(&spec.options);
    Ok(Request { name: name.to_owned(), base, fragment })
}

/// The tree for make: the user's own without patches, else a private one.
fn prepare(
    origin: &Origin,
    held: &Held,
    state: &str,
    patches: &[Patch],
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<PathBuf, Problem> {
    options.check("building a kernel")?;
    let tree = match origin {
        Origin::Tree(tree) if patches.is_empty() => return Ok(tree.clone()),
        Origin::Tree(tree) => Tree::copy_of(tree, &held.path),
        Origin::Package(package) => {
            let tree = Tree::unpacked_in(&held.path);
            debian::unpack(package, &tree.path, options, observer)?;
            tree
        }
    };
    if !patches.is_empty() {
        observer.event(Event::Step("patching the source"));
    }
    tree.bring_to(state, patches)?;
    Ok(tree.path)
}

/// Refuses a build whose tree changed meanwhile.
fn unchanged(tree: &Path, state: &str, held: &Held) -> Result<(), Problem> {
    if source::state(tree)? == state {
        return Ok(());
    }
    Tree::copy_of(tree, &held.path).forget();
    Err(Problem::host(format!("kernel source {}", tree.display()), "the tree changed during the build")
        .hint("build again; this build was discarded"))
}

fn origin_title(origin: &Origin, version: &Version, state: &str) -> String {
    match origin {
        Origin::Tree(tree) => format!("built from Linux {} in {} ({state})", version.text, tree.display()),
        Origin::Package(package) => format!("built from {}", package.title()),
    }
}

/// A running build.
struct Work<'a> {
    held: &'a Held,
    sources: &'a Path,
    version: &'a Version,
    key: &'a str,
    options: &'a Options,
}

impl Work<'_> {
    /// Not the same for private and user's trees, because paths are compiled in.
    fn objects(&self) -> PathBuf {
        let private = self.sources.starts_with(&self.held.path);
        self.held.path.join(if private { "objects" } else { "objects-in-place" })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("make");
        for name in CLEARED_VARIABLES {
            command.env_remove(name);
        }
        command
            .arg("-C")
            .arg(self.sources)
            .arg(format!("O={}", self.objects().display()))
            .arg("ARCH=x86")
            .arg(format!("LOCALVERSION=-holdup-{}", &self.key[..8]))
            .env("LC_ALL", "C")
            .env("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970")
            .env("KBUILD_BUILD_VERSION", "1")
            .env("KBUILD_BUILD_USER", "holdup")
            .env("KBUILD_BUILD_HOST", "holdup");
        command
    }

    /// Writes `.config` and checks it against the request.
    fn configure(&self, request: &Request, observer: &mut dyn Observer) -> Result<(), Problem> {
        let what = format!("configuring Linux {}", self.version.text);
        observer.event(Event::Step(&what));
        let objects = self.objects();
        let failed = |e: std::io::Error| Problem::host(format!("objects {}", objects.display()), e.to_string());
        std::fs::create_dir_all(&objects).map_err(failed)?;
        let log = self.held.log();
        let _none_yet = std::fs::remove_file(&log);
        let call = Call { what: &what, log: &log, options: self.options };
        let written = objects.join(".config");
        let mut command = self.command();
        match &request.base {
            None => {
                let asked = objects.join("asked.config");
                std::fs::write(&asked, request.fragment.text()).map_err(failed)?;
                command.arg("allnoconfig").env("KCONFIG_ALLCONFIG", &asked);
            }
            Some(base) => {
                std::fs::write(&written, format!("{base}\n{}", request.fragment.text())).map_err(failed)?;
                command.arg("olddefconfig");
            }
        }
        make::run(command, &call, observer)?;
        let text = std::fs::read_to_string(&written).map_err(failed)?;
        let unknown = request.fragment.verify(&text, || kconfig::Symbols::read(self.sources))?;
        if !unknown.is_empty() {
            let text = format!("Linux {} has no option {}", self.version.text, unknown.join(", "));
            observer.event(Event::Note(&text));
        }
        Ok(())
    }

    fn make(&self, observer: &mut dyn Observer) -> Result<(), Problem> {
        let what = format!("building Linux {}", self.version.text);
        observer.event(Event::Step(&what));
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut command = self.command();
        command.arg(format!("-j{jobs}")).arg("bzImage");
        make::run(command, &Call { what: &what, log: &self.held.log(), options: self.options }, observer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::progress::Silent;

    fn spec(text: &str) -> BuildSpec {
        match Spec::parse(&format!("build:{text}")).unwrap() {
            Spec::Build(spec) => spec,
            other => panic!("{other}"),
        }
    }

    /// guest-small has the scheduler options of Debian's kernel, so that results hold for it as well.
    #[test]
    fn guest_small_has_the_scheduler_that_debian_ships() {
        let fragment = Fragment::parse(DEFAULT_CONFIG, GUEST_SMALL).unwrap().text();
        let ours = config::values(&fragment);
        let debian = include_str!("../../../holdup-host/tests/trees/debian-7.2-amd64.tree");
        let (_, debian) = debian.split_once("-- usr/lib/modules/7.2.12+deb13-amd64/config --\n").unwrap();
        let debian = config::values(debian.split("\n-- ").next().unwrap());
        let is_ours_to_choose = |name: &str| {
            // Guests read their configuration by this option, which Debian does not set.
            name.starts_with("IKCONFIG")
        };
        for (name, value) in &ours {
            if let Some(theirs) = debian.get(name).filter(|_| !is_ours_to_choose(name)) {
                assert_eq!(value, theirs, "{name}");
            }
        }
        for name in [
            "PREEMPT_DYNAMIC",
            "PREEMPT_LAZY",
            "HZ_250",
            "NO_HZ_FULL",
            "HIGH_RES_TIMERS",
            "SCHED_HRTICK",
            "SCHED_MC",
            "SCHED_SMT",
            "SCHED_CLUSTER",
            "SCHED_CACHE",
            "NUMA_BALANCING",
            "FAIR_GROUP_SCHED",
            "CFS_BANDWIDTH",
            "SCHED_AUTOGROUP",
            "UCLAMP_TASK",
            "PSI",
            "SCHEDSTATS",
            "TRANSPARENT_HUGEPAGE",
            "HUGETLBFS",
            "KVM_GUEST",
        ] {
            assert_eq!((ours.get(name), debian.get(name)), (Some(&"y"), Some(&"y")), "{name}");
        }
    }

    #[test]
    fn a_configuration_is_named_a_fragment_or_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        std::fs::write(&path, "CONFIG_A=y\n").unwrap();
        let asked = |options: &str| request(&spec(&format!("debian:7.2,config={}{options}", path.display())));
        let fragment = asked(",B=n").unwrap();
        assert_eq!((fragment.base, fragment.fragment.text().as_str()), (None, "CONFIG_A=y\nCONFIG_B=n\n"));
        std::fs::write(&path, format!("#\n{WHOLE_CONFIG}\n# Linux/x86 7.2.12\n#\nCONFIG_A=y\n")).unwrap();
        let whole = asked(",B=n").unwrap();
        assert!(whole.base.unwrap().contains("CONFIG_A=y"));
        assert_eq!(whole.fragment.text(), "CONFIG_B=n\n");
        for bad in [b"A=y\n".as_slice(), b"\xff\xfe", b"CONFIG_A=y\n\0"] {
            std::fs::write(&path, bad).unwrap();
            assert!(asked("").is_err());
        }
        std::fs::remove_file(&path).unwrap();
        assert!(asked("").err().unwrap().hint.unwrap().contains(DEFAULT_CONFIG));
        assert!(request(&spec("debian:7.2")).unwrap().fragment.is_set("PREEMPT_DYNAMIC"));
    }

    #[test]
    fn impossible_builds_are_refused_before_anything_is_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let refused = |text: &str, options: &Options| build(&spec(text), &cache, options, &mut Silent).unwrap_err();
        let arm = Options { arch: "aarch64".to_owned(), ..Options::default() };
        assert!(refused("debian:7.2", &arm).why.contains("aarch64"));
        let here = Options { offline: true, arch: "x86_64".to_owned(), ..Options::default() };
        assert!(refused("/no/such/tree", &here).to_string().contains("/no/such/tree"));
        assert!(refused("debian:newest", &here).to_string().contains("not a kernel version"));
        assert!(refused("debian:7.2", &here).to_string().contains("linux-source-7.2"));
    }

    #[test]
    fn a_tree_that_changes_under_the_build_is_refused() {
        let (tree, folder) = (source::tests::small_tree(), tempfile::tempdir().unwrap());
        let cache = Cache::open(folder.path()).unwrap();
        let held = folder::hold(&cache, "t", &Options::default(), &mut Silent).unwrap();
        let state = source::state(tree.path()).unwrap();
        unchanged(tree.path(), &state, &held).unwrap();
        std::fs::write(held.path.join("tree.state"), "source x\n").unwrap();
        std::fs::write(tree.path().join("kernel/a.c"), "other\n").unwrap();
        let problem = unchanged(tree.path(), &state, &held).unwrap_err();
        assert_eq!(problem.why, "the tree changed during the build");
        assert!(!held.path.join("tree.state").exists());
    }

    #[test]
    #[ignore = "needs the sources of a kernel in the cache: holdup kernels build"]
    fn carried_patches_apply_to_the_sources_that_are_here() {
        let cache = Cache::default_root().join("build");
        let trees = std::fs::read_dir(&cache).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut tried = 0;
        for folder in trees {
            let (tree, untouched) = (folder.join("tree"), folder.join("untouched"));
            let Ok(version) = Version::of_tree(&tree) else { continue };
            for carried in CARRIED {
                let Ok(patch) = Patch::find(carried.name, &version) else { continue };
                let scratch = tempfile::tempdir().unwrap();
                let copy = Tree::unpacked_in(scratch.path());
                for file in &patch.touches {
                    let kept = [untouched.join(file), tree.join(file)].into_iter().find(|path| path.is_file()).unwrap();
                    let to = copy.path.join(file);
                    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                    std::fs::copy(kept, to).unwrap();
                }
                copy.bring_to("1", std::slice::from_ref(&patch)).unwrap();
                tried += 1;
            }
        }
        assert!(tried > 0, "no source that a carried patch is for lies below {}", cache.display());
    }
}
