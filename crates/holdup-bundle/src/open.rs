//! Opening: for the writer, and for readers of files of which nothing is known.

use crate::{APPLICATION_ID, SCHEMA_VERSION, trouble};
use holdup_files::{DraftFile, Folder, check_ancestors, open_input, sweep_private_folders};
use holdup_model::Problem;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one waits for another program that has the file open. A reader holds it for less than a second.
const BUSY: Duration = Duration::from_secs(30);

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// What a journal that names a super-journal ends with (pager.c, `aJournalMagic`).
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The most bytes that are copied of a crashed bundle and its journal.
const MOST_BYTES_OF_A_COPY: u64 = 1 << 30;

/// The most bytes of a row that is read.
const MOST_BYTES_OF_A_ROW: i32 = 256 << 20;

/// A bundle opened for reading.
pub(crate) struct Opened {
    pub(crate) db: Connection,
    /// The version of its schema, one that is known here.
    pub(crate) version: u32,
    /// The private copy that a crashed bundle was recovered on, where its own folder could not be written.
    _copy: Option<PrivateCopy>,
}

/// The folder of a private copy, and the same held locked: unlocked ones are swept.
type PrivateCopy = (tempfile::TempDir, Folder);

/// Prefix of their names, and the name of the bundle in one.
const COPIES: &str = "holdup-recover-";
const COPY: &str = "bundle.holdup";

/// What a crash may do to a bundle that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Every call that returned is on disk.
    EachCall,
    /// The file is whole or thrown away: only what calls [`Writer::finish`](crate::Writer::finish) is kept.
    WholeFile,
}

/// Opens the (still empty) file of a new bundle.
pub(crate) fn to_write(path: &Path, keeping: Keeping) -> rusqlite::Result<Connection> {
    // SQLite opens by name the file that was just made: a link must not have taken its place.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let db = connect(&in_real_folder(path), flags)?;
    // One file between two transactions, and a commit that survives a power cut: see the crate's documentation.
    let (journal, synchronous) = match keeping {
        Keeping::EachCall => ("DELETE", "EXTRA"),
        Keeping::WholeFile => ("MEMORY", "OFF"),
    };
    db.pragma_update(None, "journal_mode", journal)?;
    db.pragma_update(None, "synchronous", synchronous)?;
    db.pragma_update(None, "foreign_keys", true)?;
    // Temporary files would be one more thing that a crash leaves behind.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(db)
}

/// Puts into its place what the writers of bundles of this folder left that were killed.
pub(crate) fn settle_folder_of(path: &Path) {
    let folder = path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
    DraftFile::all_abandoned(folder).into_iter().for_each(settle);
}

/// Rolls back what a killed writer left half written, and gives its bundle the name; one that holds nothing is removed. What cannot be
/// rolled back is read where it lies.
fn settle(draft: DraftFile) {
    let rolled_back = begin(&draft.path(), Trust::Ours, false).map(drop);
    if rolled_back.is_err() {
        return;
    }
    if std::fs::metadata(draft.path()).is_ok_and(|file| file.len() == 0) {
        draft.discard();
    } else {
        let _stays = draft.finish(false);
    }
}

/// Opens a file and checks that it is a bundle whose tables this holdup knows.
///
/// With `tolerant`, a file that is shorter than it says is opened too.
pub(crate) fn to_read(path: &Path, tolerant: bool) -> Result<Opened, Problem> {
    let was_link = path.is_symlink();
    match to_read_now(path, tolerant) {
        // The writer gave the draft its name meanwhile.
        Err(_) if was_link && path.exists() && !path.is_symlink() => to_read_now(path, tolerant),
        opened => opened,
    }
}

fn to_read_now(path: &Path, tolerant: bool) -> Result<Opened, Problem> {
    if let Some(draft) = DraftFile::abandoned(path) {
        settle(draft);
        if !path.exists() {
            return Err(trouble::never_begun(path));
        }
    }
    // SQLite's files lie beside the file that a link leads to.
    let led = path.is_symlink().then(|| path.canonicalize().ok()).flatten();
    let path = led.as_deref().unwrap_or(path);
    let trust = look_at(path)?;
    let begun = match trust {
        Trust::Other { has_journal: true } => {
            return on_a_copy(path, tolerant).and_then(|copied| checked(path, copied));
        }
        trust => begin(path, trust, tolerant),
    };
    let opened = match begun {
        Ok(db) => (db, None),
        Err(e) if is_unwritable(&e) => on_a_copy(path, tolerant)?,
        // What cannot be opened even so is lost; `holdup verify`, which opens so, must not send one to itself.
        Err(e) if tolerant && is_damage(&e) => return Err(trouble::lost(path, e)),
        Err(e) => return Err(trouble::reading(path, &e)),
    };
    checked(path, opened)
}

fn checked(path: &Path, (db, copy): (Connection, Option<PrivateCopy>)) -> Result<Opened, Problem> {
    let version = check(path, &db)?;
    Ok(Opened { db, version, _copy: copy })
}

/// The path of a file that SQLite keeps beside the bundle.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The same path, with no link in the folders of it.
fn in_real_folder(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = absolute.parent().and_then(|folder| folder.canonicalize().ok());
    real.zip(absolute.file_name()).map_or_else(|| absolute.clone(), |(folder, name)| folder.join(name))
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // Absolute, because SQLite takes names such as `file:x` and `:memory:` for something else than a path.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(BUSY)?;
    // A trial is written and read by about twenty statements, more than are kept by default.
    db.set_prepared_statement_cache_capacity(64);
    // Otherwise a statement is planned anew for each number that is bound to it, which takes half of the time of reading a trial.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(db)
}

/// How SQLite is asked for a file that lies there unchanged: nothing is locked, looked for or written beside it.
fn immutable(path: &Path) -> PathBuf {
    let mut uri = String::from("file:");
    for byte in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    PathBuf::from(uri + "?mode=ro&immutable=1")
}

/// Opens the file, rolls back what a crash left half written, and begins to read: all queries see one state.
///
/// A file of ours is opened for writing where that is allowed, because a hot journal must be rolled back and removed;
/// `query_only` sees to it that nothing else is written. A file of another user is never written, nor beside it.
fn begin(path: &Path, trust: Trust, tolerant: bool) -> rusqlite::Result<Connection> {
    let db = match trust {
        Trust::Ours => connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?,
        Trust::Root => connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        Trust::Other { .. } => Connection::open_with_flags(
            immutable(path),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?,
    };
    // The schema of a file is foreign input like the rest of it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    db.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_BYTES_OF_A_ROW)?;
    db.pragma_update(None, "mmap_size", 0)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.pragma_update(None, "query_only", true)?;
    if tolerant {
        db.pragma_update(None, "writable_schema", true)?;
    }
    db.execute_batch("BEGIN")?;
    db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))?;
    Ok(db)
}

/// True if the trouble may be that SQLite could not write beside the file.
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
fn on_a_copy(path: &Path, tolerant: bool) -> Result<(Connection, Option<PrivateCopy>), Problem> {
    let failed = |e: std::io::Error| {
        Problem::host(
            trouble::bundle(path),
            format!("must be recovered after a crash, and cannot be copied for it ({e})"),
        )
        .hint("copy the file and the one named -journal beside it to a folder that can be written, and read it there")
    };
    let owner_only = PermissionsExt::from_mode(0o700);
    sweep_private_folders(&std::env::temp_dir(), COPIES);
    let folder = tempfile::Builder::new().prefix(COPIES).permissions(owner_only).tempdir().map_err(failed)?;
    let held = Folder::open(folder.path()).map_err(failed)?;
    flock(held.fd(), FlockOperation::NonBlockingLockExclusive).map_err(|e| failed(e.into()))?;
    let copy = folder.path().join(COPY);
    let owner = std::fs::metadata(path).map_err(failed)?.uid();
    let mut room = MOST_BYTES_OF_A_COPY;
    for suffix in ["", "-journal", "-wal"] {
        let mut from = match open_input(&beside(path, suffix)) {
            Err(e) if e.kind() == ErrorKind::NotFound && !suffix.is_empty() => continue,
            opened => opened.map_err(failed)?,
        };
        if !suffix.is_empty() && !is_of(owner, &from.metadata().map_err(failed)?) {
            continue;
        }
        // A new file with its own permissions: those of a read-only original would be in the way.
        let mut to = held.create_file(format!("{COPY}{suffix}"), 0o600).map_err(failed)?;
        room -= std::io::copy(&mut (&mut from).take(room), &mut to).map_err(failed)?;
        if from.read(&mut [0]).map_err(failed)? > 0 {
            let most = format!("with what lies beside it, it has more than {} MB", MOST_BYTES_OF_A_COPY >> 20);
            return Err(failed(std::io::Error::other(most)));
        }
    }
    // It may have changed since it was looked at.
    names_no_other(path, &beside(&copy, "-journal"))?;
    let db = begin(&copy, Trust::Ours, tolerant).map_err(|e| trouble::reading(path, &e))?;
    Ok((db, Some((folder, held))))
}

/// Whose file it is that is read.
#[derive(Clone, Copy)]
enum Trust {
    /// Ours, in a folder where no other user can replace it.
    Ours,
    /// Root's: root may be writing it.
    Root,
    /// Another user's, or one that other users can change.
    Other { has_journal: bool },
}

/// True if the owner of a bundle alone can have made this file, which lies beside it.
fn is_of(owner: u32, beside: &Metadata) -> bool {
    // Anybody may give another file of that owner a second name.
    beside.uid() == owner && beside.nlink() == 1
}

/// Whose a bundle is, with what lies beside it. A journal of another user is none: in a folder such as /tmp anybody can make
/// one for a bundle that is whole.
///
/// # Errors
/// When what SQLite would open beside it is no regular file.
fn trust(path: &Path, meta: &Metadata) -> Result<(Trust, bool), Problem> {
    let us = rustix::process::geteuid().as_raw();
    let mut all = vec![meta.clone()];
    let mut has_journal = false;
    for suffix in ["-journal", "-wal", "-shm"] {
        let Ok(found) = std::fs::symlink_metadata(beside(path, suffix)) else { continue };
        if is_of(meta.uid(), &found) || found.is_dir() && found.uid() == meta.uid() {
            if !found.is_file() {
                return Err(trouble::not_a_bundle(path, format!("has beside it a {suffix} that is no regular file")));
            }
            has_journal |= found.len() > 0;
            if suffix == "-journal" {
                names_no_other(path, &beside(path, suffix))?;
            }
        }
        all.push(found);
    }
    let real = path.canonicalize().ok();
    let folder = real.as_deref().and_then(Path::parent).and_then(|folder| folder.metadata().ok());
    // Where others may make files, as in /tmp, a journal may come after this look.
    let is_kept = folder.is_some_and(|folder| [us, 0].contains(&folder.uid()) && folder.mode() & 0o022 == 0)
        && real.is_some_and(|real| check_ancestors(&real).is_ok());
    let are_of = |uid| is_kept && all.iter().all(|one| one.uid() == uid && one.nlink() == 1 && one.mode() & 0o022 == 0);
    let trust = match () {
        () if are_of(us) => Trust::Ours,
        () if are_of(0) => Trust::Root,
        () => Trust::Other { has_journal },
    };
    Ok((trust, has_journal))
}

/// True if SQLite would take something beside a bundle for its own: the bytes of the file alone are not those that are read.
pub fn has_journal(path: &Path) -> bool {
    let found = path.canonicalize().and_then(|path| Ok((path.metadata()?, path)));
    found.is_ok_and(|(meta, path)| trust(&path, &meta).is_ok_and(|(_, has_journal)| has_journal))
}

/// That a journal names no super-journal: SQLite may remove the file of that name, wherever it is, after the journal
/// was rolled back (pager.c, `pager_delsuper`). The journals of bundles have none.
fn names_no_other(path: &Path, journal: &Path) -> Result<(), Problem> {
    let mut end = [0; 8];
    let read = open_input(journal).and_then(|mut file| {
        file.seek(SeekFrom::End(-8))?;
        file.read_exact(&mut end)
    });
    match read {
        Ok(()) if end == JOURNAL_MAGIC => {
            Err(trouble::not_a_bundle(path, "has a journal beside it that names another file, which no bundle's does"))
        }
        // One that is not there, or too short to be one.
        _ => Ok(()),
    }
}

/// What can be said of a file before SQLite sees it, and whose it is.
fn look_at(path: &Path) -> Result<Trust, Problem> {
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => trouble::not_a_bundle(path, "there is no such file"),
        ErrorKind::PermissionDenied if DraftFile::is_at(path) => {
            let why = "another user (root, with sudo) is writing it, or was killed meanwhile";
            Problem::host(trouble::bundle(path), why)
                .hint(format!("wait for the run; if it was killed, as that user: holdup verify {}", path.display()))
        }
        _ => Problem::host(trouble::bundle(path), format!("cannot be opened ({e})"))
            .hint("check the permissions of the file and of its folder"),
    })?;
    if meta.is_dir() {
        return Err(trouble::not_a_bundle(path, "is a folder"));
    }
    if !meta.is_file() {
        return Err(trouble::not_a_bundle(path, "is not a regular file"));
    }
    let (trust, has_journal) = trust(path, &meta)?;
    // With a journal beside it the file may be half written, so that only SQLite can read it.
    if has_journal {
        return Ok(trust);
    }
    if meta.len() == 0 {
        return Err(trouble::never_begun(path));
    }
    let mut head = Vec::with_capacity(100);
    open_input(path).and_then(|file| file.take(100).read_to_end(&mut head)).map_err(|e| {
        Problem::host(trouble::bundle(path), format!("cannot be read ({e})")).hint("check its permissions")
    })?;
    let number = |at: usize| head.get(at..at + 4).map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    match (head.starts_with(MAGIC), number(68) == Some(APPLICATION_ID)) {
        (true, true) => version(path, i64::from(number(60).unwrap_or(0))).map(|_| trust),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding H1 of the attacks, in the moment between the look and the first read.
    #[test]
    fn a_journal_that_comes_after_the_look_is_not_rolled_back() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        let path = folder.path().join("a.holdup");
        let db = Connection::open(&path).unwrap();
        let marks = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};");
        db.execute_batch(&format!("{marks} CREATE TABLE t (a)")).unwrap();
        drop(db);
        let trust = look_at(&path).unwrap();
        // The header says that the file had one page.
        let mut journal = JOURNAL_MAGIC.to_vec();
        [0_u32, 0, 1, 512, 4096].iter().for_each(|number| journal.extend(number.to_be_bytes()));
        journal.resize(512, 0);
        std::fs::write(beside(&path, "-journal"), journal).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        begin(&path, trust, false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert!(beside(&path, "-journal").exists());
    }
}
