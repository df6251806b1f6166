//! Building PostgreSQL from Debian's source packages, with patches.
//!
//! A server is identified by all that it is built from; the cache returns one that exists. Each source package has one folder
//! with its tree and its objects, so that another set of patches recompiles only what it changes. A set of patches has its own
//! installed tree in the cache.

mod carried;
mod compile;

pub use carried::{CARRIED_SERVER, CarriedServer};

use super::folder::{self, Held};
use super::key::hash;
use super::make::{Call, run};
use super::patches::Patch;
use super::tools::{self, Tools};
use super::tree::Tree;
use crate::cache::{BuiltServer, SourcePackage};
use crate::files::check_room;
use crate::{Cache, Options};
use holdup_model::{Event, Observer, Problem};
use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

/// A tree, its objects and an installed server.
const ROOM_BYTES: u64 = 1 << 30;

/// The level of an unpatched server.
pub const STOCK: &str = "stock";

const PATCHES: &str = "patches/";

/// Programs and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("perl", "perl"),
    ("patch", "patch"),
    ("dpkg-source", "dpkg-dev"),
    ("bzip2", "bzip2"),
    ("xz", "xz-utils"),
];

/// A server to build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerSpec {
    /// A major version, or a whole one: `18`, `18.6`.
    pub version: String,
    /// Names of carried patches and paths of others, in the given order; none for a stock server.
    pub patches: Vec<String>,
}

impl ServerSpec {
    /// Parses a build as a plan names it: `stock`, or `patches/NAME[,patches/NAME|,NAME|,PATH.patch]…`.
    ///
    /// # Errors
    /// Names the text and what is wrong with it.
    pub fn parse(version: &str, build: &str) -> Result<ServerSpec, Problem> {
        let wrong = |why: String| {
            Problem::usage(format!("postgres.build = {}", build.escape_debug()), why).hint(format!(
                "forms: {STOCK}, {PATCHES}NAME[,NAME…], PATH.patch; names: {}",
                carried::names().join(", ")
            ))
        };
        let mut patches: Vec<String> = Vec::new();
        if build != STOCK {
            for (at, part) in build.split(',').enumerate() {
                let name = match part.strip_prefix(PATCHES) {
                    Some(name) if !name.ends_with(".patch") => name,
                    _ if part.ends_with(".patch") => part,
                    None if at > 0 => part,
                    _ => return Err(wrong(format!("`{}` is neither {STOCK} nor a patch", part.escape_debug()))),
                };
                if name.is_empty() {
                    return Err(wrong("it names no patch".to_owned()));
                }
                if !name.ends_with(".patch") && !carried::names().contains(&name) {
                    return Err(wrong(format!("holdup has no patch `{}`", name.escape_debug())));
                }
                if patches.iter().any(|known| known == name) {
                    return Err(wrong(format!("it names {name} twice")));
                }
                patches.push(name.to_owned());
            }
        }
        Ok(ServerSpec { version: version.to_owned(), patches })
    }

    /// As a plan names it.
    pub fn build(&self) -> String {
        if self.patches.is_empty() {
            return STOCK.to_owned();
        }
        let names = self.patches.iter().map(|name| match name.ends_with(".patch") {
            true => name.clone(),
            false => format!("{PATCHES}{name}"),
        });
        names.collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for ServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.version, self.build())
    }
}

/// The tests of PostgreSQL that a build may have to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tests {
    None,
    /// Regression and isolation tests.
    Check,
}

/// Returns the server of a spec from the cache, or builds it.
///
/// # Errors
/// When the source is not available, a tool is missing (with the package to install), a patch does not apply (with the hunk),
/// the compiler or a test fails (with its lines and the path of the log), or `options.cancel` is set.
pub fn server(
    spec: &ServerSpec,
    tests: Tests,
    cache: &Cache,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<BuiltServer, Problem> {
    if options.arch != std::env::consts::ARCH {
        let why = format!("holdup builds PostgreSQL for {} here, not for {}", std::env::consts::ARCH, options.arch);
        return Err(Problem::usage(format!("PostgreSQL {spec}"), why));
    }
    let package = cache.postgres_source(&spec.version, options, observer)?;
    let patches = patches(spec, &package)?;
    let flags = compile::Flags::here(package.major());
    let tools = Tools::versions()?;
    let key = hash(&[
        "holdup server 1",
        &package.sha256,
        &options.arch,
        &flags.key(),
        &tools.versions,
        &patches.iter().map(|patch| patch.sha256.as_str()).collect::<Vec<_>>().join(" "),
    ]);
    if tests == Tests::None
        && let Some(server) = cache.built_server(&key, observer)?
    {
        return Ok(server);
    }
    tools::require(&format!("building PostgreSQL {}", spec.version), PROGRAMS)?;
    check_room(cache.root(), ROOM_BYTES, &format!("building PostgreSQL {}", package.version))?;
    let held = folder::hold(cache, &package.folder_name(), options, observer)?;
    // The previous holder may have built the same.
    if tests == Tests::None
        && let Some(server) = cache.built_server(&key, observer)?
    {
        return Ok(server);
    }
    let work = Work { held: &held, package: &package, spec, flags: &flags, options };
    let tree = work.unpack(observer)?;
    if !patches.is_empty() {
        observer.event(Event::Step("patching the source"));
    }
    tree.bring_to(&package.sha256, &patches)?;
    work.compile(&tree.path, observer)?;
    if tests == Tests::Check {
        work.check(observer)?;
    }
    let installed = work.install(observer)?;
    let mut parts = vec![format!("{} {} of Debian", package.name, package.version)];
    parts.extend(patches.iter().map(|patch| format!("patch {}", patch.name)));
    parts.extend([flags.text(), tools.versions]);
    let server = BuiltServer {
        version: package.version.clone(),
        build: spec.build(),
        root: installed.clone(),
        arch: options.arch.clone(),
        source: parts.join("; "),
        key,
        bytes: 0,
        built_unix_ns: 0,
    };
    cache.add_server(server, &installed, options, observer)
}

fn patches(spec: &ServerSpec, package: &SourcePackage) -> Result<Vec<Patch>, Problem> {
    spec.patches
        .iter()
        .map(|name| match name.ends_with(".patch") {
            true => Patch::of_file(name),
            false => carried::find(name, package.major()),
        })
        .collect()
}

/// A running build.
struct Work<'a> {
    held: &'a Held,
    package: &'a SourcePackage,
    spec: &'a ServerSpec,
    flags: &'a compile::Flags,
    options: &'a Options,
}

impl Work<'_> {
    fn run(&self, what: &str, command: Command, observer: &mut dyn Observer) -> Result<(), Problem> {
        observer.event(Event::Step(what));
        self.silently(what, command, observer)
    }

    /// Reports no step.
    fn silently(&self, what: &str, command: Command, observer: &mut dyn Observer) -> Result<(), Problem> {
        run(command, &Call { what, log: &self.held.log(), options: self.options }, observer)
    }

    /// The source with Debian's own patches, as dpkg-source(1) unpacks it; it compares the sums of all archives with the .dsc.
    fn unpack(&self, observer: &mut dyn Observer) -> Result<Tree, Problem> {
        let tree = Tree::unpacked_in(&self.held.path);
        let _none_yet = std::fs::remove_file(self.held.log());
        if tree.path.is_dir() {
            return Ok(tree);
        }
        let failed = |e: io::Error| Problem::host(format!("source {}", tree.path.display()), e.to_string());
        // Renamed when complete.
        let new = self.held.path.join("tree.new");
        if new.exists() {
            std::fs::remove_dir_all(&new).map_err(failed)?;
        }
        let mut command = Command::new("dpkg-source");
        command.arg("-x").arg(&self.package.dsc).arg(&new).env("LC_ALL", "C");
        self.run(&format!("unpacking {} {}", self.package.name, self.package.version), command, observer)?;
        // dpkg-source copies the archive beside the tree.
        for entry in std::fs::read_dir(&self.held.path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.to_string_lossy().contains(".orig.tar.") {
                std::fs::remove_file(path).map_err(failed)?;
            }
        }
        std::fs::rename(&new, &tree.path).map_err(failed)?;
        Ok(tree)
    }

    fn title(&self, doing: &str) -> String {
        format!("{doing} PostgreSQL {} ({})", self.package.version, self.spec.build())
    }

    fn make(&self, folder: &Path) -> Command {
        let mut command = Command::new("make");
        for name in super::CLEARED_VARIABLES {
            command.env_remove(name);
        }
        command.arg("-C").arg(folder).env("LC_ALL", "C").env("LD_RUN_PATH", "$ORIGIN/../lib");
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::ProblemKind;
    use holdup_model::progress::Silent;

    #[test]
    fn builds_are_parsed_and_printed() {
        let of = |text: &str| ServerSpec::parse("18", text).unwrap();
        assert_eq!(of("stock").patches, Vec::<String>::new());
        let (one, two) = ("patches/spin-slice-extension", "patches/prefault-buffer-headers");
        assert_eq!(of(one).patches, ["spin-slice-extension"]);
        let both = format!("{one},{two}");
        let (short, mixed) = (format!("{one},prefault-buffer-headers"), format!("{one},./x.patch"));
        for (text, is) in
            [("stock", "stock"), (&both, &*both), (&short, &both), ("my/own.patch", "my/own.patch"), (&mixed, &mixed)]
        {
            assert_eq!(of(text).build(), is);
            assert_eq!(of(&of(text).build()), of(text));
        }
        for (text, says) in [
            ("", "neither stock"),
            ("a", "neither stock"),
            ("patches/", "names no patch"),
            ("patches/spin-slice-extension,", "names no patch"),
            ("patches/x.patch,patches/x.patch", "twice"),
            ("patches/faster", "no patch `faster`"),
            ("Stock", "neither stock"),
        ] {
            let problem = ServerSpec::parse("18", text).unwrap_err();
            assert!(problem.why.contains(says), "{text}: {problem}");
            assert!(problem.hint.unwrap().contains("lwlock-wait-list-futex"));
        }
    }

    #[test]
    fn impossible_builds_are_refused_before_anything_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let options = Options { offline: true, ..Options::default() };
        let refused = |version: &str, options: &Options| {
            let spec = ServerSpec::parse(version, STOCK).unwrap();
            server(&spec, Tests::None, &cache, options, &mut Silent).unwrap_err()
        };
        let other = if options.arch == "x86_64" { "aarch64" } else { "x86_64" };
        assert!(refused("18", &Options { arch: other.to_owned(), ..options.clone() }).why.contains(other));
        assert_eq!(refused("newest", &options).kind, ProblemKind::Usage);
        assert!(refused("18", &options).hint.unwrap().contains("holdup postgres build 18"));
    }
}
