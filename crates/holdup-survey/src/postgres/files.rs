//! Files of servers, which are read as the user that they belong to.
//!
//! A server's configuration says which other files are read, and any user may start a program that looks like a server.
//! So root reads and understands none of it: a child that is that user does ([`confined`]).

use super::conf::{self, Configuration, Unread};
use holdup_files::check_ancestors;
use holdup_host::confined::{self, User};
use holdup_host::{Host, HostError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The most bytes of one file.
const LONGEST_FILE: usize = 1 << 20;
/// And of all files of a server.
const MOST_BYTES: usize = 8 << 20;
/// The most entries of a folder.
const MOST_ENTRIES: usize = 4096;

/// Reads files of one server, within bounds.
pub(super) struct Reader<'a> {
    host: &'a Host,
    left: Cell<usize>,
    /// What was read, where it is to be kept.
    read: Option<RefCell<Vec<Read>>>,
}

/// A file as it was read, or why it was not.
#[derive(Serialize, Deserialize)]
struct Read {
    path: String,
    found: Result<ByteBuf, (Option<i32>, String)>,
}

impl<'a> Reader<'a> {
    fn new(host: &'a Host, is_kept: bool) -> Self {
        Reader { host, left: Cell::new(MOST_BYTES), read: is_kept.then(RefCell::default) }
    }

    /// The whole of a file.
    ///
    /// # Errors
    /// When it cannot be read, is no regular file, or is longer than is read of a server.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let most = LONGEST_FILE.min(self.left.get());
        let found = self.host.read_bounded_io(path, most);
        if let Some(read) = &self.read {
            let found = found.as_ref().map(|bytes| ByteBuf::from(bytes.as_slice()));
            let found = found.map_err(|e| (e.raw_os_error(), e.to_string()));
            read.borrow_mut().push(Read { path: path.to_owned(), found });
        }
        let bytes = found.map_err(|e| HostError::new("read", path, &e))?;
        self.left.set(self.left.get() - bytes.len());
        Ok(bytes)
    }

    /// The same as text; bytes that are not UTF-8 are replaced.
    pub(super) fn text(&self, path: &str) -> Result<String, HostError> {
        self.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The files of a server, with what its paths begin with on this host.
pub(super) struct Prefixed<'a> {
    pub(super) reader: &'a Reader<'a>,
    pub(super) prefix: &'a str,
}

fn unread(e: &HostError) -> Unread {
    Unread { is_gone: e.is_gone(), why: e.to_string() }
}

impl conf::Files for Prefixed<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        self.reader.read(&format!("{}{path}", self.prefix)).map_err(|e| unread(&e))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        let path = format!("{}{path}", self.prefix);
        self.reader.host.list_bounded(&path, MOST_ENTRIES).map_err(|e| unread(&e))
    }
}

/// What the files of a server say.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Contents {
    /// postgresql.conf and all that it includes, then postgresql.auto.conf.
    pub(super) settings: Configuration,
    /// PG_VERSION, or why it cannot be read; `None` where the data directory is not known.
    pub(super) version: Option<Result<String, String>>,
}

impl Contents {
    /// Nothing, for this reason.
    pub(super) fn unread(why: &str, has_folder: bool) -> Self {
        let settings = Configuration { entries: vec![conf::Entry::Gap(why.to_owned())], errors: Vec::new() };
        Contents { settings, version: has_folder.then(|| Err(why.to_owned())) }
    }
}

/// Users whose files took too long: no others of theirs are read, so that one user does not hold up the survey of all.
pub(super) type Late = RefCell<BTreeSet<u32>>;

/// Reads files as the user of a process.
pub(super) fn as_user_of<T: Serialize + DeserializeOwned>(
    host: &Host,
    late: &Late,
    pid: u32,
    work: impl FnOnce(&Reader<'_>) -> T,
) -> Result<T, String> {
    if !is_needed(host) {
        return Ok(work(&Reader::new(host, false)));
    }
    let user = User::of_process(host, pid).map_err(|e| e.to_string())?;
    if user.uid == 0 {
        // Another user may have begun it, under this name and with these arguments: sudo(8), which waits for a password.
        return Err("it runs as root, as which no PostgreSQL runs".to_owned());
    }
    as_user(host, late, &user, work)
}

/// Reads files as the owner of a folder that the user of holdup has named.
pub(super) fn as_owner_of<T: Serialize + DeserializeOwned>(
    host: &Host,
    late: &Late,
    folder: &str,
    work: impl FnOnce(&Reader<'_>) -> T,
) -> Result<T, String> {
    if !is_needed(host) {
        return Ok(work(&Reader::new(host, false)));
    }
    let look = || {
        let uid = std::fs::metadata(folder)?.uid();
        if uid == 0 {
            // Root's own, such as a copy that was restored, where no other user can put another one in its place.
            check_ancestors(&Path::new(folder).canonicalize()?)?;
        }
        Ok(uid)
    };
    let uid = look().map_err(|e| HostError::new("look at", folder, &e).to_string())?;
    if uid == 0 { Ok(work(&Reader::new(host, false))) } else { as_user(host, late, &User::alone(uid), work) }
}

/// An ordinary user reads as that user anyway, and a captured tree belongs to no one here.
fn is_needed(host: &Host) -> bool {
    host.is_live() && rustix::process::geteuid().is_root()
}

fn as_user<T: Serialize + DeserializeOwned>(
    host: &Host,
    late: &Late,
    user: &User,
    work: impl FnOnce(&Reader<'_>) -> T,
) -> Result<T, String> {
    if late.borrow().contains(&user.uid) {
        return Err(format!("other files of the user with id {} took too long to read", user.uid));
    }
    let is_capturing = host.is_capturing();
    let done = confined::run(user, || {
        let host = Host::real();
        let reader = Reader::new(&host, is_capturing);
        let done = work(&reader);
        (done, reader.read.map(RefCell::into_inner).unwrap_or_default())
    });
    let (done, read) = done.map_err(|why| {
        late.borrow_mut().insert(user.uid);
        format!("the files cannot be read as the user with id {}: {why}", user.uid)
    })?;
    for Read { path, found } in read {
        let found = found
            .map(ByteBuf::into_vec)
            .map_err(|(errno, words)| errno.map_or_else(|| io::Error::other(words), io::Error::from_raw_os_error));
        host.keep(&path, &found).map_err(|e| e.to_string())?;
    }
    Ok(done)
}
