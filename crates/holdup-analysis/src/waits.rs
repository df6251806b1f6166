//! What explanations by PostgreSQL's wait events have in common.

use crate::account::{self, Entry};
use crate::explanations::{Kind, blank, grouped, judge, share_in_words, split};
use crate::wakers;
use crate::watched::Watched;
use holdup_model::Meta;
use holdup_model::explanation::{Advice, Cause};
use holdup_model::outcome::FindingVerdict;

/// A group of wait events.
pub(crate) struct Waits {
    pub(crate) meta: &'static Meta,
    /// In sentences: `heavyweight locks`.
    pub(crate) name: &'static str,
    /// By the name of a wait event.
    pub(crate) accept: fn(&str) -> bool,
    /// What the sentence begins with, by the event with most of the time.
    pub(crate) subject: fn(&str) -> &'static str,
    pub(crate) advice: fn(&str) -> Vec<Advice>,
}

/// True if a wait event is of a type, named or not: extensions number theirs when they are loaded, and a version that is not
/// known has numbers only.
pub(crate) fn is_of_type(event: &str, of: &str) -> bool {
    event.strip_prefix(of).is_some_and(|rest| rest.starts_with(':') || rest.starts_with(" number "))
}

/// A cause that only the account shows, without one: it was not looked for.
pub(crate) fn skipped(kind: &Kind) -> Cause {
    Cause { verdict: FindingVerdict::Skipped, ..blank(kind) }
}

/// Judges a group of wait events by its share of the time of sessions at work.
pub(crate) fn explain(waits: &Waits, watched: &Watched<'_>) -> Cause {
    let kind = Kind { meta: waits.meta, name: waits.name, of: account::OF, minimum: 0.05 };
    if !account::has_backends(watched) {
        return skipped(&kind);
    }
    let accept = |entry: &Entry<'_>| (waits.accept)(entry.waits_for);
    let mut cause = judge(&kind, watched, account::pieces(watched, accept));
    cause.evidence = watched.present(&[(account::ACCOUNT, "account_s"), (account::ACCOUNT, "woken_by_s")]);
    let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) else { return cause };
    let events = account::by_wait(watched, accept);
    let most = events.first().map_or("", |(event, _)| event.as_str());
    let on = match events.as_slice() {
        [(only, _)] => only.clone(),
        all => split(all, 3).unwrap_or_default(),
    };
    cause.sentence =
        format!("{}: sessions spend {} of their time waiting ({on}).", (waits.subject)(most), share_in_words(share));
    let waiting_s: f64 = events.iter().map(|(_, s)| s).sum();
    cause.details.extend(wakers::details(watched, waiting_s, accept));
    cause.details.extend(queries(watched, waits.accept));
    cause.advice = (waits.advice)(most);
    cause
}

const QUERIES: &str = "queries";

/// Which queries are in such waits, where the server was asked.
fn queries(watched: &Watched<'_>, accept: fn(&str) -> bool) -> Option<String> {
    let mut all = watched.by_label(QUERIES, "sessions_in_query");
    all.retain(|(label, _)| label.split_once(" | ").is_some_and(|(_, event)| accept(event)));
    let by_id = grouped(&all, |label| label.split(" | ").next().unwrap_or_default());
    match by_id.first()?.0.as_str() {
        "no id" => Some("Which queries wait is not known: compute_query_id = on, or pg_stat_statements.".to_owned()),
        id => Some(format!(
            "By query id: {}. SELECT query FROM pg_stat_statements WHERE queryid = {id} has the text.",
            split(&by_id, 3)?
        )),
    }
}
