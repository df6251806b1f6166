//! Who blocks whom, by heavyweight locks.

use super::{CellKind, List, Row, column, lines, sums};
use holdup_model::BundleData;

pub(super) const LIST: List = List {
    title: "Blockers",
    columns: &[
        column("blocking session, and what it is in", CellKind::Text),
        column("sessions behind it", CellKind::Tasks),
        column("its transaction", CellKind::Time),
    ],
    empty: "no session waits behind another one's lock; with --pg URL they are named",
    rows,
    more: Some(more),
    has_stacks: false,
};

fn rows(bundle: &BundleData) -> Vec<Row> {
    let windows = bundle.trials.len().max(1) as f64;
    let ages = longest(bundle);
    let row = |(name, sessions): (String, f64)| {
        let age = ages.iter().filter(|(label, _)| *label == name).map(|(_, s)| *s).reduce(f64::max);
        Row::new(name, vec![Some(sessions / windows), age])
    };
    sums(bundle, "blockers", "blocked_sessions").into_iter().map(row).collect()
}

/// The ages of transactions, each time that they were seen.
fn longest(bundle: &BundleData) -> Vec<(String, f64)> {
    let collected = bundle.trials.iter().flat_map(|t| &t.evidence).filter(|c| c.collector == "blockers");
    let items = collected.flat_map(|c| &c.items).filter(|i| i.name == "blocker_transaction_s");
    items.filter_map(|i| Some((i.label.clone()?, i.value.value()?))).collect()
}

fn more(bundle: &BundleData, _name: &str) -> Vec<String> {
    let on = lines(sums(bundle, "blockers", "blocked_on"), 14);
    [vec!["What all blocked sessions wait for:".to_owned()], on].concat()
}
