//! What sessions wait for.

use super::{CellKind, List, Row, column, grouped, is_of_sessions, length_s, lines, sums};
use crate::families::parts;
use holdup_analysis::account::{Entry, IDLE, is_asleep};
use holdup_model::BundleData;
use std::collections::BTreeMap;

pub(super) const LIST: List = List {
    title: "Waits",
    columns: &[
        column("wait event or system call", CellKind::Text),
        column("asleep", CellKind::Tasks),
        column("then without CPU", CellKind::Tasks),
        column("times", CellKind::Rate),
        column("each", CellKind::Time),
    ],
    empty: "no task sleeps, or there is no account of time (it takes root)",
    rows,
    more: Some(more),
    has_stacks: false,
};

fn waits_for(label: &str) -> Option<String> {
    let entry = Entry::of(label);
    // A session that waits for its client's next statement is not at work.
    let is_wait = is_asleep(&entry) && !entry.waits_for.is_empty() && entry.waits_for != IDLE;
    is_wait.then(|| entry.waits_for.to_owned())
}

fn rows(bundle: &BundleData) -> Vec<Row> {
    let of_sessions = is_of_sessions(bundle);
    let own = |of: BTreeMap<String, f64>| -> BTreeMap<String, f64> {
        of.into_iter().filter(|(label, _)| of_sessions(label)).collect()
    };
    let asleep = grouped(&own(sums(bundle, "account", "account_s")), waits_for);
    let times = grouped(&own(sums(bundle, "account", "account_times")), waits_for);
    let woken = own(sums(bundle, "account", "woken_wait_s"));
    let woken = grouped(&woken, |label| label.split_once(" | ").map(|(_, event)| event.to_owned()));
    let all_s = length_s(bundle);
    asleep
        .into_iter()
        .map(|(name, s)| {
            let n = times.get(&name).copied();
            let after = woken.get(&name).map(|s| s / all_s);
            Row::new(name, vec![Some(s / all_s), after, n.map(|n| n / all_s), n.map(|n| s / n.max(1.0))])
        })
        .collect()
}

/// Who ends these waits, and what they did meanwhile.
fn more(bundle: &BundleData, name: &str) -> Vec<String> {
    let by = grouped(&sums(bundle, "account", "woken_by_s"), |label| {
        let [_, _, event, waker, did] = parts(label, " | ");
        let did = if did.is_empty() { String::new() } else { format!(": {did}") };
        (event == name).then(|| format!("{waker}{did}"))
    });
    let lines = lines(by, 12);
    if lines.is_empty() {
        return vec!["Who ends these waits is not known.".to_owned()];
    }
    [vec!["Who ends these waits, and what it does meanwhile:".to_owned()], lines].concat()
}
