//! Which queries sessions execute.

use super::{CellKind, List, Row, column, grouped, lines, sums};
use holdup_model::BundleData;

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
        Row { numbers: vec![Some(sessions / windows), Some(running / windows)], name }
    };
    all.into_iter().map(row).collect()
}

fn more(bundle: &BundleData, name: &str) -> Vec<String> {
    let waits = grouped(&sums(bundle, "queries", "sessions_in_query"), |label| {
        (of(label).0 == name)
            .then(|| if of(label).1 == "CPU" { "not waiting".to_owned() } else { of(label).1.to_owned() })
    });
    [vec![format!("What sessions in query {name} wait for:")], lines(waits, 14)].concat()
}
