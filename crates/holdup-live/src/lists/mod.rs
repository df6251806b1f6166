//! Lists of what is in the last windows: one file each, and its line in [`ALL`].

mod blockers;
mod cpu;
mod groups;
mod kinds;
mod preemption;
mod queries;
mod run_queue;
mod tasks;
mod waits;

use holdup_analysis::account::{ACCOUNT, BACKEND, Entry, ITEM};
use holdup_model::{BundleData, Measured, SparseHistogram};
use std::collections::BTreeMap;

/// All lists, in the order of their keys.
pub static ALL: &[List] = &[
    waits::LIST,
    kinds::LIST,
    tasks::LIST,
    queries::LIST,
    blockers::LIST,
    preemption::LIST,
    run_queue::LIST,
    cpu::LIST,
    groups::LIST,
];

pub struct List {
    /// Its name on the screen.
    pub title: &'static str,
    /// Its columns; the first names the row.
    pub columns: &'static [Column],
    /// What it says where it has no row.
    pub empty: &'static str,
    /// Its rows, in windows of one arm; the order is that of the first column with numbers.
    pub(crate) rows: fn(&BundleData) -> Vec<Row>,
    /// More about a row, by its name.
    pub(crate) more: Option<fn(&BundleData, &str) -> Vec<String>>,
    /// True if that has call stacks of single tasks, which are collected only while they are looked at.
    pub has_stacks: bool,
}

/// A column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: CellKind,
}

/// What a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// Words.
    Text,
    /// A share of 1, and of what it is: the row's text.
    Named,
    /// A share of 1.
    Share,
    /// A number of tasks, on average.
    Tasks,
    /// A rate, 1/s.
    Rate,
    /// A time, s.
    Time,
}

/// A row: its name and its numbers, `None` where one is not known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// What the first column has.
    pub name: String,
    /// What the others have, in their order.
    pub numbers: Vec<Option<f64>>,
    /// What the number of a [`CellKind::Named`] column is of.
    pub text: String,
    /// True if it stands for all that have no row, and comes last in every order.
    pub is_rest: bool,
}

impl Row {
    fn new(name: String, numbers: Vec<Option<f64>>) -> Self {
        Row { name, numbers, ..Row::default() }
    }
}

impl List {
    /// Its rows in these windows by this column: names from a to z, the largest numbers first.
    pub fn rows(&self, bundle: &BundleData, by: usize) -> Vec<Row> {
        let mut rows = (self.rows)(bundle);
        let key = |row: &Row| row.numbers.get(by.wrapping_sub(1)).copied().flatten().unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|a, b| {
            let by_number = || key(b).total_cmp(&key(a));
            a.is_rest.cmp(&b.is_rest).then_with(by_number).then_with(|| a.name.cmp(&b.name))
        });
        rows
    }

    /// More about the row with this name, in lines; empty where there is no more.
    pub fn more(&self, bundle: &BundleData, name: &str) -> Vec<String> {
        self.more.map_or_else(Vec::new, |more| more(bundle, name))
    }
}

const fn column(name: &'static str, kind: CellKind) -> Column {
    Column { name, kind }
}

/// The length of all windows, s; never 0.
fn length_s(bundle: &BundleData) -> f64 {
    let windows = bundle.trials.iter().filter_map(|t| t.window);
    windows.map(|w| w.length_ns as f64 / 1e9).sum::<f64>().max(1e-9)
}

/// The sums of an item over all windows, by its label.
fn sums(bundle: &BundleData, collector: &str, item: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let collected = bundle.trials.iter().flat_map(|t| &t.evidence).filter(|c| c.collector == collector);
    for item in collected.flat_map(|c| &c.items).filter(|i| i.name == item) {
        if let Measured::Value(value) = item.value {
            *sums.entry(item.label.clone().unwrap_or_default()).or_insert(0.0) += value;
        }
    }
    sums
}

/// Sums by what `key` makes of a label; those that it leaves out are not in it.
fn grouped(of: &BTreeMap<String, f64>, key: impl Fn(&str) -> Option<String>) -> BTreeMap<String, f64> {
    let mut grouped = BTreeMap::new();
    for (label, value) in of {
        if let Some(key) = key(label) {
            *grouped.entry(key).or_insert(0.0) += value;
        }
    }
    grouped
}

/// The histograms of this name over all windows, by their labels.
fn histograms(bundle: &BundleData, collector: &str, name: &str) -> BTreeMap<String, SparseHistogram> {
    let mut sums: BTreeMap<String, SparseHistogram> = BTreeMap::new();
    let collected = bundle.trials.iter().flat_map(|t| &t.evidence).filter(|c| c.collector == collector);
    for histogram in collected.flat_map(|c| &c.histograms).filter(|h| h.name == name) {
        sums.entry(histogram.label.clone().unwrap_or_default()).or_default().add(&histogram.histogram);
    }
    sums
}

/// Where the account has sessions of PostgreSQL, those alone.
fn is_of_sessions(bundle: &BundleData) -> impl Fn(&str) -> bool + use<> {
    let is_backend = |label: &str| Entry::of(label).kind == BACKEND;
    let has_backends = sums(bundle, ACCOUNT, ITEM).keys().any(|label| is_backend(label));
    move |label: &str| !has_backends || is_backend(label)
}

/// Lines of parts of a whole, the largest first.
fn lines(parts: BTreeMap<String, f64>, most: usize) -> Vec<String> {
    let all: f64 = parts.values().sum();
    let mut parts: Vec<(String, f64)> = parts.into_iter().filter(|(_, n)| *n > 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts.into_iter().take(most).map(|(name, n)| format!("{:5.1} %  {name}", 100.0 * n / all)).collect()
}
