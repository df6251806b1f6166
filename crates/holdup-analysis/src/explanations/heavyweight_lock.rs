//! Sessions that wait for heavyweight locks: rows, tables, advisory locks.

use super::{Context, advice, split};
use crate::waits::{self, Waits};
use crate::watched::Watched;
use crate::words;
use holdup_model::Meta;
use holdup_model::explanation::{Advice, Cause};
use holdup_model::outcome::FindingVerdict;

pub static META: Meta = Meta {
    id: "heavyweight-lock",
    summary: "sessions that wait for a lock on a row, a table, or one that the application took",
    docs: "The part of the time of sessions at work in which they wait for a heavyweight lock of PostgreSQL (wait events of \
           type Lock), from the account: exact, not sampled. Another transaction holds the lock until it ends; neither CPUs \
           nor the scheduler change that. 5 % and more is named. Where the server was asked (--pg URL), the session that \
           blocks half of the others and more is named (blockers).",
    references: &["PostgreSQL 15-18 manual, Explicit Locking; pg_locks; pg_blocking_pids()"],
};

/// A session that blocks this part of those that wait is named.
const HALF: f64 = 0.5;

static WAITS: Waits = Waits {
    meta: &META,
    name: "heavyweight locks",
    accept: |event| waits::is_of_type(event, "Lock"),
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
        "Lock:transactionid" | "Lock:tuple" => (
            "shorter transactions on the same rows, or the update split over several rows",
            "a row is updated by one transaction at a time: throughput ends at one by its length",
        ),
        _ => return Vec::new(),
    };
    let find = "find them: SELECT pid, pg_blocking_pids(pid), state, query FROM pg_stat_activity WHERE \
                cardinality(pg_blocking_pids(pid)) > 0";
    vec![advice(change, effect, find, "", "none needed")]
}

const BLOCKERS: &str = "blockers";

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let mut cause = waits::explain(&WAITS, watched);
    if cause.verdict == FindingVerdict::Supported {
        name_blockers(watched, &mut cause);
    }
    cause
}

/// Says who blocks the others, where the server was asked.
fn name_blockers(watched: &Watched<'_>, cause: &mut Cause) {
    let blockers = watched.by_label(BLOCKERS, "blocked_sessions");
    let all: f64 = blockers.iter().map(|(_, sessions)| sessions).sum();
    let Some((label, most)) = blockers.first() else { return };
    let windows = watched.of_collector(BLOCKERS).count() as f64;
    cause.evidence.extend(watched.present(&[(BLOCKERS, "blocked_sessions"), (BLOCKERS, "blocked_on")]));
    if *most >= HALF * all {
        let (who, state) = label.split_once(" | ").unwrap_or((label, ""));
        let age = watched.most(BLOCKERS, "blocker_transaction_s", label).filter(|age_s| *age_s >= 1.0);
        let age = age.map(|age_s| format!(", its transaction {} s old", words::number(age_s.round())));
        let state = if state.is_empty() { String::new() } else { format!(": {state}{}", age.unwrap_or_default()) };
        let sessions = words::number(most / windows);
        cause.sentence = format!("{} {who} blocks {sessions} of them on average{state}.", cause.sentence);
        if state.contains("idle in transaction") {
            cause.advice.insert(0, idle_in_transaction());
        }
    } else {
        let text = format!("No session blocks most of them: {} do, one after the other.", blockers.len());
        cause.details.push(text);
    }
    let tables = watched.by_label(BLOCKERS, "blocked_on");
    if let Some(tables) = split(&tables, 3) {
        cause.details.push(format!("The locks are on {tables}."));
    }
}

fn idle_in_transaction() -> Advice {
    advice(
        "a client that commits before it waits for anything else; idle_in_transaction_session_timeout as a limit",
        "a session that is idle in its transaction holds its locks until it ends",
        "",
        "",
        "set the limit back to 0",
    )
}
