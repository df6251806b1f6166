//! What SQLite reports, in words that say what to do.

use holdup_model::Problem;
use rusqlite::ErrorCode;
use std::io::{self, ErrorKind};
use std::path::Path;

/// How a message names a bundle.
pub(crate) fn bundle(path: &Path) -> String {
    format!("bundle {}", path.display())
}

/// A name that a file has already.
pub fn taken(path: &Path) -> Problem {
    Problem::usage(bundle(path), "exists already, and a bundle is never overwritten")
        .hint("choose another name with --out, or move the file away")
}

/// The reason why no bundle can be made.
pub(crate) fn making(path: &Path, error: &io::Error) -> Problem {
    match error.kind() {
        ErrorKind::AlreadyExists => taken(path),
        ErrorKind::NotFound => Problem::usage(bundle(path), "its folder does not exist").hint("make the folder first"),
        ErrorKind::StorageFull => Problem::host(bundle(path), "no space left while making the file")
            .hint("free some space on that file system, or choose another place with --out"),
        _ => Problem::host(bundle(path), format!("cannot be made ({error})"))
            .hint("check the permissions of the folder, or choose another place with --out"),
    }
}

/// A bundle that is whole and does not get its name. A `draft` that is still there is its only copy.
pub(crate) fn placing(path: &Path, draft: &Path, error: &io::Error) -> Problem {
    let problem = match error.kind() {
        ErrorKind::AlreadyExists => taken(path),
        _ => Problem::host(bundle(path), format!("cannot be written ({error})"))
            .hint("free some space on that file system, or choose another place with --out"),
    };
    match draft.exists() {
        true => problem.hint(format!("it lies as {}: move it to another name or place", draft.display())),
        false => problem,
    }
}

/// A file that is no bundle.
pub(crate) fn not_a_bundle(path: &Path, why: impl Into<String>) -> Problem {
    Problem::usage(bundle(path), why.into()).hint("a bundle is the .holdup file that `holdup run --out FILE` writes")
}

/// A bundle whose run ended before its first commit.
pub(crate) fn never_begun(path: &Path) -> Problem {
    Problem::usage(bundle(path), "holds nothing: the run ended before its first write was complete")
        .hint("run again, after `rm` if the file is still there")
}

/// A bundle of which something is damaged. `found` says what.
pub(crate) fn damaged(path: &Path, found: impl std::fmt::Display) -> Problem {
    Problem::host(bundle(path), format!("is damaged: {found}"))
        .hint(format!("holdup verify {} shows what is left of it", path.display()))
}

/// A bundle of which nothing can be read.
pub(crate) fn lost(path: &Path, found: impl std::fmt::Display) -> Problem {
    Problem::host(bundle(path), format!("is damaged: {found}"))
        .hint("nothing of it can be read: use a copy of the file")
}

/// An error of SQLite while reading.
pub(crate) fn reading(path: &Path, error: &rusqlite::Error) -> Problem {
    match code(error) {
        Some(ErrorCode::NotADatabase) => not_a_bundle(path, "is not a bundle (not an SQLite file)"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => locked(path),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            Problem::host(bundle(path), format!("cannot be opened ({error})"))
                .hint("check the permissions of the file and of its folder")
        }
        Some(ErrorCode::SystemIoFailure) => {
            Problem::host(bundle(path), format!("cannot be read: input or output error ({error})"))
                .hint("look for errors of the disk in the kernel's log (dmesg)")
        }
        _ => damaged(path, error),
    }
}

/// An error of SQLite while writing `what`. `kept` is the number of trials that the bundle holds.
pub(crate) fn writing(path: &Path, what: &str, kept: u32, error: &rusqlite::Error) -> Problem {
    let kept = match kept {
        0 => String::new(),
        1 => "; the 1 trial written before is kept".to_owned(),
        n => format!("; the {n} trials written before are kept"),
    };
    match code(error) {
        Some(ErrorCode::DiskFull) => Problem::host(bundle(path), format!("no space left while writing {what}{kept}"))
            .hint("free some space on that file system, or choose another place with --out"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => locked(path),
        Some(
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly,
        ) => Problem::host(bundle(path), format!("{what} cannot be written ({error}){kept}"))
            .hint("check the disk, the permissions of the file and of its folder, or choose another place with --out"),
        Some(ErrorCode::ConstraintViolation) => {
            Problem::internal(bundle(path), format!("{what} breaks a rule of the schema ({error}){kept}"))
        }
        _ => Problem::internal(bundle(path), format!("{what} cannot be written ({error}){kept}")),
    }
}

fn locked(path: &Path) -> Problem {
    Problem::host(bundle(path), "another program holds it locked").hint("close the program that has the file open")
}

/// SQLite's primary code, if the error is SQLite's.
pub(crate) fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}
