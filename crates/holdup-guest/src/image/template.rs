//! A data folder made in advance, because initdb is slow under emulation.
//!
//! initdb's result differs each time (system identifier, times). A template is therefore made once for each build of PostgreSQL
//! and cached; images with it are reproducible while it is cached, but not across hosts. As root, initdb runs in a chroot of
//! the guest's files, so it is the guest's own program even if the host could not run it; otherwise it runs on the host.

use super::cache::{failed, lock};
use super::closure::Closure;
use super::elf::{self, Machine};
use super::postgres::Folders;
use super::roots::{Roots, Source};
use super::tree::{Kind, POSTGRES_ID, Tree};
use super::{PostgresFiles, add_etc};
use holdup_kernels::hex;
use holdup_model::{Event, Observer, Problem};
use sha2::{Digest, Sha256};
use std::ffi::CString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// In the guest: `template-MAJOR` in this folder, and `template-MAJOR.version` with the output of `initdb --version` from the
/// version number on, such as `15.18 (Debian 15.18-0+deb12u1)`.
pub const GUEST_FOLDER: &str = "/var/lib/holdup";

/// The same options as for clusters on the host.
const INITDB: [&str; 7] = ["-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-U"];

const SUPERUSER: &str = "holdup";

const MOST_TEMPLATES: usize = 4;

/// The data folder in the chroot.
const MADE_IN: &str = "/var/lib/postgresql/new";

/// A data folder made by initdb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The data folder.
    pub data: PathBuf,
    /// The major version in PG_VERSION.
    pub major: u32,
    /// The output of `initdb --version` from the version number on.
    pub version: String,
    /// True if it came from the cache.
    pub cached: bool,
}

impl Template {
    /// Adds it to a tree, owned by the guest's PostgreSQL user.
    pub(crate) fn add(&self, tree: &mut Tree) -> Result<(), Problem> {
        let target = Path::new(GUEST_FOLDER).join(format!("template-{}", self.major));
        tree.text(&target.with_extension("version"), &format!("{}\n", self.version))?;
        let mut left = vec![(self.data.clone(), target)];
        while let Some((from, to)) = left.pop() {
            let meta = std::fs::symlink_metadata(&from).map_err(|e| failed(&from, &e))?;
            if meta.is_dir() {
                tree.folder(&to, 0o700, POSTGRES_ID)?;
                for entry in std::fs::read_dir(&from).map_err(|e| failed(&from, &e))? {
                    let name = entry.map_err(|e| failed(&from, &e))?.file_name();
                    left.push((from.join(&name), to.join(&name)));
                }
            } else if meta.is_file() {
                tree.put(&to, Kind::File(Source::of(from, &meta)), 0o600, POSTGRES_ID)?;
            } else {
                return Err(Problem::host(from.display().to_string(), "a template has files and folders only"));
            }
        }
        Ok(())
    }

    fn kept(folder: &Path, cached: bool) -> Result<Self, Problem> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|e| failed(&path, &e))
        };
        let number = read("data/PG_VERSION")?;
        let major = number.trim().parse().map_err(|_| {
            Problem::host(folder.join("data/PG_VERSION").display().to_string(), format!("`{number}` is no version"))
        })?;
        Ok(Template { data: folder.join("data"), major, version: read("version")?.trim().to_owned(), cached })
    }
}

/// The template for a build of PostgreSQL, from the folder `cache` or made now. For
/// [`ImageRequest::template`](super::ImageRequest::template).
///
/// # Errors
/// When initdb fails (with its last lines), or unpacked packages are given and this process is not root, which alone can use
/// chroot(2).
pub fn template(files: &PostgresFiles, cache: &Path, observer: &mut dyn Observer) -> Result<Template, Problem> {
    std::fs::create_dir_all(cache).map_err(|e| failed(cache, &e))?;
    let (roots, bin) = files.places()?;
    let folders = Folders::find(&roots, &bin)?;
    let inputs = folders.cluster_inputs(&roots)?;
    let seen = fingerprint(&inputs);
    let _lock = lock(cache, observer)?;
    let folder = match folder_with_fingerprint(cache, &seen) {
        Some(folder) => folder,
        None => cache.join(format!("template-{}", key_of(&inputs)?)),
    };
    if let Ok(template) = Template::kept(&folder, true) {
        // The next run need not read all inputs.
        let _remembered = std::fs::write(folder.join("seen"), &seen);
        // For the order of removal; a read-only cache still works.
        if let Ok(file) = std::fs::File::options().append(true).open(folder.join("version")) {
            let _marked = file.set_modified(SystemTime::now());
        }
        return Ok(template);
    }
    observer.event(Event::Step("making a data folder of PostgreSQL in advance"));
    sweep(cache, MOST_TEMPLATES - 1);
    let making = Making(folder.with_extension("making"));
    remove(&folder)?;
    remove(&making.0)?;
    DirBuilder::new().mode(0o700).create(&making.0).map_err(|e| failed(&making.0, &e))?;
    let done = making.0.join("done");
    DirBuilder::new().mode(0o700).create(&done).map_err(|e| failed(&done, &e))?;
    let (data, version) = if rustix::process::geteuid().is_root() {
        in_guest_files(&folders, roots, &making.0.join("root"))?
    } else if matches!(files, PostgresFiles::Bin(_)) {
        on_host(&folders, &making.0.join("data"))?
    } else {
        return Err(Problem::host(
            format!("a data folder by {}", bin.join("initdb").display()),
            "only root can run a program of unpacked packages (chroot(2))",
        )
        .hint("leave the template out: the guest then runs initdb itself, which takes longer"));
    };
    let version_file = done.join("version");
    std::fs::write(&version_file, version).map_err(|e| failed(&version_file, &e))?;
    std::fs::rename(&data, done.join("data")).map_err(|e| failed(&data, &e))?;
    std::fs::rename(&done, &folder).map_err(|e| failed(&folder, &e))?;
    Template::kept(&folder, false)
}

fn remove(folder: &Path) -> Result<(), Problem> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(folder, &e)),
        _ => Ok(()),
    }
}

/// The folder of a template in the making, removed on drop.
struct Making(PathBuf);

impl Drop for Making {
    fn drop(&mut self) {
        // The next run tries again.
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes all but the `keep` most recently used templates, and leftovers of killed processes. Under the lock.
fn sweep(cache: &Path, keep: usize) {
    let Ok(entries) = std::fs::read_dir(cache) else { return };
    let mut templates = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("template-") {
            let used = std::fs::metadata(path.join("version")).and_then(|meta| meta.modified()).ok();
            templates.push((used, path));
        }
    }
    templates.sort();
    let over = templates.len().saturating_sub(keep);
    for (_, path) in templates.into_iter().take(over) {
        let _gone = std::fs::remove_dir_all(path);
    }
}

/// A hash of the inputs' contents.
fn key_of(inputs: &[Source]) -> Result<String, Problem> {
    let mut hash = Sha256::new();
    hash.update("holdup template 1");
    for source in inputs {
        hash.update(source.bytes.to_le_bytes());
        hash.update(holdup_files::read_input(&source.path, super::MOST_BYTES).map_err(|e| failed(&source.path, &e))?);
    }
    Ok(hex(&hash.finalize())[..32].to_owned())
}

/// A hash of the inputs' metadata.
fn fingerprint(inputs: &[Source]) -> String {
    let mut hash = Sha256::new();
    for Source { path, bytes, mtime_ns, inode, executable: _ } in inputs {
        hash.update(format!("{} {bytes} {mtime_ns} {inode:?}\n", path.display()));
    }
    hex(&hash.finalize())
}

/// The template whose inputs had this metadata when it was made or last used.
fn folder_with_fingerprint(cache: &Path, seen: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path());
    let mut fitting: Vec<PathBuf> =
        folders.filter(|folder| std::fs::read_to_string(folder.join("seen")).is_ok_and(|text| text == seen)).collect();
    fitting.sort();
    fitting.pop()
}

/// Runs initdb on the host.
fn on_host(folders: &Folders, data: &Path) -> Result<(PathBuf, String), Problem> {
    let program = folders.bin.join("initdb");
    let version = output(clean(&program).arg("--version"))?;
    output(clean(&program).arg("-D").arg(data).args(INITDB).arg(SUPERUSER))?;
    Ok((data.to_owned(), version_of(&version)))
}

/// Runs initdb in a chroot of the guest's files, as an unprivileged user.
fn in_guest_files(folders: &Folders, roots: Roots, root: &Path) -> Result<(PathBuf, String), Problem> {
    let machine = machine_of(folders, &roots)?;
    let mut tree = Tree::base()?;
    let mut closure = Closure::new(roots, machine)?;
    folders.add(&mut tree, &mut closure)?;
    closure.libc_extras(&mut tree)?;
    closure.finish(&mut tree)?;
    add_etc(&mut tree)?;
    lay_out(&tree, root)?;
    let program = folders.bin.join("initdb");
    let inside = |command: &mut Command| -> Result<String, Problem> {
        // Without /proc, ld.so does not know what $ORIGIN of a program's RUNPATH is.
        command.env("LD_LIBRARY_PATH", &folders.lib);
        enter(command, root)?;
        output(command)
    };
    let version = inside(clean(&program).arg("--version"))?;
    inside(clean(&program).args(["-D", MADE_IN]).args(INITDB).arg(SUPERUSER))?;
    Ok((root.join(MADE_IN.trim_start_matches('/')), version_of(&version)))
}

fn machine_of(folders: &Folders, roots: &Roots) -> Result<Machine, Problem> {
    let path = folders.bin.join("postgres");
    let what = || format!("program {}", path.display());
    let found = roots.find(&path)?.ok_or_else(|| Problem::host(what(), "it is gone"))?;
    Ok(elf::of_file(&found.source.path).map_err(|why| Problem::host(what(), why))?.machine)
}

/// Writes a tree as files. Devices become empty files, which are removed with the folder.
fn lay_out(tree: &Tree, root: &Path) -> Result<(), Problem> {
    DirBuilder::new().mode(0o755).create(root).map_err(|e| failed(root, &e))?;
    for (path, node) in tree.iter() {
        let to = root.join(path);
        let written = match &node.kind {
            Kind::Folder => DirBuilder::new().create(&to),
            Kind::File(source) => std::fs::copy(&source.path, &to).map(|_| ()),
            Kind::Text(text) => std::fs::write(&to, text),
            Kind::Link(target) => symlink(target, &to),
            Kind::CharDevice(..) => std::fs::write(&to, ""),
        };
        let whole = written.and_then(|()| match &node.kind {
            Kind::Link(_) => Ok(()),
            _ => {
                chown(&to, Some(node.owner), Some(node.owner))?;
                std::fs::set_permissions(&to, std::fs::Permissions::from_mode(node.mode))
            }
        });
        whole.map_err(|e| failed(&to, &e))?;
    }
    Ok(())
}

/// Makes a command run in a chroot, as the guest's PostgreSQL user.
fn enter(command: &mut Command, root: &Path) -> Result<(), Problem> {
    let root = CString::new(root.as_os_str().as_bytes())
        .map_err(|_| Problem::host(root.display().to_string(), "its path has a zero byte"))?;
    let prepare = move || {
        // SAFETY: only system calls that are async-signal-safe, on a string that the closure owns.
        let ok = unsafe {
            libc::chroot(root.as_ptr()) == 0
                && libc::chdir(c"/tmp".as_ptr()) == 0
                && libc::setgroups(0, std::ptr::null()) == 0
                && libc::setgid(POSTGRES_ID) == 0
                && libc::setuid(POSTGRES_ID) == 0
                // Last, since a change of user clears it.
                && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) == 0
        };
        if ok { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(prepare) };
    Ok(())
}

/// A command with a clean environment.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs([("PATH", "/usr/bin:/bin"), ("LC_ALL", "C"), ("TZ", "Etc/UTC")]).stdin(Stdio::null());
    command
}

/// Runs a command; returns its output.
fn output(command: &mut Command) -> Result<String, Problem> {
    let what = format!("program {}", command.get_program().to_string_lossy());
    let done = command.output().map_err(|e| Problem::host(what.clone(), e.to_string()))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join("; ");
    Err(Problem::host(what, format!("{}: {last}", done.status))
        .hint("leave the template out: the guest then runs initdb itself, which takes longer"))
}

/// `15.18 (Debian …)` of `initdb (PostgreSQL) 15.18 (Debian …)`.
fn version_of(said: &str) -> String {
    let said = said.trim();
    said.split_once("(PostgreSQL) ").map_or(said, |(_, version)| version).to_owned()
}
