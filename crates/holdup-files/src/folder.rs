//! A folder that is held open.

use crate::draft::is_unsupported;
use crate::input::{must_be_regular, read_bounded, reopen_regular};
use crate::private::{MOST_ENTRIES, Owner, check_ancestors, is_random, random_name};
use crate::refused;
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchown, fstat, fsync, linkat, mkdirat, open,
    openat, readlinkat, renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// More links on the way to a folder are not followed, as by the kernel (path_resolution(7)).
const MOST_LINKS: u32 = 40;

/// How deep [`Folder::remove_tree`] goes: each level holds a descriptor.
const DEEPEST: u32 = 200;

/// An open folder. Paths given to its methods are relative to it, have no `..`, and no component of them is followed
/// when it is a symbolic link.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// What is in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    /// What it is; a link is [`FileType::Symlink`].
    pub kind: FileType,
}

impl Folder {
    /// Opens a folder that the user named; links in the path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder { fd: open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens a folder that the user named to write in. For root, a link on the way is followed only if it is root's: in /tmp
    /// anybody can make one that leads to where root alone may write.
    ///
    /// # Errors
    /// When it is not there, or another user's link is on the way.
    pub fn open_to_fill(path: &Path) -> io::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Folder::open(path);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let start = if path.is_absolute() { "/" } else { "." };
        let mut here = open(start, flags | OFlags::DIRECTORY, Mode::empty())?;
        let mut open_ended: Vec<OsString> = parts_reversed(path);
        let mut links = 0;
        while let Some(name) = open_ended.pop() {
            let found = openat(&here, &name, flags, Mode::empty())?;
            let stat = fstat(&found)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                here = found;
                continue;
            }
            let target = readlinkat(&found, "", Vec::new())?;
            let target = Path::new(OsStr::from_bytes(target.as_bytes())).to_owned();
            links += 1;
            if stat.st_uid != 0 || links > MOST_LINKS {
                let whose = format!("{} is a link of the user with id {}", name.to_string_lossy(), stat.st_uid);
                return Err(refused(format!("{whose}, which root does not follow: name {}", target.display())));
            }
            if target.is_absolute() {
                here = open("/", flags | OFlags::DIRECTORY, Mode::empty())?;
            }
            open_ended.extend(parts_reversed(&target));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder { fd: openat(&here, ".", flags, Mode::empty())?, path: path.to_owned() })
    }

    /// As [`Folder::open_to_fill`]; makes it, and what is missing above it, with what the umask leaves of 0755.
    ///
    /// # Errors
    /// When it cannot be made, or another user's link is on the way.
    pub fn make_to_fill(path: &Path) -> io::Result<Self> {
        match (Folder::open_to_fill(path), path.parent(), path.file_name()) {
            (Err(e), Some(above), Some(name)) if e.kind() == io::ErrorKind::NotFound => {
                let above = Folder::make_to_fill(if above == Path::new("") { Path::new(".") } else { above })?;
                match mkdirat(&above.fd, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => Folder::open_to_fill(path),
                    Err(e) => Err(e.into()),
                }
            }
            (opened, ..) => opened,
        }
    }

    /// This folder with the path that the kernel has for it, in which there is no link.
    pub fn with_real_path(self) -> io::Result<Self> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))?;
        Ok(Folder { path, ..self })
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Folder { fd: self.fd.try_clone()?, path: self.path.clone() })
    }

    /// Opens a folder whose contents are acted upon: it belongs to this user, no other user may write in it and, for
    /// root, none can put another one in its place ([`check_ancestors`]).
    ///
    /// # Errors
    /// When it is not there, or another user could have written in it.
    pub fn open_own(path: &Path) -> io::Result<Self> {
        let folder = Folder::open(&path.canonicalize()?)?;
        folder.owner()?.must_be_ours()?;
        check_ancestors(folder.path())?;
        Ok(Folder { path: path.to_owned(), ..folder })
    }

    /// The path by which it was opened, for messages and for programs that are started in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its owner, and what others may do with it.
    pub fn owner(&self) -> io::Result<Owner> {
        Ok(Owner::of(&fstat(&self.fd)?))
    }

    /// Opens a folder beneath.
    ///
    /// # Errors
    /// When it is not there, or a component is a link or no folder.
    pub fn folder(&self, path: impl AsRef<Path>) -> io::Result<Folder> {
        let path = path.as_ref();
        let fd = self.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Folder { fd, path: self.path.join(path) })
    }

    /// Makes a folder with exactly this mode.
    ///
    /// # Errors
    /// When something of that name is there, or it cannot be made.
    pub fn create_folder(&self, name: &str, mode: u32) -> io::Result<Folder> {
        let (parent, last) = self.parent_of(Path::new(name))?;
        mkdirat(parent.as_fd(), &last, Mode::from_raw_mode(mode & 0o700))?;
        let folder = self.folder(name)?;
        // The mode of mkdirat(2) goes through the umask.
        if let Err(e) = rustix::fs::fchmod(&folder.fd, Mode::from_raw_mode(mode)) {
            let _gone = unlinkat(parent.as_fd(), &last, AtFlags::REMOVEDIR);
            return Err(e.into());
        }
        Ok(folder)
    }

    /// Gives the folder itself to a user.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        Ok(fchown(&self.fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }

    /// What a path beneath is; links are not followed.
    pub fn stat(&self, path: impl AsRef<Path>) -> io::Result<Stat> {
        let (parent, last) = self.parent_of(path.as_ref())?;
        Ok(statat(parent.as_fd(), &last, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Where a link beneath leads, as it is written in the link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let (parent, last) = self.parent_of(path.as_ref())?;
        let target = readlinkat(parent.as_fd(), &last, Vec::new())?;
        Ok(PathBuf::from(String::from_utf8_lossy(target.as_bytes()).into_owned()))
    }

    /// Opens a regular file beneath, for reading.
    ///
    /// # Errors
    /// When it is not there, is no regular file, or a component is a link.
    pub fn open_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        reopen_regular(self.open_beneath(path.as_ref(), OFlags::PATH, Mode::empty())?)
    }

    /// Reads the whole of a regular file beneath.
    ///
    /// # Errors
    /// As for [`Folder::open_file`], and when it has more than `most` bytes.
    pub fn read(&self, path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        read_bounded(self.open_file(path)?, most)
    }

    /// Reads the whole of a file that only this user can have written: the folder may have been open to others before.
    ///
    /// # Errors
    /// As for [`Folder::read`], and when the file belongs to another user or others may write it.
    pub fn read_own(&self, path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(path)?;
        Owner::of(&fstat(&file)?).must_be_ours()?;
        read_bounded(file, most)
    }

    /// Opens a regular file beneath, for reading and writing; it is not truncated.
    pub fn open_to_write(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let fd = self.open_beneath(path.as_ref(), OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())?;
        must_be_regular(&fd)?;
        Ok(File::from(fd))
    }

    /// Makes a file with exactly this mode, open for reading and writing (O_EXCL).
    ///
    /// # Errors
    /// When something of that name is there, a link too, or it cannot be made.
    pub fn create_file(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_beneath(path.as_ref(), flags, Mode::from_raw_mode(mode & 0o600))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        Ok(File::from(file))
    }

    /// Makes the file that will take the place of `name`, `.NAME.RANDOM`, with this mode or that of the umask. It is locked as long
    /// as it is open, by which [`Folder::sweep`] sees that its writer lives.
    pub(crate) fn create_fresh(&self, name: &str, mode: Option<u32>) -> io::Result<(String, File)> {
        loop {
            let fresh = format!(".{name}.{}", random_name()?);
            let file = match mode {
                Some(mode) => self.create_file(&fresh, mode)?,
                None => self.create_by_umask(&fresh, 0o666)?,
            };
            // One that sweeps may have come before the lock. A file system without locks is not swept.
            let is_swept = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if !is_swept && fstat(&file)?.st_nlink > 0 {
                return Ok((fresh, file));
            }
        }
    }

    /// Removes what writers of this user left that were killed: `.NAME.RANDOM` without a lock, where `is_ours` knows NAME.
    pub fn sweep(&self, is_ours: impl Fn(&str) -> bool) {
        let us = rustix::process::geteuid().as_raw();
        for entry in self.list(MOST_ENTRIES).unwrap_or_default() {
            let Some(fresh) = entry.name.to_str().filter(|_| entry.kind == FileType::RegularFile) else { continue };
            let parts = fresh.strip_prefix('.').and_then(|rest| rest.rsplit_once('.'));
            if !parts.is_some_and(|(name, random)| is_random(random) && is_ours(name)) {
                continue;
            }
            let is_of_us = |file: &File| fstat(file).is_ok_and(|found| found.st_uid == us);
            let file = self.open_to_write(fresh).ok().filter(is_of_us);
            if file.is_some_and(|file| file.try_lock().is_ok()) {
                let _stays = self.remove(fresh);
            }
        }
    }

    /// Makes a file with what the umask leaves of a mode (O_EXCL).
    pub(crate) fn create_by_umask(&self, name: &str, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        Ok(File::from(self.open_beneath(Path::new(name), flags, Mode::from_raw_mode(mode))?))
    }

    /// Opens a file of ours beneath, for reading and writing; makes it with this mode where it is not there.
    ///
    /// # Errors
    /// When it is no regular file, or belongs to another user.
    pub fn open_or_create(&self, name: &str, mode: u32) -> io::Result<File> {
        match self.create_file(name, mode) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let file = self.open_to_write(name)?;
                Owner::of(&fstat(&file)?).must_be_ours()?;
                Ok(file)
            }
            made => made,
        }
    }

    /// Puts a new file in the place of an old one, all or nothing: a file with a random name is written, synced and
    /// renamed, and the folder is synced. A link of that name is replaced, and not followed.
    ///
    /// # Errors
    /// When a step fails; then the old file is as it was, and the new one is removed.
    pub fn replace_synced(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.write_fresh(name, Some(mode), true, |file| file.write_all(bytes))?;
        self.sync()
    }

    /// Gives a name to a file with what `write` wrote, synced, or removes it; what has the name is replaced if `replaces`.
    pub(crate) fn write_fresh(
        &self,
        name: &str,
        mode: Option<u32>,
        replaces: bool,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let (fresh, mut file) = self.create_fresh(name, mode)?;
        let written = write(&mut file).and_then(|()| {
            file.sync_all()?;
            self.move_to(&fresh, self, name, replaces)
        });
        if written.is_err() {
            let _gone = self.remove(&fresh);
        }
        written
    }

    /// Renames within this folder; what has the new name is replaced.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, one_name(from)?, &self.fd, one_name(to)?)?)
    }

    /// Moves a file into another folder of this file system; what has the new name is replaced if `replaces`.
    ///
    /// # Errors
    /// `AlreadyExists` when something has the new name and is not to be replaced.
    pub fn move_to(&self, from: &str, folder: &Folder, to: &str, replaces: bool) -> io::Result<()> {
        let (from, to) = (one_name(from)?, one_name(to)?);
        if replaces {
            return Ok(renameat(&self.fd, from, &folder.fd, to)?);
        }
        match renameat_with(&self.fd, from, &folder.fd, to, RenameFlags::NOREPLACE) {
            // Not every file system can: a second link is refused where something has the name.
            Err(Errno::INVAL) => {
                match linkat(&self.fd, from, &folder.fd, to, AtFlags::empty()).map_err(io::Error::from) {
                    // Nor has each second links. No other user may give the name to a file after the look.
                    Err(e)
                        if is_unsupported(&e) && folder.stat(to).is_err() && folder.owner()?.must_be_ours().is_ok() =>
                    {
                        Ok(renameat(&self.fd, from, &folder.fd, to)?)
                    }
                    linked => linked.and_then(|()| Ok(unlinkat(&self.fd, from, AtFlags::empty())?)),
                }
            }
            moved => Ok(moved?),
        }
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// `AlreadyExists` when something has the name.
    pub fn link(&self, name: &str, target: &Path) -> io::Result<()> {
        Ok(symlinkat(target, &self.fd, one_name(name)?)?)
    }

    /// Removes a file or link; a missing one is no error.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (parent, last) = self.parent_of(path.as_ref())?;
        match unlinkat(parent.as_fd(), &last, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes what is known of this folder to disk: fsync(2).
    ///
    /// # Errors
    /// When the disk fails. File systems that cannot sync a folder are no error.
    pub fn sync(&self) -> io::Result<()> {
        match fsync(&self.fd) {
            Ok(()) | Err(Errno::INVAL | Errno::ROFS) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// What is in the folder, sorted by name, without `.` and `..`.
    ///
    /// # Errors
    /// When it cannot be listed, or has more than `most` entries.
    pub fn list(&self, most: usize) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if found.len() == most {
                return Err(refused(format!("it has more than {most} entries")));
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let found = statat(&self.fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                kind = FileType::from_raw_mode(found.st_mode);
            }
            found.push(Entry { name: OsStr::from_bytes(name).to_owned(), kind });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Removes what has this name with all that is in it; links are removed and not followed. A missing one is no
    /// error.
    ///
    /// # Errors
    /// When something is left, or folders in it are more than 200 deep.
    pub fn remove_tree(&self, name: impl AsRef<Path>) -> io::Result<()> {
        let (parent, last) = self.parent_of(name.as_ref())?;
        remove_tree(parent.as_fd(), &last, 0)
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn open_beneath(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let (parent, last) = self.parent_of(path)?;
        Ok(openat(parent.as_fd(), &last, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)?)
    }

    /// The folder that holds the last component of a path, and that component.
    fn parent_of(&self, path: &Path) -> io::Result<(Parent<'_>, PathBuf)> {
        let mut names = path.components().filter(|part| *part != Component::CurDir).peekable();
        let mut parent = Parent::This(self.fd.as_fd());
        while let Some(part) = names.next() {
            let Component::Normal(name) = part else {
                return Err(refused("the path leads out of its folder"));
            };
            if names.peek().is_none() {
                return Ok((parent, PathBuf::from(name)));
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            parent = Parent::Beneath(openat(parent.as_fd(), name, flags, Mode::empty())?);
        }
        Err(refused("the path names nothing in its folder"))
    }
}

/// The names of a path, the last one first; `..` stays.
fn parts_reversed(path: &Path) -> Vec<OsString> {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(is_name).map(|part| part.as_os_str().to_owned()).collect()
}

/// A folder on the way: the one that a walk began at, or one that it opened.
enum Parent<'a> {
    This(BorrowedFd<'a>),
    Beneath(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::This(fd) => *fd,
            Parent::Beneath(fd) => fd.as_fd(),
        }
    }
}

fn one_name(name: &str) -> io::Result<&str> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return Err(refused(format!("`{name}` is not a name in a folder")));
    }
    Ok(name)
}

fn remove_tree(parent: BorrowedFd<'_>, name: &Path, depth: u32) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // EPERM is what POSIX has for a folder.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(e) => return Err(e.into()),
    }
    if depth == DEEPEST {
        return Err(refused(format!("it has folders that are more than {DEEPEST} deep")));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(parent, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            remove_tree(folder.as_fd(), Path::new(name), depth + 1)?;
        }
    }
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn folder() -> (tempfile::TempDir, Folder) {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir(top.path().join("in")).unwrap();
        std::fs::write(top.path().join("secret"), "secret").unwrap();
        let folder = Folder::open(&top.path().join("in")).unwrap();
        (top, folder)
    }

    #[test]
    fn nothing_leads_out_of_a_folder() {
        let (top, folder) = folder();
        symlink("../secret", top.path().join("in/link")).unwrap();
        symlink("..", top.path().join("in/up")).unwrap();
        for path in ["link", "up/secret", "../secret", "/etc/passwd", "a/../../secret", "", "."] {
            assert!(folder.read(path, 100).is_err(), "{path}");
            assert!(folder.open_to_write(path).is_err(), "{path}");
            assert!(folder.create_file(path, 0o600).is_err(), "{path}");
            assert!(folder.folder(path).is_err(), "{path}");
        }
        folder.replace_synced("link", b"new", 0o640).unwrap();
        assert_eq!(std::fs::read_to_string(top.path().join("secret")).unwrap(), "secret");
        assert_eq!(folder.read("./link", 3).unwrap(), b"new");
        let mode = std::fs::metadata(top.path().join("in/link")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640, "with any umask");
        assert_eq!(folder.list(10).unwrap().len(), 2, "the file that was written first is gone");
        assert!(folder.list(1).is_err());
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file() {
        let (top, folder) = folder();
        std::fs::create_dir_all(top.path().join("in/busy/x")).unwrap();
        assert!(folder.replace_synced("busy", b"x", 0o600).is_err());
        assert_eq!(folder.list(10).unwrap().len(), 1);
    }

    #[test]
    fn what_a_killed_writer_left_is_swept() {
        let (top, folder) = folder();
        for name in [".a.abcdefghabcdefgh", ".a.abcdefgh", ".b.abcdefghabcdefgh"] {
            std::fs::write(top.path().join("in").join(name), "left").unwrap();
        }
        let (live, _file) = folder.create_fresh("a", None).unwrap();
        folder.sweep(|name| name == "a");
        let mut stays = vec![".a.abcdefgh".to_owned(), live, ".b.abcdefghabcdefgh".to_owned()];
        stays.sort();
        let names = folder.list(9).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), stays);
    }

    #[test]
    fn a_tree_is_removed_and_what_it_links_to_is_not() {
        let (top, folder) = folder();
        std::fs::create_dir_all(top.path().join("in/tree/a/b")).unwrap();
        symlink(top.path(), top.path().join("in/tree/a/out")).unwrap();
        symlink(top.path(), top.path().join("in/gate")).unwrap();
        folder.remove_tree("tree").unwrap();
        folder.remove_tree("gate").unwrap();
        folder.remove_tree("nothing").unwrap();
        assert_eq!(folder.list(10).unwrap(), []);
        assert!(top.path().join("secret").exists());
        let deep: PathBuf = std::iter::repeat_n("d", 300).collect();
        std::fs::create_dir_all(top.path().join("in").join(&deep)).unwrap();
        assert!(folder.remove_tree("d").unwrap_err().to_string().contains("200 deep"));
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        let (_top, folder) = folder();
        let made = folder.create_folder("new", 0o711).unwrap();
        assert_eq!(made.owner().unwrap().mode & 0o7777, 0o711);
        assert!(folder.create_folder("new", 0o700).is_err());
        assert!(folder.create_file("new", 0o600).is_err());
        assert!(folder.open_or_create("new", 0o600).is_err(), "a folder is no file");
        folder.open_or_create("log", 0o600).unwrap().write_all(b"1").unwrap();
        assert_eq!(folder.open_or_create("log", 0o600).unwrap().metadata().unwrap().len(), 1);
    }
}
