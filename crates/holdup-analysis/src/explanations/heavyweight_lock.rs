//! Sessions that wait for heavyweight locks: rows, tables, advisory locks.

use super::{Context, advice};
use crate::account::Entry;
use crate::waits::{self, Waits};
use holdup_model::Meta;
use holdup_model::explanation::{Advice, Cause};

/// What this explanation says about itself.
pub static META: Meta = Meta {
    id: "heavyweight-lock",
    summary: "sessions that wait for a lock on a row, a table, or one that the application took",
    docs: "The part of the time of sessions at work in which they wait for a heavyweight lock of PostgreSQL (wait events of \
           type Lock), from the account: exact, not sampled. Another transaction holds the lock until it ends; neither CPUs \
           nor the scheduler change that. 5 % and more is named.",
    references: &["PostgreSQL 15-18 manual, Explicit Locking; pg_locks; pg_blocking_pids()"],
};

static WAITS: Waits = Waits {
    meta: &META,
    name: "heavyweight locks",
    accept: |entry: &Entry<'_>| entry.waits_for.starts_with("Lock:"),
    subject,
    advice: advices,
};

/// What is locked, by the event with most of the time.
fn subject(event: &str) -> &'static str {
    match event {
        "Lock:transactionid" | "Lock:tuple" => "Row locks",
        "Lock:relation" => "Table locks",
        "Lock:extend" => "Extension of a table",
        "Lock:virtualxid" => "Locks on virtual transactions",
        "Lock:advisory" => "Advisory locks",
        _ => "Heavyweight locks",
    }
}

fn advices(event: &str) -> Vec<Advice> {
    let (change, effect) = match event {
        "Lock:relation" | "Lock:virtualxid" => (
            "end the transaction that holds the lock; take such locks with lock_timeout, at a quiet time",
            "the queue behind it moves again; every later session waits behind the first that waits",
        ),
        "Lock:advisory" => {
            ("hold advisory locks for a shorter time, or for fewer things", "sessions wait for less of the time")
        }
        "Lock:extend" => ("fewer sessions that insert into one table", "the table is extended by one at a time"),
        _ => (
            "shorter transactions on the same rows, or the update split over several rows",
            "a row is updated by one transaction at a time: throughput ends at one by its length",
        ),
    };
    let find = "find them: SELECT pid, pg_blocking_pids(pid), state, query FROM pg_stat_activity WHERE \
                cardinality(pg_blocking_pids(pid)) > 0";
    vec![advice(change, effect, find, "", "none needed")]
}

pub(super) fn explain(context: &Context<'_>) -> Cause {
    waits::explain(&WAITS, context.watched)
}
