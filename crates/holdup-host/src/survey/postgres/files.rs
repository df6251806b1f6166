//! The files of a server, read and parsed as the user that they belong to.

use super::conf::{self, Configuration, Unread, absolute};
use super::find::Place;
use crate::confined::{User, as_user};
use crate::{Host, HostError};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io;

/// The largest file of settings that is read, bytes; initdb makes one of 30 kB.
const MOST_BYTES_OF_FILE: u64 = 1 << 20;
/// And of all files of a server together.
const MOST_BYTES: u64 = 4 << 20;
/// The most names in a folder that is included.
const MOST_NAMES: usize = 10_000;

/// The files of a host, with what the server's paths begin with here.
struct HostFiles<'a> {
    host: &'a Host,
    prefix: &'a str,
    /// Bytes that may still be read.
    left: Cell<u64>,
    /// What was read, for a capture.
    read: RefCell<Vec<Read>>,
}

impl<'a> HostFiles<'a> {
    fn new(host: &'a Host, prefix: &'a str) -> Self {
        HostFiles { host, prefix, left: Cell::new(MOST_BYTES), read: RefCell::new(Vec::new()) }
    }
}

impl conf::Files for HostFiles<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        let path = format!("{}{path}", self.prefix);
        let found = self.host.read_regular(&path, MOST_BYTES_OF_FILE.min(self.left.get()));
        if let Ok(bytes) = &found {
            self.left.set(self.left.get().saturating_sub(bytes.len() as u64));
        }
        self.read.borrow_mut().push(Read::of(&path, &found));
        found.map_err(|e| Unread { is_gone: e.is_gone(), why: e.to_string() })
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        let path = format!("{}{path}", self.prefix);
        let unread = |e: HostError| Unread { is_gone: e.is_gone(), why: e.to_string() };
        let names = self.host.list(&path).map_err(unread)?;
        if names.len() > MOST_NAMES {
            return Err(Unread { is_gone: false, why: format!("{path} has more than {MOST_NAMES} names") });
        }
        Ok(names)
    }
}

/// What the files of a server say.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Files {
    pub(super) configuration: Configuration,
    /// What is in PG_VERSION, or why it is not known; `None` where the data directory is not known.
    pub(super) version: Option<Result<String, String>>,
    read: Vec<Read>,
}

impl Files {
    /// Reads the configuration of a server with all that it includes, and its version.
    pub(super) fn read(host: &Host, place: &Place) -> Self {
        let user = match (place.pid.get(), place.data_directory.get()) {
            (Some(pid), _) => User::of_process(host, *pid),
            (None, Some(folder)) => User::of_folder(folder),
            (None, None) => None,
        };
        let found = as_user_of(host, user.as_ref(), |host| {
            let files = HostFiles::new(host, &place.prefix);
            let (configuration, version) = Files::of(&files, place);
            Files { configuration, version, read: files.read.into_inner() }
        });
        match found {
            Ok(files) => files.kept(host),
            Err(e) => {
                let why = format!("the server's files were not read: {e}");
                let entries = vec![conf::Entry::Gap(why.clone())];
                let configuration = Configuration { entries, ..Configuration::default() };
                Files { configuration, version: Some(Err(why)), read: Vec::new() }
            }
        }
    }

    fn of(files: &HostFiles<'_>, place: &Place) -> (Configuration, Option<Result<String, String>>) {
        let mut found = Configuration::default();
        match main_file(place) {
            Ok(path) => found.extend(Configuration::read(files, &path)),
            Err(why) => found.entries.push(conf::Entry::Gap(why)),
        }
        match place.data_directory.get() {
            // A file that ALTER SYSTEM has never made is no gap; a folder that may not be entered is one.
            Some(folder) => {
                let path = format!("{folder}/postgresql.auto.conf");
                match conf::Files::read(files, &path) {
                    Err(unread) if unread.is_gone => {}
                    _ => found.extend(Configuration::read(files, &path)),
                }
            }
            None => {
                let why = place.data_directory.why_unknown.clone().unwrap_or_default();
                found.entries.push(conf::Entry::Gap(format!("where postgresql.auto.conf is, is not known: {why}")));
            }
        }
        let version = place.data_directory.get().map(|folder| {
            let bytes = conf::Files::read(files, &format!("{folder}/PG_VERSION")).map_err(|unread| unread.why)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        });
        (found, version)
    }

    fn kept(self, host: &Host) -> Self {
        self.read.iter().for_each(|read| read.keep(host));
        self
    }
}

/// Reads files of a data folder, which need not be that of a running server, as the user that the folder belongs to.
pub(super) fn of_folder<const N: usize>(host: &Host, folder: &str, names: [&str; N]) -> [Result<String, Unread>; N] {
    let user = User::of_folder(folder);
    let found = as_user_of(host, user.as_ref(), |host| {
        let files = HostFiles::new(host, "");
        let texts = names.map(|name| {
            let bytes = conf::Files::read(&files, &format!("{folder}/{name}"))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        });
        (Vec::from(texts), files.read.into_inner())
    });
    let unread = |why: String| Unread { is_gone: false, why };
    match found {
        Ok((texts, read)) => {
            read.iter().for_each(|read: &Read| read.keep(host));
            let texts: Result<[Result<String, Unread>; N], _> = texts.try_into();
            texts.unwrap_or_else(|_| names.map(|_| Err(unread("the child gave another number of files".to_owned()))))
        }
        Err(e) => names.map(|name| Err(unread(format!("{folder}/{name} was not read: {e}")))),
    }
}

/// In a child, where there is one, a capture would be written by another user: `work` has a host that keeps nothing.
fn as_user_of<T: Serialize + serde::de::DeserializeOwned>(
    host: &Host,
    user: Option<&User>,
    work: impl FnOnce(&Host) -> T,
) -> io::Result<T> {
    let reading = host.without_capture();
    as_user(host, user, || work(&reading))
}

/// A file that was read, for a capture.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Read {
    path: String,
    bytes: Option<Vec<u8>>,
    /// The reason where there are no bytes, and whether that is that there is no file.
    why: String,
    is_gone: bool,
}

impl Read {
    fn of(path: &str, found: &Result<Vec<u8>, HostError>) -> Self {
        let path = path.to_owned();
        match found {
            Ok(bytes) => Read { path, bytes: Some(bytes.clone()), why: String::new(), is_gone: false },
            Err(e) => Read { path, bytes: None, why: e.message.clone(), is_gone: e.is_gone() },
        }
    }

    fn keep(&self, host: &Host) {
        host.captured(
            &self.path,
            match &self.bytes {
                Some(bytes) => Ok(bytes.clone()),
                None if self.is_gone => Err(io::ErrorKind::NotFound.into()),
                None => Err(io::Error::other(self.why.clone())),
            },
        );
    }
}

/// The path of postgresql.conf: `config_file`, or in the folder that -D names, or in the data directory.
fn main_file(place: &Place) -> Result<String, String> {
    let line = place.command_line.get();
    let folder = line.and_then(|line| line.data_directory.as_deref());
    match line.and_then(|line| line.last("config_file")) {
        Some(path) if path.starts_with('/') => return Ok(absolute(path, "/")),
        Some(path) => {
            return Err(format!("config_file = `{path}` begins where the server was started, which is not known"));
        }
        None => {}
    }
    let data_directory = place.data_directory.get().map(String::as_str);
    match folder.filter(|folder| folder.starts_with('/')).or(data_directory) {
        Some(folder) => Ok(absolute("postgresql.conf", &format!("{}/-", folder.trim_end_matches('/')))),
        None => Err(format!(
            "the data directory is not known: {}",
            place.data_directory.why_unknown.as_deref().unwrap_or_default()
        )),
    }
}
