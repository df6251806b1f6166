//! One thread that uses a whole CPU.

use super::{Context, Kind, advice, judge, share_in_words};
use crate::account;
use crate::waits::skipped;
use crate::watched::window_s;
use holdup_model::Meta;
use holdup_model::explanation::Cause;
use holdup_model::outcome::FindingVerdict;

pub static META: Meta = Meta {
    id: "saturated-thread",
    summary: "one thread that runs all the time and is the limit of its program",
    docs: "The part of the windows, without the time that it waited for a CPU, in which the busiest thread of the \
           watched processes was on a CPU (account: busiest_thread_s, busiest_thread_wait_s). 90 % and more is named, unless the watched processes are a PostgreSQL server, whose backends \
           work for one client each. A program that does its work in one thread gets no faster with more CPUs.",
    references: &["pidstat(1) -t; top(1) -H"],
};

static KIND: Kind = Kind { meta: &META, name: "one saturated thread", of: "the time that it could run", minimum: 0.9 };

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    if !account::is_there(watched) {
        return skipped(&KIND);
    }
    let busiest = watched.by_label(account::ACCOUNT, "busiest_thread_s");
    let on_s: f64 = busiest.iter().map(|(_, on_s)| on_s).sum();
    // One that mostly waits for a CPU is delayed by others, and not the limit.
    let mostly_runs = on_s * 2.0 >= watched.watched_s();
    let pieces = watched.pieces(|trial| {
        // Where no task ran there is no busiest one.
        watched.required(trial, account::ACCOUNT, account::ITEM, |_| true)?;
        let of = |name| watched.total(trial, account::ACCOUNT, name);
        let (on_s, wait_s) = (of("busiest_thread_s")?, of("busiest_thread_wait_s")?);
        let could_s = window_s(trial) - if mostly_runs { wait_s.min(window_s(trial)) } else { 0.0 };
        // The window of the account may be longer by the time that cutting takes.
        Ok((on_s.min(could_s), could_s))
    });
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[(account::ACCOUNT, "busiest_thread_s")]);
    // It is not delayed, it works: others wait for it.
    cause.tasks_held_up = cause.tasks_held_up.map(|_| 0.0);
    if account::has_backends(watched) {
        cause.verdict = FindingVerdict::Refuted;
        cause.missing.clear();
        cause.share = None;
        cause.sentence = "One saturated thread: each backend works for one client.".to_owned();
        return cause;
    }
    let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) else { return cause };
    let name = busiest.first().map_or("a thread", |(label, _)| label.as_str());
    cause.sentence =
        format!("One thread is the limit: {name} is on a CPU {} of the time that it could run.", share_in_words(share));
    cause.advice.push(advice(
        "less work for this thread, or several processes or threads that share it; a CPU with a faster core",
        "more CPUs change nothing for a single thread",
        "see what it does: holdup report FILE --html, call stacks on CPU",
        "",
        "none needed",
    ));
    cause
}
