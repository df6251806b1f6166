//! Files of holdup's own, such as the undo journal: what they say is done as the user of this process, so no other user may
//! have written them.

use crate::HostError;
use holdup_files::{Folder, Owner, private_folder};
use rustix::fs::fstat;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of one: a journal of thousands of changes has some hundred thousand.
const MOST_BYTES: u64 = 16 << 20;

/// What is said where one cannot be trusted.
pub(crate) const HINT: &str = "see who made it and remove it, or name another folder in HOLDUP_STATE_DIR";

/// Something that another user has made or may change. It is not read.
#[derive(Debug)]
struct Distrusted(String);

impl std::fmt::Display for Distrusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Distrusted {}

fn distrusted(what: &str, why: &io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, Distrusted(format!("{what} cannot be trusted: {why}")))
}

/// Hint for EMFILE and ENFILE, which are no trouble of the file.
pub const OUT_OF_FILES: &str = "allow more open files: ulimit -n";

/// What can be done about an error of the functions of this module.
pub(crate) fn hinted(error: &io::Error, plain: HostError) -> HostError {
    let is_distrusted = error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Distrusted>);
    let is_out_of_files = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    let hint = is_distrusted.then_some(HINT).or(is_out_of_files.then_some(OUT_OF_FILES));
    HostError { hint, ..plain }
}

/// Reads one. What a process left beside it that was killed while it replaced it is removed.
///
/// # Errors
/// When it is not there, it or its folder belongs to another user or may be written by others, or it is no regular file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (folder, name) = existing(path)?;
    folder.sweep(|left| left == name);
    let file = folder.open_file(name).map_err(|e| match e.raw_os_error() {
        // They say nothing of who made it.
        Some(libc::ENOENT | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EIO) => e,
        _ => distrusted("it", &e),
    })?;
    Owner::of(&fstat(&file)?).must_be_ours().map_err(|e| distrusted("it", &e))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!("it has more than {MOST_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Makes or replaces one, mode 0600, in a folder that is made with mode 0700 or becomes so.
///
/// # Errors
/// When the folder belongs to another user or others could put another one in its place, or the disk fails.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (above, name) = split(path)?;
    let folder = private_folder(above).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput if e.raw_os_error().is_none() => distrusted("its folder", &e),
        _ => e,
    })?;
    folder.replace_synced(name, bytes, 0o600)
}

/// Removes one; a missing one is no error.
///
/// # Errors
/// When its folder is not this user's own, or the disk fails.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (folder, name) = match existing(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if folder.stat(name).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    folder.remove(name)?;
    folder.sync()
}

/// The folder of a file, which is there and is this user's own.
fn existing(path: &Path) -> io::Result<(Folder, &str)> {
    let (above, name) = split(path)?;
    match Folder::open_own(above) {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput && e.raw_os_error().is_none() => {
            Err(distrusted("its folder", &e))
        }
        opened => Ok((opened?, name)),
    }
}

fn split(path: &Path) -> io::Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let above = path.parent().filter(|above| *above != Path::new(""));
    above.zip(name).ok_or_else(|| io::Error::other("the path names no file in a folder"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use holdup_model::Problem;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
    }

    #[test]
    fn journals_have_modes_of_their_own_and_follow_no_links() {
        let top = tempfile::tempdir().expect("a folder");
        let (state, secret) = (top.path().join("state"), top.path().join("secret"));
        let journal = state.join("journal.json");
        fs::write(&secret, "secret").expect("writable");
        fs::create_dir(&state).expect("writable");
        fs::set_permissions(&state, Permissions::from_mode(0o777)).expect("ours");
        // What a hostile user puts where a file of a name that can be guessed is made first.
        symlink(&secret, state.join("journal.json.new")).expect("writable");
        symlink(&secret, &journal).expect("writable");
        let host = Host::real();
        let name = journal.to_str().expect("UTF-8");
        host.replace_synced(name, b"1").expect("it is replaced");
        assert_eq!((mode(&state), mode(&journal)), (0o700, 0o600));
        assert_eq!(fs::read_to_string(&secret).expect("readable"), "secret");
        fs::write(state.join(".journal.json.abcdefghabcdefgh"), "left").expect("ours");
        assert_eq!(host.read_own(name).expect("ours"), b"1");
        assert!(!state.join(".journal.json.abcdefghabcdefgh").exists(), "no process writes it");
        host.remove_synced(name).expect("ours");
        host.remove_synced(name).expect("a missing one is no error");
        assert_eq!(host.read_own(name).expect_err("it is gone").kind, io::ErrorKind::NotFound);
        symlink(&secret, &journal).expect("writable");
        assert!(host.read_own(name).is_err(), "a link is not followed");
    }

    #[test]
    fn what_others_made_or_may_write_is_refused_and_not_read() {
        let top = tempfile::tempdir().expect("a folder");
        let state = top.path().join("state");
        let journal = state.join("journal.json");
        let host = Host::real();
        let name = journal.to_str().expect("UTF-8").to_owned();
        host.replace_synced(&name, b"1").expect("writable");
        let refused = |expect: &str| {
            let problem = Problem::from(host.read_own(&name).expect_err(expect));
            assert!(problem.to_string().contains(expect), "{problem}");
            assert!(problem.to_string().contains("hint: see who made it"), "{problem}");
        };
        fs::set_permissions(&journal, Permissions::from_mode(0o622)).expect("ours");
        refused("it cannot be trusted: other users may write it");
        fs::set_permissions(&journal, Permissions::from_mode(0o600)).expect("ours");
        fs::set_permissions(&state, Permissions::from_mode(0o777)).expect("ours");
        refused("its folder cannot be trusted: other users may write it");
        fs::set_permissions(&state, Permissions::from_mode(0o700)).expect("ours");
        fs::remove_file(&journal).expect("ours");
        rustix::fs::mknodat(rustix::fs::CWD, &journal, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("ours");
        refused("it is a FIFO");
    }

    #[test]
    #[ignore = "takes root, which alone can give files away"]
    fn what_belongs_to_another_user_is_neither_read_nor_written() {
        let top = tempfile::tempdir().expect("a folder");
        let state = top.path().join("state");
        let journal = state.join("journal.json");
        let host = Host::real();
        let name = journal.to_str().expect("UTF-8").to_owned();
        let refused = |expect: &str| {
            let problem = Problem::from(host.read_own(&name).expect_err(expect));
            assert!(problem.to_string().contains(expect), "{problem}");
        };
        host.replace_synced(&name, b"1").expect("writable");
        chown(&journal, Some(54_321), None).expect("root");
        refused("it cannot be trusted: it belongs to the user with id 54321");
        chown(&state, Some(54_321), None).expect("root");
        refused("its folder cannot be trusted: it belongs to the user with id 54321");
        let written = host.replace_synced(&name, b"2").expect_err("their folder").to_string();
        assert!(written.contains("54321"), "{written}");
        host.remove_synced(&name).expect_err("their folder");
        assert_eq!(fs::read(&journal).expect("root"), b"1");
    }
}
