//! Opening: for the writer, and for readers of files of which nothing is known.

use crate::{APPLICATION_ID, SCHEMA_VERSION, trouble};
use holdup_model::Problem;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one waits for another program that has the file open. A reader holds it for less than a second.
const BUSY: Duration = Duration::from_secs(30);

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A bundle opened for reading.
pub(crate) struct Opened {
    pub(crate) db: Connection,
    /// The version of its schema, one that is known here.
    pub(crate) version: u32,
    /// The private copy that a crashed bundle was recovered on, where its own folder could not be written.
    _copy: Option<tempfile::TempDir>,
}

/// Opens the (still empty) file of a new bundle.
pub(crate) fn to_write(path: &Path) -> rusqlite::Result<Connection> {
    let db = connect(path)?;
    // One file between two transactions, and a commit that survives a power cut: see the crate's documentation.
    db.pragma_update(None, "journal_mode", "DELETE")?;
    db.pragma_update(None, "synchronous", "EXTRA")?;
    db.pragma_update(None, "foreign_keys", true)?;
    // Temporary files would be one more thing that a crash leaves behind.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(db)
}

/// Opens a file and checks that it is a bundle whose tables this holdup knows.
///
/// With `tolerant`, a file that is shorter than it says is opened too.
pub(crate) fn to_read(path: &Path, tolerant: bool) -> Result<Opened, Problem> {
    look_at(path)?;
    let (db, copy) = match begin(path, tolerant) {
        Ok(db) => (db, None),
        Err(e) if is_unwritable(&e) => on_a_copy(path, tolerant)?,
        // What cannot be opened even so is lost; `holdup verify`, which opens so, must not send one to itself.
        Err(e) if tolerant && is_damage(&e) => return Err(trouble::lost(path, e)),
        Err(e) => return Err(trouble::reading(path, &e)),
    };
    let version = check(path, &db)?;
    Ok(Opened { db, version, _copy: copy })
}

/// The path of a file that SQLite keeps beside the bundle.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Absolute, because SQLite takes names such as `file:x` and `:memory:` for something else than a path.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(BUSY)?;
    // A trial is written and read by about twenty statements, more than are kept by default.
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// Opens the file, rolls back what a crash left half written, and begins to read: all queries see one state.
///
/// The file is opened for writing where that is allowed, because a hot journal must be rolled back and removed;
/// `query_only` sees to it that nothing else is written.
fn begin(path: &Path, tolerant: bool) -> rusqlite::Result<Connection> {
    let db = connect(path)?;
    // The schema of a file is foreign input like the rest of it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.pragma_update(None, "query_only", true)?;
    if tolerant {
        db.pragma_update(None, "writable_schema", true)?;
    }
    db.execute_batch("BEGIN")?;
    db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))?;
    Ok(db)
}

/// Whether the trouble may be that SQLite could not write beside the file.
fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(
        trouble::code(error),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure)
    )
}

fn is_damage(error: &rusqlite::Error) -> bool {
    trouble::code(error) == Some(ErrorCode::DatabaseCorrupt)
}

/// Recovers a crashed bundle on a private copy, journal and all.
fn on_a_copy(path: &Path, tolerant: bool) -> Result<(Connection, Option<tempfile::TempDir>), Problem> {
    let failed = |e: std::io::Error| {
        Problem::host(
            trouble::bundle(path),
            format!("must be recovered after a crash, and cannot be copied for it ({e})"),
        )
        .hint("copy the file and the one named -journal beside it to a folder that can be written, and read it there")
    };
    let folder = tempfile::Builder::new().prefix("holdup-recover-").tempdir().map_err(failed)?;
    let copy = folder.path().join("bundle.holdup");
    for suffix in ["", "-journal", "-wal"] {
        match File::open(beside(path, suffix)) {
            Ok(mut from) => {
                // A new file with its own permissions: those of a read-only original would be in the way.
                let mut to = File::create(beside(&copy, suffix)).map_err(failed)?;
                std::io::copy(&mut from, &mut to).map_err(failed)?;
            }
            Err(e) if e.kind() == ErrorKind::NotFound && !suffix.is_empty() => {}
            Err(e) => return Err(failed(e)),
        }
    }
    let db = begin(&copy, tolerant).map_err(|e| trouble::reading(path, &e))?;
    Ok((db, Some(folder)))
}

/// What can be said of a file before SQLite sees it.
fn look_at(path: &Path) -> Result<(), Problem> {
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => trouble::not_a_bundle(path, "there is no such file"),
        _ => Problem::host(trouble::bundle(path), format!("cannot be opened ({e})"))
            .hint("check the permissions of the file and of its folder"),
    })?;
    if meta.is_dir() {
        return Err(trouble::not_a_bundle(path, "is a folder"));
    }
    if !meta.is_file() {
        return Err(trouble::not_a_bundle(path, "is not a regular file"));
    }
    // With a journal beside it the file may be half written, so that only SQLite can tell.
    if std::fs::metadata(beside(path, "-journal")).is_ok_and(|m| m.len() > 0) {
        return Ok(());
    }
    if meta.len() == 0 {
        return Err(trouble::never_begun(path));
    }
    let mut head = Vec::with_capacity(100);
    File::open(path).and_then(|file| file.take(100).read_to_end(&mut head)).map_err(|e| {
        Problem::host(trouble::bundle(path), format!("cannot be read ({e})")).hint("check its permissions")
    })?;
    let number = |at: usize| head.get(at..at + 4).map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    match (head.starts_with(MAGIC), number(68) == Some(APPLICATION_ID)) {
        (true, true) => version(path, i64::from(number(60).unwrap_or(0))).map(|_| ()),
        (true, false) => Err(trouble::not_a_bundle(path, "is an SQLite file, but not a bundle")),
        (false, true) => Err(trouble::lost(path, "its first bytes are not those of an SQLite file")),
        (false, false) => Err(trouble::not_a_bundle(path, "is not a bundle (not an SQLite file)")),
    }
}

fn version(path: &Path, found: i64) -> Result<u32, Problem> {
    match u32::try_from(found) {
        Ok(known @ 1..=SCHEMA_VERSION) => Ok(known),
        _ if found > 0 => Err(Problem::host(
            trouble::bundle(path),
            format!("has schema version {found}, this holdup reads up to {SCHEMA_VERSION}"),
        )
        .hint("read it with a newer holdup")),
        _ => Err(trouble::lost(path, format!("its schema version is {found}"))),
    }
}

/// Checks what SQLite says of the file: whose it is, which version, and that every table is a table with our columns.
fn check(path: &Path, db: &Connection) -> Result<u32, Problem> {
    let number = |pragma: &str| {
        db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0))
            .map_err(|e| trouble::reading(path, &e))
    };
    if number("page_count")? == 0 {
        return Err(trouble::never_begun(path));
    }
    if number("application_id")? != i64::from(APPLICATION_ID) {
        return Err(trouble::not_a_bundle(path, "is an SQLite file, but not a bundle"));
    }
    let version = version(path, number("user_version")?)?;
    tables(db, version).map_err(|e| trouble::reading(path, &e))?.map_err(|found| trouble::lost(path, found))?;
    Ok(version)
}

/// A view or a virtual table in the place of a table could make reading endless, so only true tables will do.
fn tables(db: &Connection, version: u32) -> rusqlite::Result<Result<(), String>> {
    let mut statement = db.prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")?;
    let there: BTreeSet<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut columns = db.prepare("SELECT name FROM pragma_table_info(?1)")?;
    for table in crate::docs::tables().into_iter().filter(|t| t.since <= version) {
        if !there.contains(&table.name) {
            return Ok(Err(format!("the table {} is missing", table.name)));
        }
        let found: BTreeSet<String> =
            columns.query_map([&table.name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        if let Some(column) = table.columns.iter().find(|c| !found.contains(&c.name)) {
            return Ok(Err(format!("the table {} has no column {}", table.name, column.name)));
        }
    }
    Ok(Ok(()))
}
