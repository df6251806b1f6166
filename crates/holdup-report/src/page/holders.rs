//! Who preempted whom, and what became of tasks inside critical sections.

use super::Table;
use crate::series::{Layout, Names, Placed};
use crate::text::{self, clean};
use holdup_model::outcome::ArmEvidence;
use std::collections::BTreeMap;

/// The most victims and the most preempters of a matrix; the others are added up.
const MOST: usize = 12;

/// What the rows and columns beyond [`MOST`] are added up as.
const OTHERS: &str = "others";

/// What stands where there is no number.
const NOTHING: &str = "–";

/// A table with what it is about.
pub(crate) struct Titled {
    pub(crate) title: String,
    pub(crate) table: Table,
}

/// Items that a matrix shows, so that no list has to.
pub(crate) const IN_A_MATRIX: [&str; 3] = ["preempted_by", "preempted_by_off_cpu_s", "holder_preempted_by"];

fn of<'a>(placed: &Placed<'a>, name: &'a str) -> impl Iterator<Item = (&'a ArmEvidence, f64)> {
    let all = placed.summary.map(|s| s.evidence.as_slice()).unwrap_or_default();
    all.iter().filter(move |e| e.name == name).filter_map(|e| e.mean.map(|mean| (e, mean)))
}

/// For each arm of a workload that has such evidence: preempted tasks by the task that ran next, and holders among them.
pub(crate) fn matrices(layout: &Layout<'_>, names: &Names) -> Vec<Titled> {
    let mut all = Vec::new();
    for (item, first, title) in [
        ("preempted_by", "preempted", "Who preempted whom"),
        ("holder_preempted_by", "section", "Who preempted the holder of a lock"),
    ] {
        for cell in layout.cells() {
            for placed in layout.at(cell) {
                if let Some((table, per_second)) = matrix(&placed, item, first) {
                    let arm = &names.0[placed.series].text;
                    let title = format!(
                        "{title}, {}, {arm}: shares of {} preemptions per second",
                        layout.cell_name(cell),
                        text::number(per_second)
                    );
                    all.push(Titled { title, table });
                }
            }
        }
    }
    all
}

/// The pairs of an item with labels `A < B`: a row for each A, a column for each B, and the rate of all together.
fn matrix(placed: &Placed<'_>, item: &str, first: &str) -> Option<(Table, f64)> {
    let pairs: Vec<(&str, &str, f64)> = of(placed, item)
        .filter_map(|(e, mean)| e.label.as_deref()?.split_once(" < ").map(|(a, b)| (a, b, mean)))
        .filter(|(_, _, mean)| *mean > 0.0)
        .collect();
    let total: f64 = pairs.iter().map(|p| p.2).sum();
    if pairs.is_empty() {
        return None;
    }
    let victims = heaviest(pairs.iter().map(|p| (p.0, p.2)));
    let preempters = heaviest(pairs.iter().map(|p| (p.1, p.2)));
    let mut cells: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (victim, preempter, mean) in &pairs {
        let known = |list: &[&'_ str], name: &str| list.contains(&name);
        let row = if known(&victims, victim) { victim } else { OTHERS };
        let column = if known(&preempters, preempter) { preempter } else { OTHERS };
        for key in [(row, column), (row, ""), ("", column)] {
            *cells.entry(key).or_default() += mean;
        }
    }
    let share = |row: &str, column: &str| cells.get(&(row, column)).map(|x| format!("{:.1} %", x / total * 100.0));
    let with_others = |list: &[&str], is_there: &dyn Fn(&str) -> bool| {
        let mut list: Vec<String> = list.iter().map(|n| (*n).to_owned()).collect();
        if is_there(OTHERS) && !list.iter().any(|n| n == OTHERS) {
            list.push(OTHERS.to_owned());
        }
        list
    };
    let rows = with_others(&victims, &|n| cells.contains_key(&(n, "")));
    let columns = with_others(&preempters, &|n| cells.contains_key(&("", n)));
    let heads = columns.iter().map(|c| format!("by {}", clean(c))).chain(["all".to_owned()]);
    let mut table = Table::numbers(first, heads);
    for row in &rows {
        let shares = columns.iter().map(|c| share(row, c).unwrap_or_else(|| "0".to_owned()));
        let all = share(row, "").unwrap_or_default();
        table.row(std::iter::once(clean(row)).chain(shares).chain([all]).collect());
    }
    let shares = columns.iter().map(|c| share("", c).unwrap_or_default());
    table.row(std::iter::once("all".to_owned()).chain(shares).chain(["100 %".to_owned()]).collect());
    Some((table, total))
}

/// The names with most, most first, at most [`MOST`].
fn heaviest<'a>(named: impl Iterator<Item = (&'a str, f64)>) -> Vec<&'a str> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    named.for_each(|(name, x)| *sums.entry(name).or_default() += x);
    let mut ranked: Vec<(&str, f64)> = sums.into_iter().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    ranked.into_iter().take(MOST).map(|(name, _)| name).collect()
}

/// Where a task that holds a lock, or waits for one, can be when it leaves the CPU.
const CONTEXTS: [&str; 4] = ["user boundary", "in a system call", "in a page fault", "sleeping"];

/// What became of tasks inside critical sections: a row for each section and arm.
pub(crate) fn sections(layout: &Layout<'_>, names: &Names) -> Vec<Titled> {
    layout
        .cells()
        .into_iter()
        .filter_map(|cell| {
            let head = ["arm", "samples holding", "samples waiting"].map(str::to_owned).into_iter();
            let contexts = |who: &'static str| CONTEXTS.iter().map(move |c| format!("{who} off, {c} (1/s)"));
            let head = head.chain(contexts("holder")).chain(["holder off the CPU (s per trial)".to_owned()]);
            let head = head.chain(contexts("waiter")).chain(["waited for meanwhile (s per trial)".to_owned()]);
            let mut table = Table::numbers("section", head);
            table.head[1].1 = false;
            for placed in layout.at(cell) {
                for section in section_names(&placed) {
                    table.row(section_row(&placed, &section, &names.0[placed.series].text));
                }
            }
            table.rows.sort_by(|a, b| a.cells[0].cmp(&b.cells[0]));
            drop_empty_columns(&mut table);
            let title = format!("Critical sections, {}", layout.cell_name(cell));
            (!table.rows.is_empty()).then_some(Titled { title, table })
        })
        .collect()
}

/// Takes out the columns that have no number in any row.
fn drop_empty_columns(table: &mut Table) {
    for column in (2..table.head.len()).rev() {
        if table.rows.iter().all(|r| r.cells[column] == NOTHING) {
            table.head.remove(column);
            table.rows.iter_mut().for_each(|r| drop(r.cells.remove(column)));
        }
    }
}

/// The sections that an arm's evidence speaks of, by name.
fn section_names(placed: &Placed<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for item in ["section_samples", "holder_switched_out", "waiter_switched_out"] {
        let labels = of(placed, item).filter_map(|(e, _)| e.label.as_deref()?.rsplit_once(": "));
        names.extend(labels.map(|(section, _)| section.to_owned()));
    }
    names.sort();
    names.dedup();
    names
}

fn section_row(placed: &Placed<'_>, section: &str, arm: &str) -> Vec<String> {
    let one = |item: &str, label: &str| {
        let all = placed.summary.map(|s| s.evidence.as_slice()).unwrap_or_default();
        all.iter().find(|e| e.name == item && e.label.as_deref() == Some(label)).and_then(|e| e.mean)
    };
    let shown = |x: Option<f64>| x.map_or_else(|| NOTHING.to_owned(), text::number);
    let samples: f64 = of(placed, "section_samples").map(|(_, mean)| mean).sum();
    let share = |who: &str| {
        let part = one("section_samples", &format!("{section}: {who}"));
        part.filter(|_| samples > 0.0).map_or_else(|| NOTHING.to_owned(), |x| format!("{:.2} %", x / samples * 100.0))
    };
    let at = |context: &str| format!("{section}: {context}");
    let off: Vec<f64> = CONTEXTS.iter().filter_map(|c| one("holder_off_cpu_s", &at(c))).collect();
    let off = (!off.is_empty()).then(|| off.iter().sum());
    let mut cells = vec![clean(section), arm.to_owned(), share("holder"), share("waiter")];
    cells.extend(CONTEXTS.iter().map(|c| shown(one("holder_switched_out", &at(c)))));
    cells.push(shown(off));
    cells.extend(CONTEXTS.iter().map(|c| shown(one("waiter_switched_out", &at(c)))));
    cells.push(shown(one("waiter_behind_off_cpu_holder_s", section)));
    cells
}
