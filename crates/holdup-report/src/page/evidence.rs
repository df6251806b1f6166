//! What the collectors saw: for each cell a table with an arm in each column.

use crate::series::{BASELINE, Layout, Names, Placed};
use crate::text::{self, clean};
use holdup_model::outcome::ArmEvidence;

/// The evidence of the arms of one cell.
pub(crate) struct Evidence {
    pub(crate) cell: String,
    pub(crate) heads: Vec<String>,
    pub(crate) groups: Vec<Group>,
    /// Items that are zero in all arms, which would only make the table long.
    pub(crate) zeros: Vec<String>,
}

/// The items of one collector.
pub(crate) struct Group {
    pub(crate) collector: String,
    pub(crate) items: Vec<Item>,
}

/// One item: a cell for each arm with the number and its ratio to the baseline.
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) cells: Vec<(String, String)>,
}

/// One table for each cell of a workload that has evidence.
pub(crate) fn tables(layout: &Layout<'_>, names: &Names) -> Vec<Evidence> {
    layout.cells().into_iter().filter_map(|cell| table(layout, names, cell)).collect()
}

fn key(e: &ArmEvidence) -> (&str, &str, Option<&str>, &str) {
    (&e.collector, &e.name, e.label.as_deref(), &e.unit)
}

fn table(layout: &Layout<'_>, names: &Names, cell: (usize, Option<usize>)) -> Option<Evidence> {
    let arms: Vec<Placed<'_>> = layout.at(cell);
    let listed = |e: &&ArmEvidence| !super::holders::IN_A_MATRIX.contains(&e.name.as_str());
    let of = |p: &Placed<'_>| {
        let all = p.summary.map(|s| s.evidence.as_slice()).unwrap_or_default();
        all.iter().filter(listed).cloned().collect()
    };
    let columns: Vec<Vec<ArmEvidence>> = arms.iter().map(of).collect();
    let baseline = arms.iter().position(|p| names.0[p.series].text == BASELINE);
    let mut keys: Vec<_> = columns.iter().flatten().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut groups: Vec<Group> = Vec::new();
    let mut zeros = Vec::new();
    for k in keys {
        let found: Vec<Option<&ArmEvidence>> = columns.iter().map(|all| all.iter().find(|e| key(e) == k)).collect();
        let name = clean(&k.2.map_or_else(|| k.1.to_owned(), |label| format!("{} {label}", k.1)));
        if found.iter().flatten().all(|e| e.mean == Some(0.0)) {
            zeros.push(name);
            continue;
        }
        let base = baseline.and_then(|b| found[b]).and_then(|e| e.mean);
        let cells = found.iter().enumerate().map(|(i, e)| one(*e, if Some(i) == baseline { None } else { base }));
        let item = Item { name: format!("{name}{}", unit(k.1, k.3)), cells: cells.collect() };
        match groups.last_mut() {
            Some(group) if group.collector == k.0 => group.items.push(item),
            _ => groups.push(Group { collector: clean(k.0), items: vec![item] }),
        }
    }
    let heads = arms.iter().map(|p| names.0[p.series].text.clone()).collect();
    (!groups.is_empty() || !zeros.is_empty()).then(|| Evidence { cell: layout.cell_name(cell), heads, groups, zeros })
}

/// The unit where the name does not end in it. Shares are shown as percent.
fn unit(name: &str, unit: &str) -> String {
    if unit == "share" || unit.is_empty() || name.ends_with(&format!("_{unit}")) {
        String::new()
    } else {
        format!(" ({})", clean(unit))
    }
}

fn one(e: Option<&ArmEvidence>, baseline: Option<f64>) -> (String, String) {
    let Some(e) = e else { return ("–".to_owned(), String::new()) };
    let Some(mean) = e.mean else {
        let why = e.absent.as_deref().unwrap_or("no reason was recorded");
        return (format!("– ({})", clean(why)), String::new());
    };
    let shown = if e.unit == "share" { text::tenths(mean) } else { text::number(mean) };
    let ratio = baseline.filter(|b| *b > 0.0 && mean > 0.0).map(|b| times(mean / b)).unwrap_or_default();
    (shown, ratio)
}

/// A ratio in short; it carries no interval and is here to find what stands out.
fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => ">×100".to_owned(),
        r if r >= 10.0 => format!("×{r:.0}"),
        r if r >= 0.1 => format!("×{r:.2}"),
        r if r >= 0.01 => format!("×{r:.3}"),
        _ => "<×0.01".to_owned(),
    }
}
