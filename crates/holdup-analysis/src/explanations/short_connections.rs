//! Sessions that connect, do little and leave.

use super::{Context, Kind, advice, judge, share_in_words};
use crate::account;
use crate::waits::skipped;
use crate::words;
use holdup_model::Meta;
use holdup_model::explanation::Cause;
use holdup_model::outcome::FindingVerdict;

pub static META: Meta = Meta {
    id: "short-connections",
    summary: "sessions that start, do little and end",
    docs: "Each connection to PostgreSQL is a process: a fork, an authentication, and caches that are filled again. The CPU time \
           of the life of client backends that began under watch and ended (account: ended_on_cpu_s), as a share of the CPU \
           time of all client backends. 50 % and more is named, where such a session has less than 20 ms of CPU time: one \
           that has more works.",
    references: &["PostgreSQL 15-18 manual, How Connections Are Established", "pgbouncer(1)"],
};

static KIND: Kind = Kind { meta: &META, name: "short connections", of: "the CPU time of sessions", minimum: 0.5 };

/// Sessions that use less than this of one CPU together are no storm.
const FEW: f64 = 0.05;

/// The most CPU time of a session that does little, s.
const LITTLE_S: f64 = 0.02;

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    if !account::has_backends(watched) {
        return skipped(&KIND);
    }
    let ended = |trial: &_, item| watched.sum(trial, account::ACCOUNT, item, account::is_backend);
    let pieces = watched.pieces(|trial| {
        let all_s = account::backends_on_cpu_s(watched, trial)?;
        // Part of their life may lie before the window.
        Ok((ended(trial, "ended_on_cpu_s")?.min(all_s), all_s))
    });
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[
        (account::ACCOUNT, "ended_on_cpu_s"),
        (account::ACCOUNT, "ended_processes"),
        (account::ACCOUNT, "account_s"),
    ]);
    let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) else { return cause };
    let all = |item| watched.trials.iter().filter_map(|trial| ended(trial, item).ok()).sum::<f64>();
    let (sessions, on_s) = (all("ended_processes"), all("ended_on_cpu_s"));
    let each_s = on_s / sessions;
    let used = on_s / watched.watched_s();
    if used < FEW {
        cause.verdict = FindingVerdict::Refuted;
        cause.sentence =
            format!("Short connections: sessions that start and end use {} of one CPU.", words::percent(used));
        return cause;
    }
    let each = format!("{:.1} ms of CPU each", each_s * 1e3);
    if each_s >= LITTLE_S {
        cause.verdict = FindingVerdict::Refuted;
        cause.sentence = format!("Short connections: sessions that start and end have {each}: they work.");
        return cause;
    }
    cause.sentence = format!(
        "Short connections: sessions that start and end use {} of the CPU time of all sessions; {} a second, {each}.",
        share_in_words(share),
        words::number((sessions / watched.watched_s()).round()),
    );
    cause.advice.push(advice(
        "a connection pooler (pgbouncer), or connections that stay open",
        "a statement on an open connection needs no new process, no authentication and no cold caches",
        "",
        "",
        "connect directly again",
    ));
    cause
}
