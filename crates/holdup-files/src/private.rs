//! Folders that only their owner can change, and names that cannot be guessed.

use crate::{Folder, refused};
use rustix::fs::{Mode, Stat, fchmod};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

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
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0_u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

/// Opens a folder that is to belong to this user alone, mode 0700; makes it and what is missing above it.
///
/// # Errors
/// When it belongs to another user, is a link, or, for root, someone else could put another one in its place
/// ([`check_ancestors`]).
pub fn private_folder(path: &Path) -> io::Result<Folder> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("the path has no folder above it"));
    };
    DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    let above = above.canonicalize()?;
    check_ancestors(&above)?;
    let parent = Folder::open(&above)?;
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
    fn names_differ() {
        let names: std::collections::BTreeSet<String> = (0..1000).map(|_| random_name().unwrap()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 16 && name.bytes().all(|b| b.is_ascii_alphanumeric())));
    }
}
