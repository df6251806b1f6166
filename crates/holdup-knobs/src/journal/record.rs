//! The journal as it stands on disk.

use crate::connection::without_password;
use crate::{KnobContext, Past};
use holdup_host::{Host, HostError, OUT_OF_FILES, process};
use holdup_model::{Problem, ProblemKind, Profile, Value};
use serde::{Deserialize, Serialize};

/// The form of the file; a file of another form is not touched.
const SCHEMA: &str = "holdup.journal/1";

/// A process that keeps a journal. The start time guards against a pid that is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    pub(super) pid: u32,
    pub(super) start_time: Option<u64>,
}

impl Owner {
    pub(super) fn this_process(host: &Host) -> Self {
        let pid = std::process::id();
        Owner { pid, start_time: process::start_time(host, pid).ok() }
    }

    /// True if it still runs. Where the start time is not known any process of this pid will do, because
    /// taking a running holdup's knobs away is worse than leaving them for a while.
    pub(super) fn runs(&self, host: &Host) -> bool {
        match self.start_time {
            Some(start_time) => process::alive(host, self.pid, start_time),
            None => process::stat(host, self.pid).is_ok(),
        }
    }
}

/// A server whose setting was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Server {
    /// How to reach it, without a password.
    pub(super) connection: String,
    /// Its data directory, which distinguishes it from another server under the same address.
    pub(super) data_directory: Option<String>,
    /// True if holdup made it and takes it away as a whole.
    pub(super) is_temporary: bool,
}

impl Server {
    /// The server of a context; `asked` also asks it for its data directory.
    pub(super) fn of(context: &KnobContext<'_>, asked: bool) -> Option<Server> {
        let server = context.postgres?;
        let data_directory = if asked { data_directory(server) } else { None };
        let connection = without_password(&server.connection_string());
        Some(Server { connection, data_directory, is_temporary: server.is_temporary() })
    }
}

/// The data directory of a server, if it may be asked.
pub(super) fn data_directory(server: &dyn holdup_host::postgres::PostgresControl) -> Option<String> {
    server.query("SHOW data_directory").ok()?.into_iter().next()?.into_iter().next()?
}

/// One change that is to be undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    /// The boot in which it was made.
    pub(super) boot_id: Option<String>,
    /// When the journal was opened, ns since 1970.
    pub(super) opened_unix_ns: i64,
    pub(super) factor: String,
    pub(super) knob: String,
    pub(super) instance: String,
    /// The server, for a setting of one.
    pub(super) server: Option<Server>,
    /// The value that was in force, for people.
    pub(super) old: Value,
    /// What the knob needs to put it back.
    pub(super) saved: Value,
    /// What was written last, before it the value that stood until then.
    pub(super) written: Vec<Value>,
    /// Every value that was written, each once.
    pub(super) ever: Vec<Value>,
}

impl Entry {
    pub(super) fn past(&self) -> Past<'_> {
        Past { saved: &self.saved, written: &self.written, ever: &self.ever }
    }

    /// True if the boot since has put it back. Where a boot id is not known the boot counts as the same: looking at
    /// what is in force then decides.
    pub(super) fn went_with_boot(&self, boot_id: Option<&str>) -> bool {
        !self.is_of_boot(boot_id) && crate::find(&self.factor).is_some_and(|(knob, _)| !knob.outlives_boot())
    }

    pub(super) fn is_of_boot(&self, boot_id: Option<&str>) -> bool {
        match (self.boot_id.as_deref(), boot_id) {
            (Some(then), Some(now)) => then == now,
            _ => true,
        }
    }

    /// True if it is about the same factor of the same server.
    pub(super) fn is_about(&self, factor: &str, server: Option<&Server>) -> bool {
        self.factor == factor
            && self.server.as_ref().map(|s| s.connection.as_str()) == server.map(|s| s.connection.as_str())
    }
}

/// A profile that was put in force on purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliedProfile {
    pub profile: Profile,
    /// When it was applied, ns since 1970.
    pub applied_unix_ns: i64,
    /// The boot in which it was applied, where the host has an id for it.
    pub boot_id: Option<String>,
}

/// What a journal holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Book {
    /// Changes, oldest first.
    pub(super) entries: Vec<Entry>,
    /// The profiles that these come from, oldest first; none in the journal of runs.
    pub(super) applied: Vec<AppliedProfile>,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    applied: Vec<AppliedProfile>,
    entries: Vec<Entry>,
}

pub(super) fn boot_id(host: &Host) -> Option<String> {
    host.read_value("/proc/sys/kernel/random/boot_id").ok().filter(|id| !id.is_empty())
}

/// What is on disk; nothing when there is no file.
pub(super) fn load(host: &Host, path: &str) -> Result<Book, Problem> {
    let bytes = match host.read_own(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind == std::io::ErrorKind::NotFound => return Ok(Book::default()),
        Err(e) if e.hint == Some(OUT_OF_FILES) => return Err(e.into()),
        Err(e) => return Err(Problem::from(e).of_kind(ProblemKind::NotRestored)),
    };
    let broken = |why: String| {
        Problem::new(ProblemKind::NotRestored, format!("undo journal {path}"), why)
            .hint("see in it what holdup changed and put that back by hand, then run `holdup restore --forget`")
    };
    let file: File = serde_json::from_slice(&bytes).map_err(|e| broken(format!("it cannot be understood: {e}")))?;
    if file.schema == SCHEMA {
        Ok(Book { entries: file.entries, applied: file.applied })
    } else {
        Err(broken(format!("its form is `{}`, this holdup knows `{SCHEMA}`", file.schema)))
    }
}

/// Replaces the file on disk; no entries make no file.
pub(super) fn store(host: &Host, path: &str, book: Book) -> Result<(), Problem> {
    if book == Book::default() {
        return host.remove_synced(path).map_err(unwritable);
    }
    replace(host, path, book)
}

/// As [`store`], but no entries make a file too.
pub(super) fn replace(host: &Host, path: &str, book: Book) -> Result<(), Problem> {
    let file = File { schema: SCHEMA.to_owned(), applied: book.applied, entries: book.entries };
    let bytes = serde_json::to_vec_pretty(&file)
        .map_err(|e| Problem::internal(format!("undo journal {path}"), e.to_string()))?;
    host.replace_synced(path, &bytes).map_err(unwritable)
}

fn unwritable(e: HostError) -> Problem {
    match e.hint {
        Some(_) => Problem::from(e),
        None => Problem::from(e).hint("free space on its disk, or make its folder writable"),
    }
}
