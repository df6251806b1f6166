//! Copies of the files that are read, as a tree that [`crate::Host::captured`] can look at elsewhere.

use crate::fake::resolve;
use crate::fs::{CAPTURED_LOG, HostFs, RealFs};
use crate::system::Scheduling;
use crate::tree::{MOST_BYTES, TreeEntry, TreeFile};
use holdup_files::Folder;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The running system, of which every file that is read is kept for a file. It is its maker's alone: what root may read is
/// not for all.
///
/// What could not be read is kept with the system's words; a file that is not there is not.
pub(crate) struct CapturingFs {
    inner: RealFs,
    into: File,
    tree: Mutex<TreeFile>,
}

impl CapturingFs {
    /// The copies are for `into`, a file that does not exist yet.
    pub(crate) fn new(into: &Path) -> io::Result<Self> {
        let name = into.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = into.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
        let into = Folder::open_to_fill(above)?.create_file(name, 0o600)?;
        let capturing = CapturingFs { inner: RealFs::new("/"), into, tree: Mutex::default() };
        // A tree has no system calls: uname(2) is kept where newer kernels have a file for it.
        let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
        capturing.copy(Path::new("/proc/sys/kernel/arch"), format!("{machine}\n").as_bytes());
        Ok(capturing)
    }

    fn tree(&self) -> MutexGuard<'_, TreeFile> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry at a path, unless `keeps` is for the one that is there. Links that were read before are followed, the last
    /// part of the path only for what lies behind a link.
    fn put(&self, path: &Path, entry: TreeEntry, keeps: impl Fn(&TreeEntry) -> bool) {
        // Of a name that is not UTF-8 no path is asked.
        let Some(path) = path.to_str() else { return };
        let mut tree = self.tree();
        let follow = |path: &str| {
            resolve(path, |link| match tree.entries.get(link.trim_start_matches('/')) {
                Some(TreeEntry::Link(target)) => Some(target.as_str()),
                _ => None,
            })
        };
        let path = match path.rsplit_once('/') {
            Some((folder, name)) if matches!(entry, TreeEntry::Link(_)) => format!("{}/{name}", follow(folder)),
            _ => follow(path),
        };
        let path = path.trim_start_matches('/');
        if !path.is_empty() && !tree.entries.get(path).is_some_and(keeps) {
            tree.entries.insert(path.to_owned(), entry);
        }
    }

    fn copy(&self, path: &Path, bytes: &[u8]) {
        // A file that is read twice may have grown: the longer copy has both.
        let is_longer = |there: &TreeEntry| matches!(there, TreeEntry::File(known) if known.len() > bytes.len());
        self.put(path, TreeEntry::File(bytes.to_vec()), is_longer);
    }

    /// Keeps what was read, or why it could not be; the answer is the reader's.
    fn kept(&self, path: &Path, found: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        self.keep(path, &found)?;
        found
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "nothing is changed while a host is captured")
}

impl HostFs for CapturingFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.kept(path, self.inner.read(path))
    }

    fn read_head(&self, path: &Path, longest: usize) -> io::Result<Vec<u8>> {
        self.kept(path, self.inner.read_head(path, longest))
    }

    fn is_capturing(&self) -> bool {
        true
    }

    fn keep(&self, path: &Path, read: &io::Result<Vec<u8>>) -> io::Result<()> {
        match read {
            Ok(bytes) => self.copy(path, bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let words = error.to_string();
                let words = words.split(" (os error").next().unwrap_or_default().to_owned();
                // That it exists may have been asked before: there is a copy without contents then.
                let is_read = |there: &TreeEntry| !matches!(there, TreeEntry::File(known) if known.is_empty());
                self.put(path, TreeEntry::Unreadable(words), is_read);
            }
        }
        Ok(())
    }

    fn write_capture(&self) -> io::Result<()> {
        let mut tree = self.tree();
        // A folder with something in it needs no entry.
        let folders: Vec<String> =
            tree.entries.keys().filter_map(|path| Some(path.rsplit_once('/')?.0.to_owned())).collect();
        for folder in folders {
            if tree.entries.get(&folder) == Some(&TreeEntry::Folder) {
                tree.entries.remove(&folder);
            }
        }
        let text = tree.text();
        if text.len() > MOST_BYTES {
            return Err(io::Error::other(format!("it has more than {MOST_BYTES} bytes")));
        }
        (&self.into).write_all(text.as_bytes())
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let target = self.inner.read_link(path)?;
        if let Some(target) = target.to_str() {
            self.put(path, TreeEntry::Link(target.to_owned()), |_| true);
        }
        Ok(target)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = self.inner.list(path)?;
        for name in &names {
            let below = path.join(name);
            if self.inner.is_folder(&below) {
                self.put(&below, TreeEntry::Folder, |_| true);
            }
        }
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        let is_there = self.inner.exists(path);
        if is_there {
            // That it is there is all that was asked; what it holds is kept when it is read.
            let entry = if self.inner.is_folder(path) { TreeEntry::Folder } else { TreeEntry::File(Vec::new()) };
            self.put(path, entry, |_| true);
        }
        is_there
    }

    fn write(&self, _path: &Path, _bytes: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn may_write(&self, _path: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn replace_synced(&self, _path: &Path, _bytes: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn remove_synced(&self, _path: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn is_live(&self) -> bool {
        true
    }

    fn scheduling(&self, tid: u32) -> io::Result<Scheduling> {
        self.inner.scheduling(tid)
    }

    fn kernel_log(&self) -> io::Result<Vec<u8>> {
        self.kept(Path::new(CAPTURED_LOG), self.inner.kernel_log())
    }
}
