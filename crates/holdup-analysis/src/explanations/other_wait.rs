//! Sessions that wait for something of PostgreSQL that no other explanation covers.

use super::Context;
use crate::account::Entry;
use crate::waits::{self, Waits};
use holdup_model::Meta;
use holdup_model::explanation::Cause;

/// What this explanation says about itself.
pub static META: Meta = Meta {
    id: "other-wait",
    summary: "sessions in other wait events: pins of buffers, other processes, timers, a client that reads slowly",
    docs: "The part of the time of sessions at work that they sleep in wait events of PostgreSQL which no other explanation \
           covers: types BufferPin, IPC, Timeout, Extension and Activity, and Client but for ClientRead. 5 % and more is named.",
    references: &["PostgreSQL 15-18 manual, The Cumulative Statistics System: Wait Event Types"],
};

static WAITS: Waits = Waits {
    meta: &META,
    name: "other wait events",
    accept: |entry: &Entry<'_>| {
        let of = entry.waits_for.split(':').next().unwrap_or_default();
        entry.waits_for != "IPC:SyncRep"
            && matches!(of, "BufferPin" | "IPC" | "Timeout" | "Extension" | "Activity" | "Client" | "InjectionPoint")
    },
    subject: |event| match event {
        "Timeout:PgSleep" => "pg_sleep()",
        "Timeout:SpinDelay" => "Spin locks",
        "Timeout:VacuumDelay" => "Vacuum delay",
        "Client:ClientWrite" => "Clients that read slowly",
        "BufferPin:BufferPin" => "Buffer pins",
        _ => "Wait events",
    },
    advice: |_| Vec::new(),
};

pub(super) fn explain(context: &Context<'_>) -> Cause {
    waits::explain(&WAITS, context.watched)
}
