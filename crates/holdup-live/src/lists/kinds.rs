//! Processes by what they are and what they do.

use super::{CellKind, List, Row, column, grouped, length_s, lines, sums};
use holdup_analysis::account::{ACCOUNT, Entry, ITEM, is_asleep, is_on_cpu};
use holdup_model::BundleData;

pub(super) const LIST: List = List {
    title: "Kinds",
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
    has_stacks: false,
};

fn rows(bundle: &BundleData) -> Vec<Row> {
    let account = sums(bundle, ACCOUNT, ITEM);
    let all_s = length_s(bundle);
    let kinds = grouped(&account, |label| Some(Entry::of(label).kind.to_owned()));
    let of = |kind: &str, accept: fn(&Entry<'_>) -> bool| -> f64 {
        let entries = account.iter().map(|(label, s)| (Entry::of(label), s));
        let own = entries.filter(|(entry, _)| entry.kind == kind && accept(entry));
        own.map(|(_, s)| s / all_s).sum()
    };
    kinds
        .into_keys()
        .map(|name| {
            let on = of(&name, is_on_cpu);
            let asleep = of(&name, is_asleep);
            let all = of(&name, |_| true);
            Row::new(name, vec![Some(on), Some(all - on - asleep), Some(asleep), Some(all)])
        })
        .collect()
}

fn more(bundle: &BundleData, name: &str) -> Vec<String> {
    let own = grouped(&sums(bundle, ACCOUNT, ITEM), |label| {
        let entry = Entry::of(label);
        let event = if entry.waits_for.is_empty() { String::new() } else { format!(" in {}", entry.waits_for) };
        (entry.kind == name).then(|| format!("{}{event}", entry.state))
    });
    [vec![format!("Where the time of {name} goes:")], lines(own, 14)].concat()
}
