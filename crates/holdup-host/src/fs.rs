//! The file operations that a host is made of, and the real ones.

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
        let mut bytes = Vec::new();
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
}
