//! Sessions that wait for something of PostgreSQL that no other explanation covers.

use super::Context;
use crate::waits::{self, Waits};
use holdup_model::Meta;
use holdup_model::explanation::Cause;

pub static META: Meta = Meta {
    id: "other-wait",
    summary: "sessions in other wait events: pins of buffers, other processes, timers, a client that reads slowly",
    docs: "The part of the time of sessions at work that they sleep in wait events of PostgreSQL which no other explanation \
           covers: types Buffer and BufferPin (pins), IPC, Timeout, Extension and Activity, Client but for ClientRead, and numbers without a name. 5 % and more is named.",
    references: &["PostgreSQL 15-18 manual, The Cumulative Statistics System: Wait Event Types"],
};

/// What the leader of a parallel query waits for.
const OF_PARALLEL_QUERIES: [&str; 6] = [
    "IPC:BgWorkerShutdown",
    "IPC:BgWorkerStartup",
    "IPC:ExecuteGather",
    "IPC:MessageQueueReceive",
    "IPC:ParallelBitmapScan",
    "IPC:ParallelFinish",
];

/// A number that the wait events of the server's version do not have, or of a version that is not known.
const NAMELESS: &str = "wait event 0x";

const TYPES: [&str; 8] = ["Buffer", "BufferPin", "IPC", "Timeout", "Extension", "Activity", "Client", "InjectionPoint"];

static WAITS: Waits = Waits {
    meta: &META,
    name: "other wait events",
    accept: |event| {
        event != "IPC:SyncRep"
            && !super::slow_disk::is_io(event)
            && !super::lightweight_lock::is_of_a_lock(event)
            && (event.starts_with(NAMELESS) || TYPES.iter().any(|of| waits::is_of_type(event, of)))
    },
    subject: |event| match event {
        "Timeout:PgSleep" => "pg_sleep()",
        "Timeout:SpinDelay" => "Spin locks",
        "Timeout:VacuumDelay" => "Vacuum delay",
        "Client:ClientWrite" => "Clients that read slowly",
        "BufferPin:BufferPin" | "Buffer:BufferCleanup" => "Buffer pins",
        "IPC:CheckpointStart" | "IPC:CheckpointDone" => "Checkpoints",
        // Their names differ in case between versions.
        _ if OF_PARALLEL_QUERIES.iter().any(|of| event.eq_ignore_ascii_case(of)) => "Parallel workers",
        _ if event.starts_with(NAMELESS) || event.contains(" number ") => "Wait events without a known name",
        _ => "Wait events",
    },
    advice: |_| Vec::new(),
};

pub(super) fn explain(context: &Context<'_>) -> Cause {
    waits::explain(&WAITS, context.watched)
}
