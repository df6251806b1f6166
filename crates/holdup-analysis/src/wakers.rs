//! Who ends the waits of sessions, and what those do meanwhile (collector `account`: `woken_by_s`).

use crate::account::{self, ACCOUNT, Entry};
use crate::explanations::grouped;
use crate::watched::Watched;
use crate::words;
use std::collections::BTreeMap;

const ITEM: &str = "woken_by_s";
/// A waker that is no task.
const INTERRUPT: &str = "interrupt";
/// What a waker did that was off the CPU although it could run.
const RUNNABLE: &str = "runnable";
const RUNNING: &str = "running";
/// The time in which others had what is waited for.
const QUEUED: &str = "queued";
/// Waits that ended have to be this part of all for their wakers to stand for all.
const NOTABLE: f64 = 0.05;
/// A wait is followed to its waker's own wait when that is at least this part of it.
const MOST: f64 = 0.5;
/// Links of a chain that are followed.
const LINKS: usize = 4;

/// Who ended a wait, and what it did until then: `KIND | STATE | FOR | WAKER | WHAT IT DID`.
struct Link<'a> {
    of: Entry<'a>,
    waker: &'a str,
    did: &'a str,
}

impl<'a> Link<'a> {
    fn of(label: &'a str) -> Self {
        let mut parts = label.split(" | ").skip(3);
        let mut next = || parts.next().unwrap_or_default();
        Link { of: Entry::of(label), waker: next(), did: next() }
    }

    /// True if the waker did not have what is waited for: others had it, or it waited for the same.
    fn is_in_queue(&self) -> bool {
        self.did == QUEUED || self.waker == self.of.kind && self.did == self.of.waits_for
    }
}

/// Waits that ended, s, by label.
type Ended = Vec<(String, f64)>;

fn ended(watched: &Watched<'_>, accept: impl Fn(&Entry<'_>) -> bool) -> Ended {
    let mut all = watched.by_label(ACCOUNT, ITEM);
    all.retain(|(label, _)| accept(&Entry::of(label)));
    all
}

/// The same, of sessions at work.
fn of_sessions(watched: &Watched<'_>, accept: impl Fn(&Entry<'_>) -> bool) -> Ended {
    let at_work = account::at_work(watched);
    ended(watched, |of| at_work(of) && accept(of))
}

/// Without the time in which the waker did not have what is waited for.
fn in_hand(mut ended: Ended) -> Ended {
    ended.retain(|(label, _)| !Link::of(label).is_in_queue());
    ended
}

/// The part of the time in hand in which the waker was runnable without a CPU.
fn runnable_part(in_hand: &Ended) -> Option<f64> {
    let runnable_s: f64 = in_hand.iter().filter(|(label, _)| Link::of(label).did == RUNNABLE).map(|(_, s)| s).sum();
    let all_s = sum(in_hand);
    (all_s > 0.0).then(|| runnable_s / all_s)
}

fn sum(parts: &[(String, f64)]) -> f64 {
    parts.iter().map(|(_, s)| s).sum()
}

/// What a waker does meanwhile, in words.
fn doing(did: &str) -> String {
    match did {
        RUNNING => "run".to_owned(),
        RUNNABLE => "are runnable without a CPU".to_owned(),
        event => format!("wait for {event}"),
    }
}

/// Who ends the waits of sessions that are accepted, in sentences; `waiting_s` is the time of all of them, ended or not.
pub(crate) fn details(watched: &Watched<'_>, waiting_s: f64, accept: impl Fn(&Entry<'_>) -> bool) -> Vec<String> {
    if watched.by_label(ACCOUNT, ITEM).is_empty() {
        return Vec::new();
    }
    let ended = of_sessions(watched, accept);
    if sum(&ended) < NOTABLE * waiting_s {
        return vec!["Hardly any of these waits ended while it was watched.".to_owned()];
    }
    let ended = in_hand(ended);
    let all_s = sum(&ended);
    let wakers = grouped(&ended, |label| Link::of(label).waker);
    let Some((waker, of_waker_s)) = wakers.first() else { return Vec::new() };
    let share = words::percent(of_waker_s / all_s);
    if waker == INTERRUPT {
        return vec![format!("Timers or devices end {share} of these waits.")];
    }
    let of_waker: Vec<(String, f64)> =
        ended.iter().filter(|(label, _)| Link::of(label).waker == waker).cloned().collect();
    let did = grouped(&of_waker, |label| Link::of(label).did);
    let meanwhile = did.iter().take(3).filter(|(did, s)| !did.is_empty() && *s > 0.01 * of_waker_s);
    let meanwhile: Vec<String> =
        meanwhile.map(|(did, s)| format!("{} ({})", doing(did), words::percent(s / of_waker_s))).collect();
    let waker = account::plural(waker);
    let mut details = vec![match meanwhile.as_slice() {
        [] => format!("{waker} end {share} of these waits."),
        some => format!("{waker} end {share} of these waits; meanwhile they {}.", words::list(some)),
    }];
    details.extend(chain(watched, ended));
    details
}

/// The chain of waits from those of the sessions on: each is ended by a task that itself waits for most of the time.
fn chain(watched: &Watched<'_>, mut links: Ended) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut text = Vec::new();
    while text.len() < LINKS {
        let most = grouped(&links, |label| label.splitn(4, " | ").nth(3).unwrap_or_default()).into_iter().next();
        let Some((most, s)) = most.filter(|(_, s)| *s >= MOST * sum(&links)) else { break };
        let (waker, did) = most.split_once(" | ").unwrap_or_default();
        if matches!(did, "" | RUNNING | RUNNABLE) || seen.contains(&most) || s == 0.0 {
            break;
        }
        text.push(format!("{waker} in {did}"));
        links = in_hand(ended(watched, |of| of.kind == waker && of.waits_for == did));
        seen.push(most);
    }
    (text.len() > 1).then(|| format!("The chain: {}.", text.join(", which waits for ")))
}

/// The part of the time of waits that ended in which the task that ended them was runnable without a CPU.
pub(crate) fn without_cpu(watched: &Watched<'_>, accept: impl Fn(&Entry<'_>) -> bool) -> Option<f64> {
    runnable_part(&in_hand(of_sessions(watched, accept)))
}

/// The part of the time of sessions at work in which they sleep and what they wait for is in the hands of a task that is
/// runnable without a CPU. Who holds it in sleeps that did not end is not known: they count as none.
pub(crate) fn scheduler_share(watched: &Watched<'_>) -> Option<f64> {
    let (_, all_s) = account::pieces(watched, |_| true).ok()?.sums();
    let mut of_waits: BTreeMap<String, Ended> = BTreeMap::new();
    for (label, s) in of_sessions(watched, |_| true) {
        of_waits.entry(Entry::of(&label).waits_for.to_owned()).or_default().push((label, s));
    }
    let through_s = of_waits.into_values().map(|ended| sum(&ended) * runnable_part(&in_hand(ended)).unwrap_or(0.0));
    (all_s > 0.0).then(|| through_s.sum::<f64>() / all_s)
}
