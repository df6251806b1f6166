//! The file operations that a host is made of, and the real ones.

use crate::system::{self, Scheduling};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

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
    /// What a symbolic link points to, as it stands in the link.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
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
}

impl RealFs {
    /// Paths are taken below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        RealFs { root: root.into() }
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

/// Files under /proc can be endless; nothing that holdup reads is longer.
const LONGEST_FILE: u64 = 64 * 1024 * 1024;

impl HostFs for RealFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Nearly all files of /proc and /sys are shorter: without room they are read in many small pieces.
        let mut bytes = Vec::with_capacity(4096);
        File::open(self.below(path))?.take(LONGEST_FILE).read_to_end(&mut bytes)?;
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
        File::open(self.below(path))?.take(longest as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(self.below(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.below(path))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        self.below(path).exists()
    }

    fn may_write(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.below(path)).map(|_| ())
    }

    fn replace_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let whole = self.below(path);
        let folder = whole.parent().ok_or_else(|| io::Error::other("the path has no folder"))?;
        fs::create_dir_all(folder)?;
        let mut name = whole.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?.to_owned();
        name.push(".new");
        let fresh = folder.join(name);
        let mut file = File::create(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, &whole)?;
        File::open(folder)?.sync_all()
    }

    fn remove_synced(&self, path: &Path) -> io::Result<()> {
        let whole = self.below(path);
        match fs::remove_file(&whole) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        }
        match whole.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
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

    fn kernel_log(&self) -> io::Result<Vec<u8>> {
        if self.is_live() { system::kernel_log() } else { Err(not_live()) }
    }
}
