//! Copies of the files that are read, as a tree that [`crate::Host::at`] can look at elsewhere.

use crate::fs::{CAPTURED_LOG, CAPTURED_UNREADABLE, HostFs, RealFs};
use crate::system::Scheduling;
use holdup_files::Folder;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The running system, of which every file that is read is copied below a folder. Copies are their maker's alone: what
/// root may read is not for all.
///
/// What could not be read is listed with the system's words in a file `unreadable`; a file that is not there is not.
pub(crate) struct CapturingFs {
    inner: RealFs,
    into: Folder,
    /// The file `unreadable`, and what stands in it.
    unreadable: Mutex<(Option<File>, BTreeSet<PathBuf>)>,
}

impl CapturingFs {
    /// Copies go below `into`, a folder that does not exist yet.
    pub(crate) fn new(into: &Path) -> io::Result<Self> {
        let name = into.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let above = into.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
        let into = Folder::open(above)?.create_folder(name, FOLDER)?;
        let capturing = CapturingFs { inner: RealFs::new("/"), into, unreadable: Mutex::default() };
        // A tree has no system calls: uname(2) is kept where newer kernels have a file for it.
        let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
        capturing.copy(Path::new("/proc/sys/kernel/arch"), format!("{machine}\n").as_bytes())?;
        Ok(capturing)
    }

    /// The folder of the copy of this path, which is made where it is missing, and the name in it.
    fn place(&self, path: &Path) -> io::Result<(Folder, PathBuf)> {
        let names: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let name = names.file_name().ok_or(io::ErrorKind::InvalidInput)?.into();
        Ok((self.folder(names.parent().unwrap_or(Path::new("")))?, name))
    }

    /// The copy of this folder, which is made where it is missing.
    fn folder(&self, path: &Path) -> io::Result<Folder> {
        let mut folder: Option<Folder> = None;
        for part in path.components().filter(|part| matches!(part, Component::Normal(_))) {
            let above = folder.as_ref().unwrap_or(&self.into);
            folder = Some(match above.folder(part) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    let name = part.as_os_str().to_str().ok_or(io::ErrorKind::InvalidData)?;
                    above.create_folder(name, FOLDER)?
                }
                found => found?,
            });
        }
        folder.map_or_else(|| Folder::open(self.into.path()), Ok)
    }

    fn copy(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        match folder.stat(&name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
            // A file that is read twice may have grown: the longer copy has both.
            Ok(there) if there.st_size.cast_unsigned() > bytes.len() as u64 => return Ok(()),
            Ok(_) => folder.remove(&name)?,
        }
        folder.create_file(&name, FILE)?.write_all(bytes)
    }

    /// Keeps what was read, or why it could not be; the answer is the reader's.
    fn kept(&self, path: &Path, found: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        self.keep(path, &found)?;
        found
    }

    fn note_unreadable(&self, path: &Path, error: &io::Error) -> io::Result<()> {
        let words = error.to_string();
        let words = words.split(" (os error").next().unwrap_or_default().replace(char::is_control, " ");
        let mut noted = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, known) = &mut *noted;
        // One line is one path.
        if path.to_string_lossy().contains(char::is_control) || !known.insert(path.to_owned()) {
            return Ok(());
        }
        let file = match file {
            Some(file) => file,
            None => file.insert(self.into.create_file(CAPTURED_UNREADABLE, FILE)?),
        };
        file.write_all(format!("{}\t{words}\n", path.display()).as_bytes())
    }
}

/// The modes of new files and folders.
const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

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
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                // That it exists may have been asked before: there is a copy without contents then.
                if let Ok((folder, name)) = self.place(path) {
                    let _was_there = folder.remove(name);
                }
                self.note_unreadable(path, error)
            }
        }
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let target = self.inner.read_link(path)?;
        let (folder, name) = self.place(path)?;
        match rustix::fs::symlinkat(&target, folder.fd(), &name) {
            Err(e) if e != rustix::io::Errno::EXIST => Err(e.into()),
            _ => Ok(target),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = self.inner.list(path)?;
        for name in &names {
            let below = path.join(name);
            if self.inner.is_folder(&below) {
                self.folder(&below)?;
            }
        }
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        let is_there = self.inner.exists(path);
        if is_there && self.place(path).is_ok_and(|(folder, name)| folder.stat(name).is_err()) {
            // That it is there is all that was asked; what it holds is kept when it is read.
            let _kept_or_not =
                if self.inner.is_folder(path) { self.folder(path).map(|_| ()) } else { self.copy(path, b"") };
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
