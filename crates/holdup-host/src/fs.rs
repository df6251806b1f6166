//! The file operations that a host is made of, and the real ones.

use crate::system::{self, Scheduling};
use holdup_files::{private_folder, read_bounded, reopen_regular};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What tells a file from every other one, and from itself as it was before (inode(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileIdentity {
    /// The device that it lies on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// When its contents last changed, ns since 1970.
    pub modified_ns: i64,
    /// When it or what is known about it last changed, ns since 1970; nobody can set it back.
    pub changed_ns: i64,
}

/// What a [`crate::Host`] needs of a file system. Paths are absolute, as the host sees them.
pub trait HostFs: Send + Sync {
    /// The whole of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// One write call on a file that exists.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// The names in a folder, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Whether something is there.
    fn exists(&self, path: &Path) -> bool;
    /// Opens for writing and closes again.
    fn may_write(&self, path: &Path) -> io::Result<()>;
    /// A new file in place of the old one, all or nothing, synced.
    fn replace_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Removes a file, synced; a missing one is no error.
    fn remove_synced(&self, path: &Path) -> io::Result<()>;

    /// At most the first `longest` bytes of a file: some files of /proc grow with the number of CPUs.
    fn read_head(&self, path: &Path, longest: usize) -> io::Result<Vec<u8>> {
        let mut bytes = self.read(path)?;
        bytes.truncate(longest);
        Ok(bytes)
    }
    /// The whole of a regular file that is not the kernel's, of at most `most` bytes.
    fn read_regular(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let bytes = self.read(path)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::other(format!("it has more than {most} bytes")));
        }
        Ok(bytes)
    }
    /// At most the first `longest` bytes of a regular file that is not the kernel's.
    fn read_regular_head(&self, path: &Path, longest: usize) -> io::Result<Vec<u8>> {
        self.read_head(path, longest)
    }
    /// These files without what keeps copies of them; `None` where nothing does.
    fn without_capture(&self) -> Option<Arc<dyn HostFs>> {
        None
    }
    /// Keeps a copy of what was read in another way, where copies are kept.
    fn captured(&self, _path: &Path, _found: io::Result<Vec<u8>>) {}
    /// The whole of a file that holdup keeps for itself: one that another user could have written is refused.
    fn read_own(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path)
    }
    /// What a symbolic link points to, as it stands in the link.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// The permission bits of a file.
    fn mode(&self, _path: &Path) -> io::Result<u32> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "these files have no permission bits"))
    }
    /// What tells a file from every other one, and from itself as it was before.
    fn identity(&self, _path: &Path) -> io::Result<FileIdentity> {
        Err(not_live())
    }
    /// Whether this is the running system itself, so that system calls speak of the host of these files.
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
    /// Whether this process holds it.
    fn holds(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }
    /// The slice of a task in ns, where the kernel tells.
    fn slice(&self, _tid: u32) -> io::Result<Option<u64>> {
        Err(not_live())
    }
    /// Gives a task a slice of its own, in ns, or the default one.
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

/// The real file system, below a root.
#[derive(Debug, Clone)]
pub struct RealFs {
    root: PathBuf,
    /// Of a tree: what was there and could not be read, with the reason.
    unreadable: Arc<OnceLock<BTreeMap<PathBuf, String>>>,
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
        match self.unreadable.get_or_init(|| self.listed_unreadable()).get(path).map(String::as_str) {
            None => error,
            Some("operation not permitted") => io::Error::from_raw_os_error(libc::EPERM),
            Some("permission denied") => io::Error::from_raw_os_error(libc::EACCES),
            Some(words) => io::Error::other(words.to_owned()),
        }
    }

    fn listed_unreadable(&self) -> BTreeMap<PathBuf, String> {
        let listed = self.regular_in_tree(Path::new(CAPTURED_UNREADABLE));
        let bytes = listed.and_then(|file| read_bounded(file, MOST_BYTES_OF_LIST)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        lines.map(|(path, reason)| (PathBuf::from(path), reason.to_ascii_lowercase())).collect()
    }

    /// Opens for reading. A captured tree is foreign: its links are followed below its root only, absolute ones too,
    /// and nothing but regular files is opened in it.
    fn open(&self, path: &Path) -> io::Result<File> {
        if self.is_live() {
            return File::open(path);
        }
        self.regular_in_tree(path).map_err(|error| self.as_captured(path, error))
    }

    fn regular_in_tree(&self, path: &Path) -> io::Result<File> {
        reopen_regular(self.open_in_tree(path, OFlags::PATH)?)
    }

    /// How much is read of one file.
    fn longest(&self) -> u64 {
        if self.is_live() { LONGEST_FILE } else { LONGEST_FILE_OF_TREE }
    }

    fn open_in_tree(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        // The user named it.
        let root = File::open(&self.root)?;
        let file = rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)?;
        Ok(File::from(file))
    }

    /// The folder of a file that holdup keeps for itself, and the file's name.
    fn own(&self, path: &Path) -> io::Result<(PathBuf, String)> {
        let whole = self.below(path);
        let folder = whole.parent().ok_or_else(|| io::Error::other("the path has no folder"))?.to_owned();
        let name = whole.file_name().and_then(|name| name.to_str());
        Ok((folder, name.ok_or_else(|| io::Error::other("the path has no file name"))?.to_owned()))
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

/// What a captured tree has of such files is shorter.
const LONGEST_FILE_OF_TREE: u64 = 16 * 1024 * 1024;

/// The list of what could not be read.
const MOST_BYTES_OF_LIST: u64 = 1 << 20;

/// What holdup keeps for itself is far shorter.
const MOST_BYTES_OF_OWN: u64 = 64 << 20;

/// Files under /proc can be endless; nothing that holdup reads is longer.
const LONGEST_FILE: u64 = 64 * 1024 * 1024;

impl HostFs for RealFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Nearly all files of /proc and /sys are shorter: without room they are read in many small pieces.
        let mut bytes = Vec::with_capacity(4096);
        self.open(path)?.take(self.longest()).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.below(path))?;
        let written = file.write(bytes)?;
        if written == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::other(format!("only {written} of {} bytes were taken", bytes.len())))
        }
    }

    fn read_head(&self, path: &Path, longest: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(longest as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(self.below(path))
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        fs::metadata(self.below(path)).map(|metadata| metadata.mode() & 0o7777)
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        if !self.is_live() {
            return Err(not_live());
        }
        let found = fs::metadata(path)?;
        let changed_ns = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
        Ok(FileIdentity {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified_ns: changed_ns(found.mtime(), found.mtime_nsec()),
            changed_ns: changed_ns(found.ctime(), found.ctime_nsec()),
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let folder =
            if self.is_live() { None } else { Some(self.open_in_tree(path, OFlags::RDONLY | OFlags::DIRECTORY)?) };
        let place = match &folder {
            None => path.to_owned(),
            Some(open) => PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())),
        };
        for entry in fs::read_dir(place)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        if self.is_live() {
            return path.exists();
        }
        match self.open_in_tree(path, OFlags::PATH) {
            Ok(_) => true,
            Err(error) => self.as_captured(path, error).kind() != io::ErrorKind::NotFound,
        }
    }

    fn may_write(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.below(path)).map(|_| ())
    }

    fn replace_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (folder, name) = self.own(path)?;
        private_folder(&folder)?.replace_synced(&name, bytes, 0o600)
    }

    fn remove_synced(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.own(path)?;
        // Where nothing was ever kept, nothing is made.
        if !folder.exists() {
            return Ok(());
        }
        let folder = private_folder(&folder)?;
        folder.remove(&name)?;
        folder.sync()
    }

    fn read_regular(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        if self.is_live() {
            return holdup_files::read_input(path, most);
        }
        read_bounded(self.open(path)?, most)
    }

    fn read_regular_head(&self, path: &Path, longest: usize) -> io::Result<Vec<u8>> {
        let file = if self.is_live() { holdup_files::open_input(path)? } else { self.open(path)? };
        let mut bytes = Vec::new();
        file.take(longest as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_own(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (folder, name) = self.own(path)?;
        if !folder.try_exists()? {
            return Err(io::ErrorKind::NotFound.into());
        }
        private_folder(&folder)?.read_own(&name, MOST_BYTES_OF_OWN)
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
        let (path, mut held) = (self.below(path), held());
        // The new one is open before the old one is closed, so that there is no moment without.
        let mut file = OpenOptions::new().write(true).open(&path)?;
        file.write_all(bytes)?;
        held.insert(path, file);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_holdup_keeps_is_its_users_alone() {
        let top = tempfile::tempdir().unwrap();
        let (fs, path) = (RealFs::new("/"), top.path().join("state/journal.json"));
        assert_eq!(fs.read_own(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs.remove_synced(&path).unwrap();
        assert!(!top.path().join("state").exists(), "nothing is made where nothing is kept");
        fs.replace_synced(&path, b"1").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&top.path().join("state")), mode(&path)), (0o700, 0o600), "whatever the umask is");
        assert_eq!(fs.read_own(&path).unwrap(), b"1");
        // One that another user could have written.
        fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let refused = fs.read_own(&path).unwrap_err().to_string();
        assert!(refused.contains("other users may write it (mode 0666)"), "{refused}");
        // A link is neither read nor written through, but replaced.
        let elsewhere = top.path().join("elsewhere");
        fs::write(&elsewhere, "precious").unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&elsewhere, &path).unwrap();
        fs.read_own(&path).unwrap_err();
        fs.replace_synced(&path, b"2").unwrap();
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
        assert_eq!(fs.read_own(&path).unwrap(), b"2");
        fs.remove_synced(&path).unwrap();
        assert_eq!(fs::read_dir(top.path().join("state")).unwrap().count(), 0);
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(top.path().join("state"), Some(54_321), None).unwrap();
        let refused = fs.replace_synced(&path, b"3").unwrap_err().to_string();
        assert!(refused.contains("belongs to the user with id 54321"), "{refused}");
    }
}
