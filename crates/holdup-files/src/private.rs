//! Folders that only their owner can change, and names that cannot be guessed.

use crate::{Folder, refused};
use rustix::fs::{FlockOperation, Mode, Stat, fchmod, flock};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Letters of random names, and how many each has.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const LENGTH: usize = 16;

/// A folder without a lock that is younger may be one that is being made.
const YOUNG: Duration = Duration::from_secs(60);

/// The most entries of a folder among which what killed processes left is looked for.
pub(crate) const MOST_ENTRIES: usize = 20_000;

/// The owner of a file or folder, and its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user id.
    pub uid: u32,
    /// Type and permission bits (inode(7)).
    pub mode: u32,
}

impl Owner {
    /// As stat(2) gives it.
    pub fn of(stat: &Stat) -> Self {
        Owner { uid: stat.st_uid, mode: stat.st_mode }
    }

    /// True if others than the owner may write it.
    pub fn others_may_write(&self) -> bool {
        self.mode & 0o022 != 0
    }

    /// That it belongs to the user of this process, and no other user may write it.
    pub fn must_be_ours(&self) -> io::Result<()> {
        let us = rustix::process::geteuid().as_raw();
        if self.uid != us {
            return Err(refused(format!("it belongs to the user with id {}, not to {us}", self.uid)));
        }
        if self.others_may_write() {
            return Err(refused(format!("other users may write it (mode {:04o})", self.mode & 0o7777)));
        }
        Ok(())
    }
}

/// 16 random letters and digits, from getrandom(2).
///
/// # Errors
/// When the kernel has no random numbers yet.
pub fn random_name() -> io::Result<String> {
    let mut bytes = [0_u8; LENGTH];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

/// True if [`random_name`] may have made it.
pub(crate) fn is_random(name: &str) -> bool {
    name.len() == LENGTH && name.bytes().all(|byte| LETTERS.contains(&byte))
}

/// Opens a folder that is to belong to this user alone, mode 0700; makes it and what is missing above it.
///
/// # Errors
/// When it belongs to another user, is a link, or, for root, another user's link is on the way or someone else could put another one in its
/// place ([`check_ancestors`]).
pub fn private_folder(path: &Path) -> io::Result<Folder> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("the path has no folder above it"));
    };
    let parent = Folder::make_to_fill(above)?.with_real_path()?;
    check_ancestors(parent.path())?;
    let name = name.to_str().ok_or_else(|| refused("its name is not UTF-8"))?;
    let folder = match parent.create_folder(name, 0o700) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => parent.folder(name)?,
        made => made?,
    };
    let owner = folder.owner()?;
    Owner { mode: 0, ..owner }.must_be_ours()?;
    if owner.mode & 0o077 != 0 {
        fchmod(folder.fd(), Mode::from_raw_mode(0o700))?;
    }
    Ok(folder)
}

/// True if a folder belongs to this user alone, as [`private_folder`] leaves it.
pub fn is_private(folder: &Folder) -> bool {
    folder.owner().is_ok_and(|owner| owner.must_be_ours().is_ok() && owner.mode & 0o077 == 0)
}

/// True if a folder changed a moment ago.
fn is_young(folder: &Folder) -> bool {
    let changed = std::fs::metadata(folder.path()).and_then(|found| found.modified());
    changed.is_ok_and(|then| then.elapsed().is_ok_and(|age| age < YOUNG))
}

/// Removes the private folders in `parent` whose names begin so, of this user's processes that were killed: those that live hold
/// theirs locked (flock(2)).
pub fn sweep_private_folders(parent: &Path, prefix: &str) {
    let Ok(parent) = Folder::open(parent) else { return };
    for entry in parent.list(MOST_ENTRIES).unwrap_or_default() {
        let Some(name) = entry.name.to_str().filter(|name| name.starts_with(prefix)) else { continue };
        sweep_private_folder(&parent, name, |folder| {
            flock(folder.fd(), FlockOperation::NonBlockingLockExclusive).is_err()
        });
    }
}

/// Removes a private folder of a process of this user that was killed, if it `is_held` by none that lives.
pub(crate) fn sweep_private_folder(parent: &Folder, name: &str, is_held: impl Fn(&Folder) -> bool) {
    if parent.folder(name).is_ok_and(|folder| is_private(&folder) && !is_young(&folder) && !is_held(&folder)) {
        let _stays = parent.remove_tree(name);
    }
}

/// That no other user can rename or replace what is in this folder: it and all folders above belong to root or this
/// user, and where others may write, the sticky bit is set (as in /tmp). Asked of root only, because an ordinary
/// user's folders may belong to a group of that user.
///
/// # Errors
/// The folder that another user can change.
pub fn check_ancestors(folder: &Path) -> io::Result<()> {
    let us = rustix::process::geteuid().as_raw();
    if us != 0 {
        return Ok(());
    }
    for place in folder.ancestors() {
        let found = std::fs::symlink_metadata(place)?;
        let why = if found.uid() != us {
            format!("{} belongs to the user with id {}", place.display(), found.uid())
        } else if found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 {
            format!("every user may replace what is in {} (mode {:04o})", place.display(), found.mode() & 0o7777)
        } else {
            continue;
        };
        return Err(refused(format!("{why}, and root does not work in a place that another user can change")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_private_folder_is_made_or_taken_if_it_is_ours() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("a/b/state");
        assert!(is_private(&private_folder(&place).unwrap()));
        set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
        assert!(is_private(&private_folder(&place).unwrap()), "the mode is put right");
        let link = top.path().join("link");
        symlink(&place, &link).unwrap();
        private_folder(&link).unwrap_err();
        if holdup_testkit::is_root() {
            let theirs = top.path().join("theirs");
            create_dir(&theirs).unwrap();
            std::os::unix::fs::chown(&theirs, Some(54_321), None).unwrap();
            let refused = private_folder(&theirs).unwrap_err().to_string();
            assert!(refused.contains("54321"), "{refused}");
            let refused = private_folder(&theirs.join("x/y")).unwrap_err().to_string();
            assert!(refused.contains("theirs belongs to the user with id 54321"), "{refused}");
            std::os::unix::fs::lchown(&link, Some(54_321), None).unwrap();
            let refused = private_folder(&link.join("x/y")).unwrap_err().to_string();
            assert!(refused.contains("link is a link of the user with id 54321"), "{refused}");
            assert!(!place.join("x").exists());
        }
    }

    #[test]
    fn places_that_others_can_change_are_refused_for_root() {
        let top = tempfile::tempdir().unwrap();
        let open = top.path().join("open");
        create_dir(&open).unwrap();
        check_ancestors(&open).unwrap();
        set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(check_ancestors(&open).is_err(), rustix::process::geteuid().is_root());
        set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        check_ancestors(&open).unwrap();
    }

    #[test]
    fn what_killed_processes_left_is_swept_and_nothing_else() {
        let top = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = top.path().join(name);
            create_dir(&path).unwrap();
            std::fs::write(path.join("bundle"), "1").unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let [left, young, held] = ["p-left", "p-young", "p-held"].map(|name| make(name, 0o700));
        let others = [make("p-open", 0o755), make("q-left", 0o700)];
        for old in [&left, &held].into_iter().chain(&others) {
            std::fs::File::open(old).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let lock = Folder::open(&held).unwrap();
        flock(lock.fd(), FlockOperation::NonBlockingLockExclusive).unwrap();
        sweep_private_folders(top.path(), "p-");
        assert!(!left.exists() && young.exists() && held.exists() && others.iter().all(|other| other.exists()));
    }

    #[test]
    fn names_differ() {
        let names: std::collections::BTreeSet<String> = (0..1000).map(|_| random_name().unwrap()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| is_random(name)) && !is_random("abcdefghabcdefg1"));
    }
}
