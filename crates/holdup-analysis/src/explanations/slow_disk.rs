//! Tasks that wait for a disk.

use super::stolen_by_higher_class::in_words;
use super::{Context, Kind, advice, judge, memory_pressure, share_in_words, split};
use crate::account;
use crate::waits::{self, Waits};
use crate::watched::{Watched, seconds_in, window_s};
use crate::words;
use holdup_model::explanation::{Advice, Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Meta, Trial};
use holdup_stats::{CONFIDENCE, share_of_sums};

pub static META: Meta = Meta {
    id: "slow-disk",
    summary: "watched tasks that wait for a disk",
    docs: "Tasks that wait for a disk on average over the windows: PostgreSQL's wait events of type IO and IPC:BufferIO (account, else wait-events), else the \
           time in uninterruptible sleep (switches: blocked). Uninterruptible sleep is not only disks, so the host has to \
           report waiting for I/O as well (pressure, else iowait of cpu). A twentieth of a task and more is named, where \
           the host waits 2 % of the time and more. Where tasks wait for memory half of that time and more, they read back \
           what was taken from the page cache: then memory-pressure explains it.",
    references: &["Documentation/accounting/psi.rst (v6.18)", "proc_stat(5): iowait"],
};

static KIND: Kind = Kind { meta: &META, name: "I/O wait", of: "one task's time", minimum: 0.05 };

/// True if a wait event is for a disk, or for another process that reads or writes the same page.
pub(super) fn is_io(event: &str) -> bool {
    waits::is_of_type(event, "IO") && !super::wal::is_wal(event) || event.eq_ignore_ascii_case("IPC:BufferIO")
}

/// The host waits for I/O for at least this part of the time where a disk is the reason.
const HOST_MINIMUM: f64 = 0.02;

static BACKENDS: Waits =
    Waits { meta: &META, name: "I/O wait", accept: is_io, subject: |_| "I/O wait", advice: |_| vec![advices()] };

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    if account::has_backends(watched) {
        let mut cause = waits::explain(&BACKENDS, watched);
        let memory = context.found(memory_pressure::META.id).filter(|_| memory_pressure::explains_reads(watched));
        if let (Some(memory), FindingVerdict::Supported, Some(share)) = (memory, cause.verdict, &cause.share) {
            cause.verdict = FindingVerdict::Refuted;
            cause.sentence =
                format!("I/O wait: {} of {}, explained by {}.", share_in_words(share), cause.of, in_words(memory));
            cause.advice.clear();
        }
        return cause;
    }
    let tasks = watched.pieces(|trial| Ok((waiting_s(watched, trial)?, window_s(trial))));
    let host = watched.pieces(|trial| Ok((host_s(watched, trial)?, window_s(trial))));
    let host_share = host.as_ref().ok().and_then(|p| share_of_sums(&p.pieces, CONFIDENCE).ok());
    let mut cause = judge(&KIND, watched, tasks);
    cause.evidence = watched.present(&[
        ("wait-events", "backends_waiting"),
        ("switches", "off_cpu_ns"),
        ("pressure", "pressure_share"),
        ("cpu", "cpu_share"),
    ]);
    if let Some(share) = &host_share {
        cause.details.push(format!("Something on this host waited for I/O {} of the time.", share_in_words(share)));
    }
    match (&host_share, cause.verdict) {
        // The whole host does not wait: then no task of it does, even where evidence of the tasks is missing.
        (Some(share), _) if share.high < HOST_MINIMUM => {
            cause.verdict = FindingVerdict::Refuted;
            cause.missing.clear();
            cause.sentence = format!(
                "I/O wait: the host waited for I/O at most {} of the time (threshold {}).",
                words::percent(share.high),
                words::percent(HOST_MINIMUM)
            );
            cause.trials = host.map(|p| p.trials).unwrap_or_default();
        }
        (Some(share), FindingVerdict::Supported) if share.low < HOST_MINIMUM => {
            cause.verdict = FindingVerdict::Undecided;
            cause.sentence = "I/O wait: tasks were blocked; whether on a disk is not known.".to_owned();
        }
        (None, FindingVerdict::Supported) if !is_by_wait_events(watched) => {
            cause.verdict = FindingVerdict::Undecided;
            cause.sentence = "I/O wait: tasks were blocked; on what is not known.".to_owned();
            cause.missing.push(watched.why_missing("pressure"));
        }
        (_, FindingVerdict::Supported) => found(watched, &mut cause),
        _ => {}
    }
    cause
}

fn found(watched: &Watched<'_>, cause: &mut Cause) {
    let Some(share) = &cause.share else { return };
    let what = if is_by_wait_events(watched) { "backends" } else { "watched tasks" };
    cause.sentence = format!(
        "I/O wait: {} {what} wait for a disk on average ({}–{}).",
        words::number(share.value),
        words::number(share.low),
        words::number(share.high)
    );
    let events: Vec<(String, f64)> = watched.by_label("wait-events", "backends_waiting");
    let io: Vec<(String, f64)> = events.into_iter().filter(|(event, _)| waits::is_of_type(event, "IO")).collect();
    if let Some(io) = split(&io, 3) {
        cause.details.push(format!("In the wait events {io}."));
    }
    cause.advice.push(advices());
}

fn advices() -> Advice {
    advice(
        "a larger shared_buffers or page cache, or a faster disk",
        "reads that hit memory do not wait; writes and fsyncs (IO:WALSync) only get faster with the disk. No scheduler \
         setting changes it",
        "memory for it",
        "holdup run pgbench --vary postgres.shared_buffers=128MB,1GB",
        "set it back and restart",
    )
}

fn is_by_wait_events(watched: &Watched<'_>) -> bool {
    watched.of_collector("wait-events").any(|c| c.coverage.seen > 0)
}

/// Task-seconds of waiting for a disk.
fn waiting_s(watched: &Watched<'_>, trial: &Trial) -> Result<f64, Missing> {
    if watched.required(trial, "wait-events", "wait_event_samples", |_| true).is_ok() {
        let tasks = watched.sum(trial, "wait-events", "backends_waiting", |event| event.starts_with("IO:"))?;
        return Ok(tasks * window_s(trial));
    }
    watched.required(trial, "switches", "switched_out", |_| true)?;
    Ok(seconds_in(watched.collected(trial, "switches")?, "off_cpu_ns", |label| label.ends_with(": blocked")))
}

/// Seconds in which something on the host waited for I/O.
fn host_s(watched: &Watched<'_>, trial: &Trial) -> Result<f64, Missing> {
    let pressure = watched.required(trial, "pressure", "pressure_share", |label| label == "io some");
    let share = pressure.or_else(|missing| watched.cpu_share(trial, &["iowait"]).map_err(|_| missing))?;
    Ok(share * window_s(trial))
}
