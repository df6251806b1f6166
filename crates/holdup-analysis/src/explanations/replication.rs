//! Sessions that wait for a standby.

use super::{Context, advice};
use crate::waits::{self, Waits};
use holdup_model::Meta;
use holdup_model::explanation::Cause;

pub static META: Meta = Meta {
    id: "replication",
    summary: "commits that wait for a synchronous standby",
    docs: "The part of the time of sessions at work in which they wait until a synchronous standby has confirmed their commit \
           (wait event IPC:SyncRep), from the account. Without a standby that answers they wait without end. 5 % and more is \
           named.",
    references: &["PostgreSQL 15-18 manual, synchronous_standby_names", "src/backend/replication/syncrep.c (18.6)"],
};

static WAITS: Waits = Waits {
    meta: &META,
    name: "synchronous replication",
    accept: |event| event == "IPC:SyncRep",
    subject: |_| "Synchronous replication",
    advice: |_| {
        vec![advice(
            "look whether the standbys of synchronous_standby_names are connected (pg_stat_replication), and how far away \
             they are; synchronous_commit=local where a commit may be on this host alone",
            "a commit waits for the standby's answer; no scheduler setting of this host changes it",
            "",
            "",
            "set it back and reload",
        )]
    },
};

pub(super) fn explain(context: &Context<'_>) -> Cause {
    waits::explain(&WAITS, context.watched)
}
