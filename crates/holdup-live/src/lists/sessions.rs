//! Processes by what they are and what they do.

use super::{CellKind, List, Row, column, grouped, length_s, lines, sums};
use crate::families::parts;
use holdup_model::BundleData;

pub(super) const LIST: List = List {
    title: "Processes",
    columns: &[
        column("kind of process", CellKind::Text),
        column("on a CPU", CellKind::Tasks),
        column("without CPU", CellKind::Tasks),
        column("asleep", CellKind::Tasks),
        column("all", CellKind::Tasks),
    ],
    empty: "there is no account of time (it takes root)",
    rows,
    more: Some(more),
};

fn rows(bundle: &BundleData) -> Vec<Row> {
    let account = sums(bundle, "account", "account_s");
    let all_s = length_s(bundle);
    let kinds = grouped(&account, |label| label.split(" | ").next().map(str::to_owned));
    let of = |kind: &str, accept: fn(&str) -> bool| -> f64 {
        let own = account.iter().filter(|(label, _)| {
            let [of, state, _] = parts(label, " | ");
            of == kind && accept(state)
        });
        own.map(|(_, s)| s / all_s).sum()
    };
    kinds
        .into_keys()
        .map(|name| {
            let on = of(&name, |state| state == "on CPU");
            let asleep = of(&name, |state| matches!(state, "asleep" | "blocked"));
            let all = of(&name, |_| true);
            Row { numbers: vec![Some(on), Some(all - on - asleep), Some(asleep), Some(all)], name }
        })
        .collect()
}

fn more(bundle: &BundleData, name: &str) -> Vec<String> {
    let own = grouped(&sums(bundle, "account", "account_s"), |label| {
        let [kind, state, event] = parts(label, " | ");
        let event = if event.is_empty() { String::new() } else { format!(" in {event}") };
        (kind == name).then(|| format!("{state}{event}"))
    });
    [vec![format!("Where the time of {name} goes:")], lines(own, 14)].concat()
}
