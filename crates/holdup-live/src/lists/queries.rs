//! Which queries sessions execute.

use super::tasks::stack_lines;
use super::{CellKind, List, Row, column, grouped, lines, sums};
use crate::stacks;
use holdup_model::{BundleData, Trial};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const LIST: List = List {
    title: "Queries",
    columns: &[
        column("query id", CellKind::Text),
        column("sessions", CellKind::Tasks),
        column("not waiting", CellKind::Tasks),
    ],
    empty: "no query was seen: it takes --pg URL, and query ids compute_query_id = on",
    rows,
    more: Some(more),
    has_stacks: true,
};

fn of(label: &str) -> (&str, &str) {
    label.split_once(" | ").unwrap_or((label, ""))
}

fn rows(bundle: &BundleData) -> Vec<Row> {
    let windows = bundle.trials.len().max(1) as f64;
    let all = sums(bundle, "queries", "sessions_in_query");
    let running = grouped(&all, |label| (of(label).1 == "CPU").then(|| of(label).0.to_owned()));
    let all = grouped(&all, |label| Some(of(label).0.to_owned()));
    let row = |(name, sessions): (String, f64)| {
        let running = running.get(&name).copied().unwrap_or(0.0);
        Row::new(name, vec![Some(sessions / windows), Some(running / windows)])
    };
    all.into_iter().map(row).collect()
}

fn more(bundle: &BundleData, name: &str) -> Vec<String> {
    let waits = grouped(&sums(bundle, "queries", "sessions_in_query"), |label| {
        (of(label).0 == name)
            .then(|| if of(label).1 == "CPU" { "not waiting".to_owned() } else { of(label).1.to_owned() })
    });
    let title = format!("What sessions in query {name} wait for:");
    [vec![title], lines(waits, 14), stacks_of(bundle, name)].concat()
}

/// From this part of a session's time at work on, its stacks in a window are taken for those of the query.
const ALMOST_ALL: f64 = 0.9;

/// The stacks of sessions that executed hardly anything else in a window.
fn stacks_of(bundle: &BundleData, query: &str) -> Vec<String> {
    let windows: Vec<(BTreeSet<u32>, usize)> = bundle.trials.iter().map(|trial| sessions(trial, query)).collect();
    let (alone, all) = windows.iter().fold((0, 0), |(alone, all), (pids, of)| (alone + pids.len(), all + of));
    if all > 0 && alone == 0 {
        return vec![
            "Sessions in it execute other queries too within a window, so no call stack is of it for certain."
                .to_owned(),
            "Those of a session are in the list of tasks.".to_owned(),
        ];
    }
    let mut lines = stack_lines(bundle, false, |at, stack| {
        stacks::tid(stack).is_some_and(|pid| windows.get(at).is_some_and(|(pids, _)| pids.contains(&pid)))
    });
    if all > alone {
        lines.insert(0, format!("Of sessions that execute nothing else in a window, which are {alone} of {all}:"));
    }
    lines
}

/// The sessions that executed this query in a window and hardly anything else; and how many executed it at all.
fn sessions(trial: &Trial, query: &str) -> (BTreeSet<u32>, usize) {
    let mut work: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    let items = trial.evidence.iter().filter(|c| c.collector == "queries").flat_map(|c| &c.items);
    for item in items.filter(|item| item.name == "session_in_query") {
        let (Some((pid, of)), Some(part)) =
            (item.label.as_deref().and_then(|l| l.split_once(" | ")), item.value.value())
        else {
            continue;
        };
        let Ok(pid) = pid.parse() else { continue };
        let (own, all) = work.entry(pid).or_default();
        *all += part;
        *own += if of == query { part } else { 0.0 };
    }
    work.retain(|_, (own, _)| *own > 0.0);
    let all = work.len();
    work.retain(|_, (own, all)| *own >= ALMOST_ALL * *all);
    (work.into_keys().collect(), all)
}
