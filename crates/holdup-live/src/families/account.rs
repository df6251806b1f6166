//! Where the time of tasks goes (collector `account`).

use super::{Family, Kind, Reading, Seen, Sink, parts, word};
use holdup_analysis::account::{ACCOUNT, Entry, ITEM};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "holdup_task_seconds",
        help: "Wall time of all watched tasks, by kind of process, state, and the wait event or system call they sleep in.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["kind", "state", "wait_event_type", "wait_event"],
        read: tasks,
    },
    Family {
        name: "holdup_woken_wait_seconds",
        help: "Time that tasks were runnable without a CPU after the end of a wait, by kind of process and wait event.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["kind", "wait_event_type", "wait_event"],
        read: woken,
    },
    Family {
        name: "holdup_runnable_behind_seconds",
        help: "Time that tasks were runnable while this task outside had the CPU, by its name.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["kind", "task"],
        read: behind,
    },
    Family {
        name: "holdup_ended_processes",
        help: "Processes that ended under watch.",
        kind: Kind::Counter,
        unit: "",
        labels: &["kind"],
        read: |seen, into| super::each(seen, "account", "ended_processes", into),
    },
];

/// `Lock:transactionid` as its type and its name. What is no wait event of PostgreSQL is a system call.
fn wait_event(text: &str) -> [&str; 2] {
    match text.split_once(':') {
        Some((kind, name)) => [kind, name],
        None if text.is_empty() => ["", ""],
        None => ["syscall", text],
    }
}

fn tasks(seen: &Seen<'_>, into: &mut Sink<'_>) {
    for (label, time_s) in seen.items(ACCOUNT, ITEM) {
        let entry = Entry::of(label);
        let [event_type, event] = wait_event(entry.waits_for);
        into(&[entry.kind, &word(entry.state), event_type, event], Reading::Number(time_s));
    }
}

fn woken(seen: &Seen<'_>, into: &mut Sink<'_>) {
    for (label, time_s) in seen.items("account", "woken_wait_s") {
        let [kind, waits_for] = parts(label, " | ");
        let [event_type, event] = wait_event(waits_for);
        into(&[kind, event_type, event], Reading::Number(time_s));
    }
}

fn behind(seen: &Seen<'_>, into: &mut Sink<'_>) {
    for (label, time_s) in seen.items("account", "behind_s") {
        let [kind, _state, task] = parts(label, " | ");
        into(&[kind, task], Reading::Number(time_s));
    }
}
