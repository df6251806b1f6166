//! The initramfs: assembled from the host's own files, the same bytes for the same content.
//!
//! An archive of the kernel's own format ([`cpio`]), not compressed: under emulation the guest would spend more on
//! unpacking than the copy costs. It holds the agent as `/init`, PostgreSQL with what it needs ([`PostgresFiles`]),
//! programs with their libraries, kernel modules, and the few files of /etc that libc asks for. Nothing of it is
//! found by running a program of the host: ELF files are read ([`elf`]), folders are looked at.

mod cache;
mod closure;
pub mod cpio;
pub mod elf;
mod modules;
mod postgres;
mod roots;
mod template;
mod tree;

pub use closure::PROGRAM_FOLDERS;
pub use modules::{GUEST_FOLDER as MODULES_FOLDER, Modules};
pub use template::{GUEST_FOLDER as TEMPLATE_FOLDER, Template, template};
pub use tree::POSTGRES_ID;

use closure::Closure;
use holdup_model::{Event, Observer, Problem};
use postgres::Folders;
use roots::{Found, Roots};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tree::{Kind, Tree};

/// The most bytes of a file of the host that is held in memory.
const MOST_BYTES: u64 = 1 << 30;

/// What goes into an image.
#[derive(Debug, Clone)]
pub struct ImageRequest {
    /// The static program that becomes `/init`. The guest is of its machine.
    pub agent: PathBuf,
    /// PostgreSQL, where the plan uses it.
    pub postgres: Option<PostgresFiles>,
    /// Programs that a plan names: absolute paths as the guest sees them.
    pub programs: Vec<PathBuf>,
    /// Kernel modules.
    pub modules: Option<Modules>,
    /// Other files and folders: path on the host, path in the guest. They come as they are, without their libraries,
    /// and before everything else that would be at the same path.
    pub extra: Vec<(PathBuf, PathBuf)>,
    /// Small text files: path in the guest, content.
    pub facts: Vec<(String, String)>,
    /// A data folder made in advance by [`template`], so that the guest need not run initdb.
    pub template: Option<Template>,
}

/// Where the files of PostgreSQL come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresFiles {
    /// A folder of this host with postgres, initdb and pgbench.
    Bin(PathBuf),
    /// Packages that were unpacked below a folder. Libraries are looked up there first.
    Root {
        /// That folder.
        root: PathBuf,
        /// The folder with postgres, initdb and pgbench, in `root` or as the guest sees it.
        bin: PathBuf,
    },
}

impl PostgresFiles {
    /// Where files are looked up, and the folder of the programs as the guest sees it.
    fn places(&self) -> Result<(Roots, PathBuf), Problem> {
        let whole = |path: &Path| {
            std::fs::canonicalize(path).map_err(|e| Problem::usage(format!("folder {}", path.display()), e.to_string()))
        };
        match self {
            PostgresFiles::Bin(bin) => Ok((Roots::host(), whole(bin)?)),
            PostgresFiles::Root { root, bin } => {
                let root = whole(root)?;
                let inside = whole(bin).ok().and_then(|bin| bin.strip_prefix(&root).ok().map(Path::to_owned));
                let bin = Path::new("/").join(inside.as_deref().unwrap_or(bin));
                Ok((Roots::below(&root), bin))
            }
        }
    }
}

/// An image that can be booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The file, to be given to the kernel as it is.
    pub path: PathBuf,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it was there already.
    pub cached: bool,
    /// How many files with content it has.
    pub files: usize,
    /// The folder of PostgreSQL's programs as the guest sees it.
    pub postgres_bin: Option<PathBuf>,
}

/// Assembles an image, or finds it in the folder `cache`. The eight images that were used last are kept there.
///
/// What was looked up is looked up again each time, so that a new library or a changed file is never overlooked; only
/// the reading and writing of the content is saved.
///
/// # Errors
/// When a file is missing, does not fit the guest's machine, or the cache cannot be written to. Names the file and
/// what needs it.
pub fn assemble(request: &ImageRequest, cache: &Path, observer: &mut dyn Observer) -> Result<Image, Problem> {
    let (tree, postgres_bin, notes) = plan(request)?;
    let kept = cache::image_of(&tree, cache, observer)?;
    if !kept.cached {
        for note in &notes {
            observer.event(Event::Note(note));
        }
    }
    Ok(Image {
        path: kept.path,
        sha256: kept.sha256,
        bytes: kept.bytes,
        cached: kept.cached,
        files: tree.files(),
        postgres_bin,
    })
}

/// Everything that goes into the image, the folder of PostgreSQL's programs, and what a user should know.
fn plan(request: &ImageRequest) -> Result<(Tree, Option<PathBuf>, Vec<String>), Problem> {
    let (roots, bin) = match &request.postgres {
        Some(files) => files.places().map(|(roots, bin)| (roots, Some(bin)))?,
        None => (Roots::host(), None),
    };
    let mut tree = Tree::base()?;
    let host = Roots::host();
    let machine = add_agent(&mut tree, &host, &request.agent)?;
    for (from, to) in &request.extra {
        add_extra(&mut tree, from, to)?;
    }
    for (path, text) in &request.facts {
        if !path.starts_with('/') {
            return Err(Problem::usage(format!("path `{path}` in the guest"), "it does not begin with a slash"));
        }
        tree.text(Path::new(path), text)?;
    }
    if let Some(modules) = &request.modules {
        modules.add(&mut tree)?;
    }
    let mut closure = Closure::new(roots, machine)?;
    let mut postgres_bin = None;
    if let Some(bin) = bin {
        let folders = Folders::find(closure.roots(), &bin)?;
        folders.add(&mut tree, &mut closure)?;
        postgres_bin = Some(folders.bin);
    }
    if let Some(template) = &request.template {
        template.add(&mut tree)?;
    }
    for program in &request.programs {
        closure.program(&mut tree, program)?;
    }
    closure.libc_extras(&mut tree)?;
    closure.finish(&mut tree)?;
    add_etc(&mut tree)?;
    Ok((tree, postgres_bin, closure.notes))
}

/// Adds the agent as /init; returns its machine.
fn add_agent(tree: &mut Tree, host: &Roots, agent: &Path) -> Result<elf::Machine, Problem> {
    let what = || format!("agent {}", agent.display());
    let whole = std::fs::canonicalize(agent).map_err(|e| Problem::host(what(), e.to_string()))?;
    let found = host.find(&whole)?.filter(|found| !found.is_folder);
    let Some(found) = found else { return Err(Problem::host(what(), "it is not a file")) };
    let elf = closure::read_elf(&found.source.path).map_err(|why| Problem::host(what(), why))?;
    if let Some(interpreter) = elf.interpreter {
        return Err(Problem::host(
            what(),
            format!("it needs {interpreter}, and a guest's first program must be static"),
        )
        .hint("use the static build of holdup (target x86_64-unknown-linux-musl)"));
    }
    tree.put(Path::new("/init"), Kind::File(found.source), 0o755, 0)?;
    Ok(elf.machine)
}

/// Adds a file, or a folder with all that is in it, under another path.
fn add_extra(tree: &mut Tree, from: &Path, to: &Path) -> Result<(), Problem> {
    if !to.is_absolute() {
        return Err(Problem::usage(format!("path {} in the guest", to.display()), "it does not begin with a slash"));
    }
    let mut left = vec![(from.to_owned(), to.to_owned())];
    let mut folders = std::collections::BTreeSet::new();
    while let Some((from, to)) = left.pop() {
        let failed = |e: std::io::Error| Problem::host(from.display().to_string(), e.to_string());
        let meta = std::fs::metadata(&from).map_err(failed)?;
        if meta.is_dir() {
            // A folder that is met again through a link is not entered again.
            if !folders.insert((meta.dev(), meta.ino())) {
                continue;
            }
            tree.folder(&to, 0o755, 0)?;
            for entry in std::fs::read_dir(&from).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                left.push((from.join(&name), to.join(&name)));
            }
        } else if meta.is_file() {
            let source = roots::Source::of(std::fs::canonicalize(&from).map_err(failed)?, &meta);
            let to = roots::guest_path(&to);
            tree.found(&Found { named: to.clone(), real: to, source, is_folder: false })?;
        } else {
            return Err(Problem::usage(from.display().to_string(), "it is neither a file nor a folder"));
        }
    }
    Ok(())
}

/// What libc asks for about users and hosts.
fn add_etc(tree: &mut Tree) -> Result<(), Problem> {
    let id = POSTGRES_ID;
    let passwd = format!(
        "root:x:0:0:root:/root:/bin/sh\n\
         postgres:x:{id}:{id}:postgres:/var/lib/postgresql:/bin/sh\n\
         nobody:x:65534:65534:nobody:/:/bin/false\n"
    );
    tree.text(Path::new("/etc/passwd"), &passwd)?;
    tree.text(Path::new("/etc/group"), &format!("root:x:0:\npostgres:x:{id}:\nnogroup:x:65534:\n"))?;
    tree.text(Path::new("/etc/hosts"), "127.0.0.1 localhost\n::1 localhost\n")?;
    tree.text(Path::new("/etc/nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files\nservices: files\n")
}
