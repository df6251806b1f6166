//! Kernels that are built here: a source, a configuration, options and patches, and what comes of them.
//!
//! A build is named by all that goes into it (`key.rs`), and the cache answers for one that was made before. Each source
//! has a folder below the cache that keeps its objects, so another option or patch compiles only what it changes.

mod config;
mod debian;
mod folder;
mod kconfig;
mod key;
mod make;
mod patches;
mod source;
mod tools;
mod tree;

pub use folder::{Folder, folders, remove};
pub use patches::{CARRIED, Carried};

use crate::files::check_room;
use crate::{Addition, BuildSpec, Cache, Kernel, Options, Spec};
use config::Fragment;
use folder::Held;
use holdup_model::{Event, Observer, Problem};
use key::Ingredients;
use make::Call;
use patches::Patch;
use source::Version;
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::Tools;
use tree::Tree;

/// The configuration that is used where a spec names none.
pub const DEFAULT_CONFIG: &str = "guest-small";

const GUEST_SMALL: &str = include_str!("../../configs/guest-small.config");

/// The beginning of a `.config` that make wrote: all options of a kernel, and not only those that matter.
const WHOLE_CONFIG: &str = "# Automatically generated file; DO NOT EDIT.";

/// The least room that a build needs: source and objects of guest-small, measured with 7.2.12.
const ROOM_BYTES: u64 = 3 << 30;

/// Variables by which make or Kconfig would build something else. Source: `Documentation/kbuild/kbuild.rst`,
/// `Documentation/kbuild/kconfig.rst` (v7.2).
const SHELL_MUST_NOT_SAY: &[&str] = &[
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "ARCH",
    "SUBARCH",
    "CROSS_COMPILE",
    "LLVM",
    "LLVM_IAS",
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

/// A configuration as it is asked for.
struct Wish {
    name: String,
    /// A whole `.config` to begin with, where the spec names one.
    base: Option<String>,
    fragment: Fragment,
}

/// Where the source is to come from.
enum Origin {
    /// A user's tree, which is never written to.
    Tree(PathBuf),
    /// Debian's package.
    Package(debian::Package),
}

/// Builds a kernel, or answers with the one that was built from the same.
///
/// # Errors
/// When the source cannot be had, a tool is missing (with what to install), an option or a patch does not take, make
/// fails (with its error lines and the log's place), or `options.cancel` is set, which ends make.
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
    let wish = wish(spec)?;
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
    let config = format!("{}\n{}", wish.base.as_deref().unwrap_or_default(), wish.fragment.text());
    let ingredients =
        Ingredients { source: &state, arch: &options.arch, config: &config, patches: &patches, tools: &tools.versions };
    let key = ingredients.key();
    if let Some(kernel) = cache.made(&key)? {
        return Ok(kernel);
    }
    Tools::check(&wish.fragment, !patches.is_empty())?;
    check_room(cache.root(), ROOM_BYTES, &format!("build:{spec}"))?;
    let name = match &origin {
        Origin::Tree(tree) => format!("tree-{}", &key::hex_digest(tree.as_os_str().as_encoded_bytes())[..16]),
        Origin::Package(package) => package.word().replace(['/', ':'], "_"),
    };
    let held = folder::hold(cache, &name, options, observer)?;
    // Whoever held it before may have built the same.
    if let Some(kernel) = cache.made(&key)? {
        return Ok(kernel);
    }
    let sources = prepare(&origin, &held, &state, &patches, options, observer)?;
    let work = Work { held: &held, sources: &sources, version: &version, key: &key, options };
    work.configure(&wish, observer)?;
    work.make(observer)?;
    if let Origin::Tree(tree) = &origin {
        unchanged(tree, &state, &held)?;
    }
    let mut parts = vec![origin_words(&origin, &version, &state), wish.name];
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

fn wish(spec: &BuildSpec) -> Result<Wish, Problem> {
    let name = spec.config.as_deref().unwrap_or(DEFAULT_CONFIG);
    let text = match name {
        DEFAULT_CONFIG => GUEST_SMALL.to_owned(),
        path => {
            let bytes = holdup_files::read_input(Path::new(path), crate::files::MOST_BYTES).map_err(|e| {
                Problem::usage(format!("configuration {path}"), e.to_string())
                    .hint(format!("a configuration is the path of a .config or a fragment, or {DEFAULT_CONFIG}"))
            })?;
            String::from_utf8(bytes)
                .map_err(|_| Problem::usage(format!("configuration {path}"), "it is no text in UTF-8"))?
        }
    };
    let whole = text.starts_with(WHOLE_CONFIG) || text.starts_with("#\n# Automatically generated file; DO NOT EDIT.");
    let (base, mut fragment) = match whole {
        true => (Some(text), Fragment::default()),
        false => (None, Fragment::parse(name, &text)?),
    };
    fragment.lay_over(&spec.options);
    Ok(Wish { name: name.to_owned(), base, fragment })
}

/// The tree that make reads: the user's own where nothing is patched, else a private one.
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
            let tree = Tree::of_our_own(&held.path);
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

/// Refuses what was built from a user's tree that is no longer in the state that the kernel would be known by.
fn unchanged(tree: &Path, state: &str, held: &Held) -> Result<(), Problem> {
    if source::state(tree)? == state {
        return Ok(());
    }
    Tree::copy_of(tree, &held.path).forget();
    Err(Problem::host(format!("kernel source {}", tree.display()), "it changed while it was built")
        .hint("build it again; nothing of this build was kept"))
}

fn origin_words(origin: &Origin, version: &Version, state: &str) -> String {
    match origin {
        Origin::Tree(tree) => format!("built from Linux {} in {} ({state})", version.text, tree.display()),
        Origin::Package(package) => format!("built from {}", package.words()),
    }
}

/// One build under way.
struct Work<'a> {
    held: &'a Held,
    sources: &'a Path,
    version: &'a Version,
    key: &'a str,
    options: &'a Options,
}

impl Work<'_> {
    /// Objects of a private tree are not those of the user's: their paths are compiled in.
    fn objects(&self) -> PathBuf {
        let private = self.sources.starts_with(&self.held.path);
        self.held.path.join(if private { "objects" } else { "objects-in-place" })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("make");
        // What a shell happens to have set must not decide what is built.
        for name in SHELL_MUST_NOT_SAY {
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

    /// Writes `.config` and compares it with what was asked for.
    fn configure(&self, wish: &Wish, observer: &mut dyn Observer) -> Result<(), Problem> {
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
        match &wish.base {
            None => {
                let asked = objects.join("asked.config");
                std::fs::write(&asked, wish.fragment.text()).map_err(failed)?;
                command.arg("allnoconfig").env("KCONFIG_ALLCONFIG", &asked);
            }
            Some(base) => {
                std::fs::write(&written, format!("{base}\n{}", wish.fragment.text())).map_err(failed)?;
                command.arg("olddefconfig");
            }
        }
        make::run(command, &call, observer)?;
        let text = std::fs::read_to_string(&written).map_err(failed)?;
        let unknown = wish.fragment.verify(&text, || kconfig::Symbols::read(self.sources))?;
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

    /// The scheduler of the configuration is that of Debian's kernel, so that a result holds for it as well.
    #[test]
    fn guest_small_has_the_scheduler_that_debian_ships() {
        let fragment = Fragment::parse(DEFAULT_CONFIG, GUEST_SMALL).unwrap().text();
        let ours = config::values(&fragment);
        let debian =
            include_str!("../../../holdup-host/tests/trees/debian-7.2-amd64/usr/lib/modules/7.2.12+deb13-amd64/config");
        let debian = config::values(debian);
        let is_ours_to_choose = |name: &str| {
            // Not Debian's: an option that guests read their configuration by.
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
    fn a_configuration_is_ours_a_fragment_or_a_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        std::fs::write(&path, "CONFIG_A=y\n").unwrap();
        let asked = |options: &str| wish(&spec(&format!("debian:7.2,config={}{options}", path.display())));
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
        assert!(wish(&spec("debian:7.2")).unwrap().fragment.asks_for("PREEMPT_DYNAMIC"));
    }

    #[test]
    fn what_cannot_be_built_is_refused_before_anything_is_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let refused = |text: &str, options: &Options| build(&spec(text), &cache, options, &mut Silent).unwrap_err();
        let arm = Options { arch: "aarch64".to_owned(), ..Options::default() };
        assert!(refused("debian:7.2", &arm).why.contains("aarch64"));
        let here = Options { offline: true, arch: "x86_64".to_owned(), ..Options::default() };
        assert!(refused("/no/such/tree", &here).to_string().contains("/no/such/tree"));
        assert!(refused("debian:newest", &here).to_string().contains("no version"));
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
        assert_eq!(problem.why, "it changed while it was built");
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
                let copy = Tree::of_our_own(scratch.path());
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
