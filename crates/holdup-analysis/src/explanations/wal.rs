//! Sessions that wait until the log is on disk.

use super::{Context, advice};
use crate::waits::{self, Waits};
use holdup_model::Meta;
use holdup_model::explanation::Cause;

pub static META: Meta = Meta {
    id: "wal",
    summary: "sessions that wait until the write-ahead log is written and flushed",
    docs: "The part of the time of sessions at work in which they wait for the write-ahead log, from the account: writing and \
           flushing it (IO:WAL…), or waiting for the session that does (LWLock:WALWrite and the like). 5 % and more is named.",
    references: &["PostgreSQL 15-18 manual, WAL Configuration", "src/backend/access/transam/xlog.c:XLogFlush (18.6)"],
};

/// True if a wait event is of the log.
pub(super) fn is_wal(event: &str) -> bool {
    event.starts_with("IO:WAL") || event.starts_with("IO:Wal") || event.starts_with("LWLock:WAL")
}

static WAITS: Waits = Waits {
    meta: &META,
    name: "the write-ahead log",
    accept: is_wal,
    subject: |_| "Write-ahead log",
    advice: |_| {
        vec![advice(
            "a faster disk for pg_wal, or fewer commits (several statements in one transaction); synchronous_commit=off where \
             the last commits may be lost in a crash",
            "a commit waits for one flush; no scheduler setting changes it",
            "",
            "holdup run pgbench --vary postgres.synchronous_commit=on,off",
            "set it back and reload",
        )]
    },
};

pub(super) fn explain(context: &Context<'_>) -> Cause {
    waits::explain(&WAITS, context.watched)
}
