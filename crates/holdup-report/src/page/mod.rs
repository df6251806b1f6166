//! What stands on the page: charts with the tables of their numbers, evidence, sections of text.

pub(crate) mod account;
pub(crate) mod charts;
pub(crate) mod distributions;
pub(crate) mod evidence;
pub(crate) mod flames;
pub(crate) mod glance;
pub(crate) mod holders;
pub(crate) mod latency;
pub(crate) mod order;
pub(crate) mod policy;
pub(crate) mod sections;
pub(crate) mod timelines;

use serde_json::Value;

/// A table of texts.
#[derive(Default, Clone)]
pub(crate) struct Table {
    /// The heads of its columns, and whether a column holds numbers, which are set to the right.
    pub(crate) head: Vec<(String, bool)>,
    pub(crate) rows: Vec<Row>,
}

/// A row of a table.
#[derive(Default, Clone)]
pub(crate) struct Row {
    /// The anchor that links lead to; empty for none.
    pub(crate) id: String,
    /// True if it does not count.
    pub(crate) void: bool,
    pub(crate) cells: Vec<String>,
}

impl Table {
    /// A table with a first column of words and further columns of numbers.
    pub(crate) fn numbers(first: impl Into<String>, others: impl IntoIterator<Item = String>) -> Self {
        let mut head = vec![(first.into(), false)];
        head.extend(others.into_iter().map(|h| (h, true)));
        Table { head, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row { cells, ..Row::default() });
    }

    /// True if a cell of a column is a number.
    pub(crate) fn is_number(&self, column: &usize) -> bool {
        self.head.get(*column).is_some_and(|(_, number)| *number)
    }
}

/// A chart: what the script draws, and the same numbers as a table.
#[derive(Clone)]
pub struct Chart {
    /// Unique on the page.
    pub id: String,
    /// What the script draws it as.
    pub kind: &'static str,
    /// A sentence or half of one: what is shown.
    pub title: String,
    /// The workload, where the title does not name it; a saved file has no page around it that would.
    pub context: String,
    /// How to read it.
    pub note: String,
    /// What is drawn; `web/src/data.ts` has its type by kind.
    pub data: Value,
    pub(crate) table: Table,
}

/// A number for the script: seven significant digits keep the page small and are more than a screen can show.
pub(crate) fn short(x: f64) -> Value {
    if !x.is_finite() {
        return Value::Null;
    }
    format!("{x:.6e}").parse::<f64>().map_or(Value::Null, Value::from)
}

/// The ns in one of a unit of time; `None` for other units.
pub(crate) fn ns_per(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        "us" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    }
}
