//! Files that a library writes by their name, SQLite a bundle: what it keeps beside them no other user may put there.

use crate::private::{MOST_ENTRIES, sweep_private_folder};
use crate::{Folder, check_ancestors, is_private, random_name, refused};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Prefixes of the folders of drafts that a link leads to, and of those that are worthless without their writer.
const LINKED: &str = ".holdup-draft-";
const UNLINKED: &str = ".holdup-copy-";

/// The file beside a draft that says which name it gets; who holds it locked is writing.
const FOR: &str = "for";

/// Where root's drafts lie whose own folder another user can change.
const SHELF: &str = "/var/tmp";

/// A file that is written in a folder of this user alone, and gets its name when it is whole.
///
/// Until then a link of that name leads to it, where that was asked for and the file system has links. Dropped without
/// [`DraftFile::finish`], it gets its name if a link was asked for and nothing lies beside it, and is removed if none was.
#[derive(Debug)]
pub struct DraftFile {
    above: Folder,
    name: String,
    shelf: Folder,
    private: String,
    folder: Folder,
    is_linked: bool,
    is_done: bool,
    /// Locked as long as it is open.
    _lock: File,
}

impl DraftFile {
    /// Makes an empty file that will have the name `path`, with a link of that name to it if `is_linked`.
    ///
    /// # Errors
    /// `AlreadyExists` when a link is asked for and something has the name, `NotFound` when its folder is not there; when the folders cannot be
    /// written, or for root neither the folder nor /var/tmp is safe from other users.
    pub fn create(path: &Path, is_linked: bool) -> io::Result<Self> {
        let (above, name) = split(path)?;
        if is_linked && above.stat(&name).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let shelf = shelf_of(&above)?;
        let private = format!("{}{}", if is_linked { LINKED } else { UNLINKED }, random_name()?);
        // vfat has one mode for all folders, which need not be 0700.
        let folder = shelf.create_folder(&private, 0o700).or_else(|_| shelf.create_folder(&private, 0o755))?;
        let made = || {
            folder.owner()?.must_be_ours()?;
            let mut lock = folder.create_by_umask(FOR, 0o600)?;
            // On a file system without locks no other writer can be seen.
            let _none = lock.try_lock();
            lock.write_all(above.path().join(&name).as_os_str().as_encoded_bytes())?;
            folder.create_by_umask(&name, 0o666)?;
            let linked = is_linked.then(|| above.link(&name, &Self::target(&above, &shelf, &private, &name)));
            match linked {
                Some(Err(e)) if !is_unsupported(&e) => Err(e),
                _ => Ok(lock),
            }
        };
        match made() {
            Ok(lock) => Ok(DraftFile { above, name, shelf, private, folder, is_linked, is_done: false, _lock: lock }),
            Err(e) => {
                let _gone = shelf.remove_tree(&private);
                Err(e)
            }
        }
    }

    /// Takes up the draft that the link `path` leads to, if its writer is gone.
    pub fn abandoned(path: &Path) -> Option<Self> {
        let (above, name) = split(path).ok()?;
        let target = above.read_link(&name).ok()?;
        let private = target.parent()?.file_name()?.to_str()?;
        let shelf = shelf_of(&above).ok()?;
        // Another one may lead through a folder of another user, who has it lead elsewhere a moment later.
        let is_own = target == Self::target(&above, &shelf, private, &name);
        is_own.then(|| Self::take_up(&above, &shelf, private))?
    }

    /// Takes up the drafts for a folder whose writers are gone, and removes those that are worthless without them. One whose link is gone or
    /// was renamed stays: it may be the only copy.
    pub fn all_abandoned(folder: &Path) -> Vec<Self> {
        let Ok(above) = Folder::open_to_fill(folder).and_then(Folder::with_real_path) else { return Vec::new() };
        let Ok(shelf) = shelf_of(&above) else { return Vec::new() };
        let mut found = Vec::new();
        for entry in shelf.list(MOST_ENTRIES).unwrap_or_default() {
            let Some(private) = entry.name.to_str() else { continue };
            found.extend(Self::take_up(&above, &shelf, private));
            if private.starts_with(UNLINKED) {
                let is_held = |copy: &Folder| copy.open_to_write(FOR).is_ok_and(|lock| lock.try_lock().is_err());
                sweep_private_folder(&shelf, private, is_held);
            }
        }
        found
    }

    /// Takes up a draft that a link of its name leads to, if its writer is gone.
    fn take_up(above: &Folder, shelf: &Folder, private: &str) -> Option<Self> {
        let folder = private.starts_with(LINKED).then(|| shelf.folder(private))?.ok().filter(is_private)?;
        let destination = PathBuf::from(String::from_utf8(folder.read_own(FOR, 1 << 16).ok()?).ok()?);
        let name = destination.file_name()?.to_str()?.to_owned();
        let leads_here = above.read_link(&name).is_ok_and(|to| to == Self::target(above, shelf, private, &name));
        // The link may be another user's, and the draft ours and for another folder.
        let lock = (leads_here && destination == above.path().join(&name)).then(|| folder.open_to_write(FOR))?.ok()?;
        lock.try_lock().ok()?;
        folder.open_file(&name).ok()?;
        let (above, shelf, private) = (above.try_clone().ok()?, shelf.try_clone().ok()?, private.to_owned());
        Some(DraftFile { above, name, shelf, private, folder, is_linked: true, is_done: false, _lock: lock })
    }

    fn target(above: &Folder, shelf: &Folder, private: &str, name: &str) -> PathBuf {
        let beside = Path::new(private).join(name);
        if above.path() == shelf.path() { beside } else { shelf.path().join(beside) }
    }

    /// True if a link leads into the folder of a draft.
    pub fn is_at(link: &Path) -> bool {
        link.read_link().is_ok_and(|target| Self::has(&target))
    }

    /// True if a path lies in the folder of a draft that a link leads to.
    pub fn has(path: &Path) -> bool {
        let private = path.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        private.is_some_and(|private| private.starts_with(LINKED))
    }

    /// The path by which it is written.
    pub fn path(&self) -> PathBuf {
        self.shelf.path().join(&self.private).join(&self.name)
    }

    /// Closes it to other users under every umask.
    ///
    /// # Errors
    /// When the file system refuses it.
    pub fn make_private(&self) -> io::Result<()> {
        Ok(fchmod(self.folder.open_file(&self.name)?, Mode::from_raw_mode(0o600))?)
    }

    /// Gives it its name: in place of the link, and of what else has the name only if it `replaces` that. On the disk when
    /// this returns.
    ///
    /// # Errors
    /// When something else has the name, or the disk fails; the draft stays then, and a link with it.
    pub fn finish(mut self, replaces: bool) -> io::Result<()> {
        self.folder.open_file(&self.name)?.sync_all()?;
        self.place(replaces)?;
        self.above.sync()?;
        self.is_done = true;
        let _gone = self.shelf.remove_tree(&self.private);
        Ok(())
    }

    /// Removes it, and the link to it.
    pub fn discard(mut self) {
        self.is_done = true;
        if self.leads_here() {
            let _gone = self.above.remove(&self.name);
        }
        let _gone = self.shelf.remove_tree(&self.private);
    }

    fn leads_here(&self) -> bool {
        let target = Self::target(&self.above, &self.shelf, &self.private, &self.name);
        self.above.read_link(&self.name).is_ok_and(|leads| leads == target)
    }

    fn place(&self, replaces: bool) -> io::Result<()> {
        let replaces = replaces || self.is_linked && self.leads_here();
        match self.folder.move_to(&self.name, &self.above, &self.name, replaces) {
            // Of root's shelf.
            Err(e) if e.kind() == ErrorKind::CrossesDevices => {}
            placed => return placed,
        }
        let mode = self.folder.stat(&self.name)?.st_mode & 0o777;
        self.above.write_fresh(&self.name, None, replaces, |to| {
            // vfat has one mode for all files.
            let _refused = fchmod(&*to, Mode::from_raw_mode(mode));
            io::copy(&mut self.folder.open_file(&self.name)?, to).map(drop)
        })
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let is_alone = self.folder.list(MOST_ENTRIES).is_ok_and(|there| there.len() == 2);
        if !self.is_linked || is_alone && self.place(false).is_ok() {
            let _gone = self.shelf.remove_tree(&self.private);
        }
    }
}

/// The folder of a path, without a link in its own path, and the name in it.
fn split(path: &Path) -> io::Result<(Folder, String)> {
    let name = path.file_name().ok_or_else(|| refused("it is no name of a file"))?;
    let name = name.to_str().ok_or_else(|| refused("its name is not UTF-8"))?.to_owned();
    let above = path.parent().filter(|above| above.as_os_str() != OsStr::new("")).unwrap_or(Path::new("."));
    // The path without a link is for SQLite.
    Ok((Folder::open_to_fill(above)?.with_real_path()?, name))
}

/// The folder in which drafts for a folder lie.
fn shelf_of(above: &Folder) -> io::Result<Folder> {
    let Err(why) = check_ancestors(above.path()) else { return above.try_clone() };
    let shelf = Folder::open(Path::new(SHELF)).and_then(Folder::with_real_path);
    let shelf = shelf.and_then(|shelf| check_ancestors(shelf.path()).map(|()| shelf));
    shelf.map_err(|e| refused(format!("{why}; and not in {SHELF} ({e})")))
}

/// True if a file system refused an operation that it does not have.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read, read_dir, symlink_metadata, write};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_draft_is_read_through_its_link_and_then_takes_the_place_of_it() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a");
        let draft = DraftFile::create(&path, true).unwrap();
        write(draft.path(), "1").unwrap();
        assert_eq!(read(&path).unwrap(), b"1");
        assert_eq!(DraftFile::create(&path, true).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(DraftFile::abandoned(&path).is_none(), "it is being written");
        draft.finish(false).unwrap();
        assert!(symlink_metadata(&path).unwrap().is_file());
        assert_eq!((read(&path).unwrap(), names(top.path())), (b"1".to_vec(), vec!["a".to_owned()]));
    }

    #[test]
    fn a_draft_without_a_link_is_not_seen_and_replaces_nothing_by_itself() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a");
        let draft = || {
            let draft = DraftFile::create(&path, false).unwrap();
            write(draft.path(), "new").unwrap();
            draft
        };
        let (first, second, third) = (draft(), draft(), draft());
        assert!(!path.exists());
        drop(first);
        write(&path, "old").unwrap();
        assert_eq!(second.finish(false).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(read(&path).unwrap(), b"old");
        third.finish(true).unwrap();
        assert_eq!((read(&path).unwrap(), names(top.path())), (b"new".to_vec(), vec!["a".to_owned()]));
    }

    #[test]
    fn what_a_writer_leaves_is_taken_up() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a");
        let left = |beside: &str| {
            let draft = DraftFile::create(&path, true).unwrap();
            write(draft.path(), "1").unwrap();
            if !beside.is_empty() {
                write(draft.path().with_file_name(beside), "").unwrap();
            }
        };
        left("");
        assert_eq!(names(top.path()), ["a"], "it was whole");
        std::fs::remove_file(&path).unwrap();
        left("a-journal");
        assert!(symlink_metadata(&path).unwrap().is_symlink(), "it was not");
        let again = DraftFile::abandoned(&path).unwrap();
        assert!(DraftFile::all_abandoned(top.path()).is_empty(), "one takes it up");
        drop(again);
        let again = DraftFile::all_abandoned(top.path()).pop().unwrap();
        std::fs::remove_file(again.path().with_file_name("a-journal")).unwrap();
        again.finish(false).unwrap();
        assert_eq!((read(&path).unwrap(), names(top.path())), (b"1".to_vec(), vec!["a".to_owned()]));
    }

    #[test]
    fn a_link_of_another_name_takes_up_nothing() {
        let top = tempfile::tempdir().unwrap();
        let (path, other) = (top.path().join("a"), top.path().join("b"));
        let draft = DraftFile::create(&path, true).unwrap();
        write(draft.path().with_file_name("a-journal"), "").unwrap();
        let private = draft.path().parent().unwrap().to_owned();
        drop(draft);
        std::os::unix::fs::symlink(private.join("a"), &other).unwrap();
        assert!(DraftFile::abandoned(&other).is_none());
        assert!(DraftFile::abandoned(&path).is_some());
    }

    #[test]
    fn a_link_through_a_folder_that_may_be_changed_takes_up_nothing() {
        let top = tempfile::tempdir().unwrap();
        let (path, other) = (top.path().join("a"), top.path().join("other"));
        let draft = DraftFile::create(&path, true).unwrap();
        write(draft.path().with_file_name("a-journal"), "").unwrap();
        let target = path.read_link().unwrap();
        drop(draft);
        std::os::unix::fs::symlink(top.path(), &other).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(other.join(&target), &path).unwrap();
        assert!(DraftFile::abandoned(&path).is_none());
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(target, &path).unwrap();
        assert!(DraftFile::abandoned(&path).is_some());
    }

    /// Gives a folder a time of change long ago.
    fn age(folder: &Path) {
        File::open(folder).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }

    /// A killed writer leaves this of a draft without a link.
    fn killed_copy(shelf: &Path) -> PathBuf {
        let copy = shelf.join(format!("{UNLINKED}{}", random_name().unwrap()));
        Folder::open(shelf).unwrap().create_folder(copy.file_name().unwrap().to_str().unwrap(), 0o700).unwrap();
        write(copy.join(FOR), "").unwrap();
        age(&copy);
        copy
    }

    #[test]
    fn a_draft_whose_link_was_renamed_stays_and_a_killed_copy_does_not() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a");
        let draft = DraftFile::create(&path, true).unwrap();
        write(draft.path(), "1").unwrap();
        write(draft.path().with_file_name("a-journal"), "").unwrap();
        let private = draft.path().parent().unwrap().to_owned();
        drop(draft);
        std::fs::rename(&path, top.path().join("kept")).unwrap();
        age(&private);
        let copy = killed_copy(top.path());
        assert!(DraftFile::all_abandoned(top.path()).is_empty());
        assert_eq!(read(top.path().join("kept")).unwrap(), b"1");
        assert!(!copy.exists());
        assert!(DraftFile::is_at(&top.path().join("kept")) && !DraftFile::is_at(&private));
    }

    #[test]
    #[ignore = "takes root, which alone can give a folder away"]
    fn what_root_leaves_elsewhere_is_taken_up_by_the_folder_that_it_is_for() {
        let top = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(top.path(), Some(54_321), None).unwrap();
        let path = top.path().join("a");
        let draft = DraftFile::create(&path, true).unwrap();
        write(draft.path().with_file_name("a-journal"), "").unwrap();
        drop(draft);
        let copy = killed_copy(Path::new(SHELF));
        assert!(DraftFile::all_abandoned(&std::env::temp_dir()).is_empty());
        let draft = DraftFile::all_abandoned(top.path()).pop().unwrap();
        assert!(draft.path().starts_with(SHELF) && !copy.exists());
        draft.discard();
        assert!(names(top.path()).is_empty());
    }

    #[test]
    #[ignore = "takes root, which alone can give a folder away"]
    fn root_writes_elsewhere_what_is_for_a_folder_of_another_user() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let top = tempfile::tempdir().unwrap();
        chown(top.path(), Some(54_321), None).unwrap();
        let path = top.path().join("a");
        let draft = DraftFile::create(&path, true).unwrap();
        write(draft.path(), "1").unwrap();
        draft.make_private().unwrap();
        assert!(draft.path().starts_with(SHELF) && read(&path).unwrap() == b"1");
        draft.finish(false).unwrap();
        assert_eq!((read(&path).unwrap(), names(top.path())), (b"1".to_vec(), vec!["a".to_owned()]));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
