//! Threads that sleep for a mutex.

use super::{Context, Kind, advice, judge, share_in_words};
use crate::account::{self, Entry};
use crate::waits::skipped;
use crate::{wakers, words};
use holdup_model::Meta;
use holdup_model::explanation::Cause;
use holdup_model::outcome::FindingVerdict;

pub static META: Meta = Meta {
    id: "mutex",
    summary: "threads that sleep for a mutex, and whether its holder had a CPU",
    docs: "The part of the time at work in which threads sleep for a mutex (account: a futex whose word says \"locked, with \
           waiters\"; the mutexes of glibc, musl, Rust and Go). Time asleep for a mutex counts as time at work; other sleep \
           of programs that are no PostgreSQL server does not, because what it is for is not known. The task that ends the \
           wait released the lock: the time that it was runnable without a CPU meanwhile is the scheduler's part. 5 % and \
           more is named.",
    references: &["futex(2)", "nptl/lowlevellock.c:__lll_lock_wait (glibc 2.36)"],
};

static KIND: Kind = Kind { meta: &META, name: "mutexes", of: account::OF, minimum: 0.05 };

/// From this part of the waiting on, the holder's want of a CPU is said in the sentence.
const NOTABLE: f64 = 0.1;

fn is_for_mutex(entry: &Entry<'_>) -> bool {
    entry.waits_for == account::MUTEX
}

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    if !account::is_there(watched) {
        return skipped(&KIND);
    }
    let pieces = account::not_seen(watched, account::MUTEX).map_or_else(|| account::pieces(watched, is_for_mutex), Err);
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[(account::ACCOUNT, "account_s"), (account::ACCOUNT, "woken_by_s")]);
    let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) else { return cause };
    let without_cpu = wakers::without_cpu(watched, is_for_mutex).filter(|part| *part >= NOTABLE);
    let holder = match without_cpu {
        Some(part) => format!("; for {} of that the thread that releases it has no CPU", words::percent(part)),
        None => String::new(),
    };
    cause.sentence = format!(
        "Mutexes: {} spend {} of their time at work asleep for a mutex{holder}.",
        account::sessions(watched),
        share_in_words(share)
    );
    let waiting_s = account::by_wait(watched, is_for_mutex).iter().map(|(_, s)| s).sum();
    cause.details.extend(wakers::details(watched, waiting_s, is_for_mutex));
    if without_cpu.is_some() {
        cause.advice.push(advice(
            "as many threads as CPUs, or fewer",
            "the thread with the mutex then keeps its CPU",
            "",
            "holdup run lock-contention --vary threads=2,8",
            "set the number back",
        ));
    } else {
        cause.advice.push(advice(
            "hold the mutex for a shorter time, or split what it protects",
            "its holder runs: no scheduler setting changes it",
            "",
            "",
            "none needed",
        ));
    }
    cause
}
