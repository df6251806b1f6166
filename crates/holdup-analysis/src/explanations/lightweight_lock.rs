//! Sessions that wait for lightweight locks, but for that of the log.

use super::{Context, advice};
use crate::waits::{self, Waits};
use holdup_model::Meta;
use holdup_model::explanation::{Advice, Cause};

pub static META: Meta = Meta {
    id: "lightweight-lock",
    summary: "sessions that wait for a lock on a structure in shared memory (LWLock)",
    docs: "The part of the time of sessions at work in which they sleep for a lightweight lock of PostgreSQL (wait events of \
           type LWLock, since 19 Buffer:BufferShared and the like, and IPC:ProcArrayGroupUpdate and XactGroupUpdate), without that of writing the log, from the account. Its \
           holder may be preempted while it holds it: the sleep is longer by that. 5 % and more is named.",
    references: &["PostgreSQL 15-18 manual, Wait Events of Type Lwlock", "src/backend/storage/lmgr/lwlock.c (18.6)"],
};

/// Locks on the content of a buffer since PostgreSQL 19, LWLock:BufferContent before.
const OF_BUFFERS: [&str; 3] = ["Buffer:BufferExclusive", "Buffer:BufferShareExclusive", "Buffer:BufferShared"];

/// True if a wait event is for such a lock, or for the session that has it and does the work of all that queue for it.
pub(super) fn is_of_a_lock(event: &str) -> bool {
    waits::is_of_type(event, "LWLock") && !super::wal::is_wal(event)
        || event.eq_ignore_ascii_case("IPC:ProcArrayGroupUpdate")
        || event == "IPC:XactGroupUpdate"
        || OF_BUFFERS.contains(&event)
}

static WAITS: Waits = Waits {
    meta: &META,
    name: "lightweight locks",
    accept: is_of_a_lock,
    subject: |_| "Lightweight locks",
    advice: |event| if event.starts_with("LWLock:Subtrans") { vec![of_subtransactions()] } else { Vec::new() },
};

fn of_subtransactions() -> Advice {
    advice(
        "shorter transactions, with 64 savepoints or EXCEPTION blocks that write, at most",
        "a snapshot lists no more subtransactions of a transaction than that; others are looked up row by row",
        "find them: SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start",
        "",
        "none needed",
    )
}

pub(super) fn explain(context: &Context<'_>) -> Cause {
    waits::explain(&WAITS, context.watched)
}
