//! The initramfs: assembled from the host's own files, the same bytes for the same content.
//!
//! An uncompressed cpio archive: an emulated guest would spend more on decompression than the copy costs. It has the agent as
//! `/init`, PostgreSQL with its dependencies ([`PostgresFiles`]), programs with their libraries, kernel modules, and the files
//! of /etc that libc reads. No program of the host is run to find them: ELF files are read ([`elf`]), folders are listed.

mod cache;
mod closure;
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

const MOST_BYTES: u64 = 1 << 30;

/// The content of an image.
#[derive(Debug, Clone)]
pub struct ImageRequest {
    /// The static program that becomes `/init`; it determines the guest's machine.
    pub agent: PathBuf,
    /// PostgreSQL, if the plan uses it.
    pub postgres: Option<PostgresFiles>,
    /// Folders of the host with the programs of other PostgreSQL servers, which have the same paths in the guest.
    pub more_postgres: Vec<PathBuf>,
    /// Absolute paths of programs that the plan names.
    pub programs: Vec<PathBuf>,
    /// Kernel modules.
    pub modules: Option<Modules>,
    /// Other files and folders: path on the host, path in the guest. They are copied without their libraries, and take
    /// precedence over everything else at the same path.
    pub extra: Vec<(PathBuf, PathBuf)>,
    /// Text files: path in the guest, content.
    pub facts: Vec<(String, String)>,
    /// A data folder made by [`template`], so that the guest need not run initdb.
    pub template: Option<Template>,
}

/// The source of PostgreSQL's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresFiles {
    /// A folder of the host with postgres, initdb and pgbench.
    Bin(PathBuf),
    /// Unpacked packages, whose libraries take precedence over the host's.
    Root {
        /// The root of the packages.
        root: PathBuf,
        /// The folder with postgres, initdb and pgbench, as a path in `root` or in the guest.
        bin: PathBuf,
    },
}

impl PostgresFiles {
    /// The folder of the programs on this host.
    pub fn bin_here(&self) -> PathBuf {
        match self {
            PostgresFiles::Bin(bin) => bin.clone(),
            PostgresFiles::Root { root, bin } if bin.starts_with(root) => bin.clone(),
            PostgresFiles::Root { root, bin } => root.join(bin.strip_prefix("/").unwrap_or(bin)),
        }
    }

    /// The roots to search, and the folder of the programs in the guest.
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

/// A bootable image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The file for `-initrd`.
    pub path: PathBuf,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// True if it came from the cache.
    pub cached: bool,
    /// The number of files with content.
    pub files: usize,
    /// The folder of PostgreSQL's programs in the guest.
    pub postgres_bin: Option<PathBuf>,
}

/// Assembles an image, or finds it in the folder `cache`, which keeps the eight most recently used.
///
/// All files are searched and examined each time, so that a new library or a changed file is never missed; the cache saves
/// reading and writing their content.
///
/// # Errors
/// When a file is missing or for another machine, or the cache cannot be written. Names the file and its user.
pub fn assemble(request: &ImageRequest, cache: &Path, observer: &mut dyn Observer) -> Result<Image, Problem> {
    let (tree, postgres_bin, notes) = plan(request)?;
    let cached = cache::image_of(&tree, cache, observer)?;
    if !cached.was_cached {
        for note in &notes {
            observer.event(Event::Note(note));
        }
    }
    Ok(Image {
        path: cached.path,
        sha256: cached.sha256,
        bytes: cached.bytes,
        cached: cached.was_cached,
        files: tree.files(),
        postgres_bin,
    })
}

/// The content of the image, the folder of PostgreSQL's programs, and notes for the user.
fn plan(request: &ImageRequest) -> Result<(Tree, Option<PathBuf>, Vec<String>), Problem> {
    let (roots, bin) = match &request.postgres {
        Some(files) => files.places().map(|(roots, bin)| (roots, Some(bin)))?,
        None => (Roots::host(), None),
    };
    let mut tree = Tree::base()?;
    let machine = add_agent(&mut tree, &Roots::host(), &request.agent)?;
    let roots = roots.for_machine(machine);
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
    for bin in &request.more_postgres {
        Folders::find(closure.roots(), bin)?.add(&mut tree, &mut closure)?;
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

fn add_agent(tree: &mut Tree, host: &Roots, agent: &Path) -> Result<elf::Machine, Problem> {
    let what = || format!("agent {}", agent.display());
    let whole = std::fs::canonicalize(agent).map_err(|e| Problem::host(what(), e.to_string()))?;
    let found = host.find(&whole)?.filter(|found| !found.is_folder);
    let Some(found) = found else { return Err(Problem::host(what(), "it is not a file")) };
    let elf = elf::of_file(&found.source.path).map_err(|why| Problem::host(what(), why))?;
    if let Some(interpreter) = elf.interpreter {
        return Err(Problem::host(
            what(),
            format!("it needs {interpreter}, and a guest's first program must be static"),
        )
        .hint("use what script/build builds"));
    }
    tree.put(Path::new("/init"), Kind::File(found.source), 0o755, 0)?;
    Ok(elf.machine)
}

/// Adds a file, or a folder with its content, under another path.
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
            // A link may lead to the same folder again.
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

/// The files that libc reads for users and hosts.
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
