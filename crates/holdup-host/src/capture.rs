//! Copies of what is read, as a tree that [`crate::Host::at`] can look at elsewhere.

use crate::fs::{CAPTURED_LOG, CAPTURED_UNREADABLE, HostFs, RealFs};
use crate::system::Scheduling;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The running system, of which every file that is read is copied below a folder.
///
/// What could not be read is listed with the system's words in a file `unreadable`; a file that is not there is not.
pub(crate) struct CapturingFs {
    inner: RealFs,
    into: PathBuf,
    unreadable: Mutex<BTreeMap<PathBuf, String>>,
}

impl CapturingFs {
    /// Copies go below `into`, a folder that does not exist yet.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub(crate) fn new(into: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(into)?;
        let capturing =
            CapturingFs { inner: RealFs::new("/"), into: into.to_owned(), unreadable: Mutex::new(BTreeMap::new()) };
        // A tree has no system calls: uname(2) is kept where newer kernels have a file for it.
        let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
        capturing.keep(Path::new("/proc/sys/kernel/arch"), format!("{machine}\n").as_bytes())?;
        Ok(capturing)
    }

    fn place(&self, path: &Path) -> PathBuf {
        let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
        self.into.join(names.collect::<PathBuf>())
    }

    fn keep(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let place = self.place(path);
        fs::create_dir_all(place.parent().unwrap_or(&self.into))?;
        // A file that is read twice may have grown: the longer copy has both.
        if fs::metadata(&place).is_ok_and(|there| there.len() > bytes.len() as u64) {
            return Ok(());
        }
        write_private(&place, bytes)
    }

    /// Keeps what was read, or why it could not be; the answer is the reader's.
    fn kept(&self, path: &Path, found: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        match found {
            Ok(bytes) => {
                self.keep(path, &bytes)?;
                Ok(bytes)
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    // That it exists may have been asked before; what is listed needs no empty stand-in.
                    let _was_there = fs::remove_file(self.place(path));
                    self.note_unreadable(path, &error)?;
                }
                Err(error)
            }
        }
    }

    fn note_unreadable(&self, path: &Path, error: &io::Error) -> io::Result<()> {
        let words = error.to_string();
        let words = words.split(" (os error").next().unwrap_or_default().to_owned();
        let mut all = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(path.to_owned(), words);
        let lines: String = all.iter().map(|(path, words)| format!("{}\t{words}\n", path.display())).collect();
        write_private(&self.into.join(CAPTURED_UNREADABLE), lines.as_bytes())
    }
}

/// Writes a file that only this user can read: what was read may be secret.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
    file.write_all(bytes)
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

    fn read_regular(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        self.kept(path, self.inner.read_regular(path, most))
    }

    fn without_capture(&self) -> Option<Arc<dyn HostFs>> {
        Some(Arc::new(self.inner.clone()))
    }

    fn captured(&self, path: &Path, found: io::Result<Vec<u8>>) {
        // What cannot be written is missing in the capture, as for any other file.
        let _kept = self.kept(path, found);
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let target = self.inner.read_link(path)?;
        let place = self.place(path);
        fs::create_dir_all(place.parent().unwrap_or(&self.into))?;
        match std::os::unix::fs::symlink(&target, place) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => Ok(target),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = self.inner.list(path)?;
        for name in &names {
            let below = path.join(name);
            let is_folder = fs::symlink_metadata(&below).is_ok_and(|m| m.is_dir() || m.is_symlink());
            if is_folder && fs::metadata(&below).is_ok_and(|m| m.is_dir()) {
                fs::create_dir_all(self.place(&below))?;
            }
        }
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        let is_there = self.inner.exists(path);
        if is_there && !self.place(path).exists() {
            // That it is there is all that was asked; what it holds is kept when it is read.
            let _kept_or_not = if path.is_dir() { fs::create_dir_all(self.place(path)) } else { self.keep(path, b"") };
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
