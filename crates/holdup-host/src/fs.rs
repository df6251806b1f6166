//! The file operations that a host is made of, and the real ones.

use crate::own;
use crate::system::{self, Scheduling};
use crate::within::open_within;
use holdup_files::{open_input, reopen_regular};
use rustix::fs::{Dir, Mode, OFlags};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The identity of one version of a file (inode(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileIdentity {
    /// The device that it lies on.
    pub device: u64,
    pub inode: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// When its contents last changed, ns since 1970.
    pub modified_ns: i64,
    /// When it or what is known about it last changed, ns since 1970; no user can set it back.
    pub changed_ns: i64,
    /// The user whose file it is.
    pub uid: u32,
    /// Its type and permissions (inode(7), `st_mode`).
    pub mode: u32,
}

impl FileIdentity {
    /// True if a user other than root and this one can write it.
    pub fn is_foreign(&self) -> bool {
        let is_trusted = self.uid == 0 || self.uid == rustix::process::geteuid().as_raw();
        !is_trusted || self.mode & 0o022 != 0
    }
}

/// What a [`crate::Host`] needs of a file system. Paths are absolute, as the host sees them.
pub trait HostFs: Send + Sync {
    /// The whole of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// One write call on a file that exists.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// The names in a folder, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// True if something is there.
    fn exists(&self, path: &Path) -> bool;
    /// Opens for writing and closes again.
    fn may_write(&self, path: &Path) -> io::Result<()>;
    /// A new file in place of the old one, all or nothing, synced.
    fn replace_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Removes a file, synced; a missing one is no error.
    fn remove_synced(&self, path: &Path) -> io::Result<()>;

    /// The whole of a file of holdup's own, in a folder that only its user can change.
    fn read_own(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path)
    }

    /// The whole of a regular file, which must not have more than `most` bytes.
    fn read_bounded(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        let bytes = self.read_head(path, most.saturating_add(1))?;
        if bytes.len() > most { Err(too_long(most)) } else { Ok(bytes) }
    }

    /// At most the first `longest` bytes of a file, and what file they are of where that is known.
    fn read_identified(&self, path: &Path, longest: usize) -> io::Result<(Vec<u8>, Option<FileIdentity>)> {
        Ok((self.read_head(path, longest)?, None))
    }

    /// The names in a folder, sorted, of which there must not be more than `most`.
    fn list_bounded(&self, path: &Path, most: usize) -> io::Result<Vec<String>> {
        let names = self.list(path)?;
        if names.len() > most { Err(too_many(most)) } else { Ok(names) }
    }

    /// True if what is read is also kept, as a tree for another look.
    fn is_capturing(&self) -> bool {
        false
    }

    /// Keeps what another process has read of this host.
    fn keep(&self, _path: &Path, _read: &io::Result<Vec<u8>>) -> io::Result<()> {
        Ok(())
    }

    /// Writes what was kept.
    fn write_capture(&self) -> io::Result<()> {
        Ok(())
    }

    /// At most the first `longest` bytes of a file: some files of /proc grow with the number of CPUs.
    fn read_head(&self, path: &Path, longest: usize) -> io::Result<Vec<u8>> {
        let mut bytes = self.read(path)?;
        bytes.truncate(longest);
        Ok(bytes)
    }
    /// What a symbolic link points to, as it stands in the link.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// The permission bits of a file.
    fn mode(&self, _path: &Path) -> io::Result<u32> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "these files have no permission bits"))
    }
    /// The identity of one version of a file.
    fn identity(&self, _path: &Path) -> io::Result<FileIdentity> {
        Err(not_live())
    }
    /// True if this is the running system itself, so that system calls speak of the host of these files.
    fn is_live(&self) -> bool {
        false
    }
    /// How a task is scheduled.
    fn scheduling(&self, _tid: u32) -> io::Result<Scheduling> {
        Err(not_live())
    }
    /// Sets how a task is scheduled.
    fn set_scheduling(&self, _tid: u32, _wanted: Scheduling) -> io::Result<()> {
        Err(not_live())
    }
    /// Writes a device that keeps what is written for as long as it is open, and keeps it open in this process.
    fn hold(&self, _path: &Path, _bytes: &[u8]) -> io::Result<()> {
        Err(not_live())
    }
    /// Closes what [`HostFs::hold`] keeps open; nothing to close is no error.
    fn release(&self, _path: &Path) -> io::Result<()> {
        Err(not_live())
    }
    /// True if this process holds it.
    fn holds(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }
    /// The slice of a task in ns, where the kernel shows it.
    fn slice(&self, _tid: u32) -> io::Result<Option<u64>> {
        Err(not_live())
    }
    /// Gives a task its own slice, in ns, or the default one.
    fn set_slice(&self, _tid: u32, _own_ns: Option<u64>) -> io::Result<()> {
        Err(not_live())
    }
    /// The CPUs that a task may run on, sorted.
    fn affinity(&self, _tid: u32) -> io::Result<Vec<u32>> {
        Err(not_live())
    }
    /// Sets the CPUs that a task may run on.
    fn set_affinity(&self, _tid: u32, _cpus: &[u32]) -> io::Result<()> {
        Err(not_live())
    }
    /// The kernel's log.
    fn kernel_log(&self) -> io::Result<Vec<u8>> {
        Err(not_live())
    }
}

fn not_live() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "these files are not those of the running system")
}

fn too_long(most: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it has more than {most} bytes"))
}

fn too_many(most: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it has more than {most} entries"))
}

/// The real file system, below a root.
#[derive(Debug, Clone)]
pub struct RealFs {
    root: PathBuf,
    /// What a captured tree says of files that could not be read, once that was asked.
    unreadable: Arc<OnceLock<BTreeMap<PathBuf, String>>>,
}

/// Where a path is looked up.
enum Beneath<'a> {
    /// From the root of this process.
    Here,
    /// Beneath this folder, which links do not lead out of.
    Folder(PathBuf, &'a Path),
}

impl RealFs {
    /// Paths are taken below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        RealFs { root: root.into(), unreadable: Arc::default() }
    }

    /// What a captured tree says of a file that was there and could not be read: a line of its file `unreadable`, the
    /// path, a tab and the system's words.
    fn as_captured(&self, path: &Path, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::NotFound || self.is_live() {
            return error;
        }
        let listed = self.unreadable.get_or_init(|| {
            let open = self.open_beneath(Path::new(CAPTURED_UNREADABLE), OFlags::PATH).and_then(reopen_regular);
            let text = open.and_then(|file| read_most(file, LONGEST_IN_TREE)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines = text.lines().filter_map(|line| line.split_once('\t'));
            lines.map(|(path, reason)| (PathBuf::from(path), reason.to_owned())).collect()
        });
        listed.get(path).map_or(error, |words| error_of_words(words))
    }

    /// A captured tree is foreign: its links are followed below its root only, absolute ones too. So is what a process
    /// has for its root.
    fn beneath<'a>(&self, path: &'a Path) -> Beneath<'a> {
        if !self.is_live() {
            return Beneath::Folder(self.root.clone(), path);
        }
        let mut parts = path.components();
        parts.next();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(proc), Some(pid), Some(root)) if proc.as_os_str() == "proc" && root.as_os_str() == "root" => {
                let rest = parts.as_path();
                let rest = if rest == Path::new("") { Path::new(".") } else { rest };
                Beneath::Folder(Path::new("/proc").join(pid).join("root"), rest)
            }
            _ => Beneath::Here,
        }
    }

    /// Opens for reading. Only regular files are opened: a pipe is not waited for, and opening a device may have effects.
    fn open(&self, path: &Path) -> io::Result<File> {
        match self.beneath(path) {
            Beneath::Here if is_of_the_kernel(path) => File::open(path),
            Beneath::Here => open_input(path),
            Beneath::Folder(..) => self
                .open_beneath(path, OFlags::PATH)
                .and_then(reopen_regular)
                .map_err(|error| self.as_captured(path, error)),
        }
    }

    fn open_beneath(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        match self.beneath(path) {
            Beneath::Here => Ok(rustix::fs::open(path, flags, Mode::empty())?),
            Beneath::Folder(root, rest) => {
                let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let root = rustix::fs::open(&root, folder, Mode::empty())?;
                open_within(&root, rest, flags)
            }
        }
    }

    /// Opens for writing what exists: files of the kernel, or files of a test's tree.
    fn open_to_write(&self, path: &Path) -> io::Result<File> {
        if self.is_live() {
            return OpenOptions::new().write(true).open(path);
        }
        Ok(File::from(self.open_beneath(path, OFlags::WRONLY | OFlags::NONBLOCK)?))
    }

    /// True if a path leads to a folder.
    pub(crate) fn is_folder(&self, path: &Path) -> bool {
        self.open_beneath(path, OFlags::PATH | OFlags::DIRECTORY).is_ok()
    }

    fn names(&self, path: &Path, most: usize) -> io::Result<Vec<String>> {
        let folder = self.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == most {
                return Err(too_many(most));
            }
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The bound of a file whose length is not known before.
    fn longest(&self) -> usize {
        if self.is_live() { LONGEST_FILE } else { LONGEST_IN_TREE }
    }

    fn below(&self, path: &Path) -> PathBuf {
        let mut whole = self.root.clone();
        for part in path.components() {
            if let Component::Normal(name) = part {
                whole.push(name);
            }
        }
        whole
    }
}

/// True if a path of the running system is one of the kernel's own files, and none that a link of /proc leads to. One of
/// them is a device, which holds the latency that is asked for.
fn is_of_the_kernel(path: &Path) -> bool {
    if path == Path::new("/dev/cpu_dma_latency") {
        return true;
    }
    let names = ["root", "cwd", "exe", "fd", "map_files"];
    (path.starts_with("/proc") || path.starts_with("/sys"))
        && !path.components().any(|part| part == Component::ParentDir || names.iter().any(|n| part.as_os_str() == *n))
}

/// The whole of a file, which must not have more than `most` bytes.
fn read_most(file: File, most: usize) -> io::Result<Vec<u8>> {
    // Nearly all files of /proc and /sys are shorter: without room they are read in many small pieces.
    let mut bytes = Vec::with_capacity(4096);
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most { Err(too_long(most)) } else { Ok(bytes) }
}

fn identity_of(file: &File) -> io::Result<FileIdentity> {
    let found = file.metadata()?;
    let changed_ns = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
    Ok(FileIdentity {
        device: found.dev(),
        inode: found.ino(),
        bytes: found.size(),
        modified_ns: changed_ns(found.mtime(), found.mtime_nsec()),
        changed_ns: changed_ns(found.ctime(), found.ctime_nsec()),
        uid: found.uid(),
        mode: found.mode(),
    })
}

/// The error that a captured tree has in the system's words.
pub(crate) fn error_of_words(words: &str) -> io::Error {
    match words.to_ascii_lowercase().as_str() {
        "operation not permitted" => io::Error::from_raw_os_error(libc::EPERM),
        "permission denied" => io::Error::from_raw_os_error(libc::EACCES),
        words => io::Error::other(words.to_owned()),
    }
}

/// Where a captured tree keeps the kernel's log.
pub(crate) const CAPTURED_LOG: &str = "/kernel-log";

/// Where it lists the files that were there and could not be read.
pub(crate) const CAPTURED_UNREADABLE: &str = "unreadable";

/// What this process holds open, by whole path. It belongs to the process and not to a [`RealFs`], of which there may be
/// several: the kernel forgets it with the process.
fn held() -> MutexGuard<'static, BTreeMap<PathBuf, File>> {
    static HELD: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files under /proc can be endless; nothing that holdup reads is longer.
const LONGEST_FILE: usize = 64 << 20;

/// In a captured tree any file may be as long as its maker wants; the longest that is read without another bound is the
/// kernel's log.
pub(crate) const LONGEST_IN_TREE: usize = 4 << 20;

/// Entries of a folder of a captured tree: /proc of a host with many processes.
const MOST_IN_TREE: usize = 100_000;

impl HostFs for RealFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        read_most(self.open(path)?, self.longest())
    }

    fn read_own(&self, path: &Path) -> io::Result<Vec<u8>> {
        own::read(&self.below(path))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let written = self.open_to_write(path)?.write(bytes)?;
        if written == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::other(format!("only {written} of {} bytes were taken", bytes.len())))
        }
    }

    fn read_head(&self, path: &Path, longest: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(longest.min(4096));
        self.open(path)?.take(longest as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_identified(&self, path: &Path, longest: usize) -> io::Result<(Vec<u8>, Option<FileIdentity>)> {
        let file = self.open(path)?;
        let before = identity_of(&file)?;
        let mut bytes = Vec::with_capacity(longest.min(4096));
        (&file).take(longest as u64).read_to_end(&mut bytes)?;
        if identity_of(&file)? != before {
            return Err(io::Error::other("it changed while it was read"));
        }
        Ok((bytes, Some(before)))
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        if self.is_live() {
            return fs::read_link(path);
        }
        let link = self.open_beneath(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let target = rustix::fs::readlinkat(link, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        Ok(rustix::fs::fstat(self.open_beneath(path, OFlags::PATH)?)?.st_mode & 0o7777)
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        if !self.is_live() {
            return Err(not_live());
        }
        // A descriptor made with O_PATH opens nothing.
        identity_of(&File::from(self.open_beneath(path, OFlags::PATH)?))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.names(path, if self.is_live() { usize::MAX } else { MOST_IN_TREE })
    }

    fn list_bounded(&self, path: &Path, most: usize) -> io::Result<Vec<String>> {
        self.names(path, most)
    }

    fn exists(&self, path: &Path) -> bool {
        match self.open_beneath(path, OFlags::PATH) {
            Ok(_) => true,
            Err(error) => !self.is_live() && self.as_captured(path, error).kind() != io::ErrorKind::NotFound,
        }
    }

    fn may_write(&self, path: &Path) -> io::Result<()> {
        self.open_to_write(path).map(|_| ())
    }

    fn replace_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        own::replace(&self.below(path), bytes)
    }

    fn remove_synced(&self, path: &Path) -> io::Result<()> {
        own::remove(&self.below(path))
    }

    fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    fn scheduling(&self, tid: u32) -> io::Result<Scheduling> {
        if self.is_live() { system::scheduling(tid) } else { Err(not_live()) }
    }

    fn set_scheduling(&self, tid: u32, wanted: Scheduling) -> io::Result<()> {
        if self.is_live() { system::set_scheduling(tid, wanted) } else { Err(not_live()) }
    }

    fn hold(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // The new one is open before the old one is closed, so that there is no moment without.
        let mut file = self.open_to_write(path)?;
        file.write_all(bytes)?;
        held().insert(self.below(path), file);
        Ok(())
    }

    fn release(&self, path: &Path) -> io::Result<()> {
        held().remove(&self.below(path));
        Ok(())
    }

    fn holds(&self, path: &Path) -> io::Result<bool> {
        Ok(held().contains_key(&self.below(path)))
    }

    fn slice(&self, tid: u32) -> io::Result<Option<u64>> {
        if self.is_live() { system::slice(tid) } else { Err(not_live()) }
    }

    fn set_slice(&self, tid: u32, own_ns: Option<u64>) -> io::Result<()> {
        if self.is_live() { system::set_slice(tid, own_ns) } else { Err(not_live()) }
    }

    fn affinity(&self, tid: u32) -> io::Result<Vec<u32>> {
        if self.is_live() { system::affinity(tid) } else { Err(not_live()) }
    }

    fn set_affinity(&self, tid: u32, cpus: &[u32]) -> io::Result<()> {
        if self.is_live() { system::set_affinity(tid, cpus) } else { Err(not_live()) }
    }

    fn kernel_log(&self) -> io::Result<Vec<u8>> {
        if self.is_live() { system::kernel_log() } else { self.read(Path::new(CAPTURED_LOG)) }
    }
}
