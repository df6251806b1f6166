//! A bundle's rows as tables for other programs.

use crate::gather;
use crate::open::{self, Opened};
use crate::parts::too_large;
use crate::trouble;
use holdup_model::table::{Cell, ColumnKind, Table, TableKind, ValueKind};
use holdup_model::{BundleData, MemoryBudget, Problem};
use rusqlite::types::ValueRef;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A bundle of which tables are made.
pub struct Rows {
    path: PathBuf,
    opened: Opened,
    data: BundleData,
    budget: MemoryBudget,
}

/// The levels of arms: a column for each axis and factor.
struct Levels {
    /// The name of each, with its column.
    columns: Vec<(String, ColumnKind)>,
    values: BTreeMap<(i64, String), Cell>,
}

impl Rows {
    /// Opens a bundle and reads all of it but the events of timelines.
    ///
    /// # Errors
    /// As [`crate::read_without_events`].
    pub fn open(path: &Path, budget: &MemoryBudget) -> Result<Self, Problem> {
        let opened = open::to_read(path, false)?;
        let data = gather::undamaged(path, &opened, &gather::ReadOptions::without_events(budget))?;
        Ok(Rows { path: path.to_owned(), opened, data, budget: budget.clone() })
    }

    pub fn data(&self) -> &BundleData {
        &self.data
    }

    /// A table of a kind that has a query; without rows where the bundle is older than the kind.
    ///
    /// # Errors
    /// When a value is not of its column's type, or the table takes more memory than the budget has left.
    pub fn table(&self, kind: &TableKind) -> Result<Table, Problem> {
        let budget = self.budget.rest();
        let read = self.read(kind, &budget);
        if let Some(refused) = budget.exceeded() {
            return Err(refused.of(trouble::bundle(&self.path)));
        }
        read.map_err(|e| trouble::reading(&self.path, &e))?
            .map_err(|column| trouble::damaged(&self.path, format!("{}: {column} is of another type", kind.name)))
    }

    fn read(&self, kind: &TableKind, budget: &MemoryBudget) -> rusqlite::Result<Result<Table, String>> {
        let names: BTreeSet<String> = kind.columns.iter().map(|c| c.name.clone()).collect();
        let levels = if kind.has_levels { self.levels(&names)? } else { Levels::none() };
        let metrics = if kind.name == "trials" { self.metrics()? } else { Vec::new() };
        let mut columns = kind.columns.clone();
        columns.extend(levels.columns.iter().map(|(_, column)| column.clone()));
        let taken: BTreeSet<String> = columns.iter().map(|c| c.name.clone()).collect();
        columns
            .extend(metrics.iter().map(|(m, _)| ColumnKind::new(apart("metric", m, &taken), ValueKind::Float, true)));
        let mut table = Table::new(&kind.name, columns);
        let Some(query) = kind.query.as_ref().filter(|_| kind.since <= self.opened.version) else {
            return Ok(Ok(table));
        };
        let place = |name: &str| kind.columns.iter().position(|c| c.name == name);
        let (arm, trial) = (place("arm"), place("trial"));
        let mut statement = self.opened.db.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let mut cells = Vec::with_capacity(table.columns.len());
            for at in 0..kind.columns.len() {
                cells.push(cell(row.get_ref(at)?));
            }
            let number = |at: Option<usize>| match at.and_then(|at| cells.get(at)) {
                Some(Cell::Integer(number)) => *number,
                _ => -1,
            };
            let (arm, trial) = (number(arm), number(trial));
            let of_arm = |(name, _): &(String, ColumnKind)| levels.values.get(&(arm, name.clone())).cloned();
            cells.extend(levels.columns.iter().map(|column| of_arm(column).unwrap_or(Cell::Missing)));
            cells.extend(
                metrics.iter().map(|(_, values)| values.get(&trial).map_or(Cell::Missing, |v| Cell::Float(*v))),
            );
            // Tables become files in memory, in two steps.
            let bytes = |cell: &Cell| match cell {
                Cell::Text(text) => size_of::<Cell>() + 3 * text.len(),
                _ => size_of::<Cell>() + 2 * size_of::<i64>(),
            };
            budget.take(cells.iter().map(bytes).sum::<usize>() as u64).map_err(too_large)?;
            if let Err(column) = table.push(cells) {
                return Ok(Err(column));
            }
        }
        Ok(Ok(table))
    }

    fn levels(&self, taken: &BTreeSet<String>) -> rusqlite::Result<Levels> {
        let db = &self.opened.db;
        let mut kinds: Vec<(String, BTreeSet<String>)> = Vec::new();
        let mut statement = db.prepare("SELECT DISTINCT name, type FROM levels ORDER BY role, name")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
            match kinds.iter_mut().find(|(known, _)| *known == name) {
                Some((_, found)) => drop(found.insert(kind)),
                None => kinds.push((name, BTreeSet::from([kind]))),
            }
        }
        // One of several types is shown by its labels.
        let kind = |found: &BTreeSet<String>| match found.iter().next().map(String::as_str) {
            Some("bool") if found.len() == 1 => (ValueKind::Boolean, true),
            Some("integer") if found.len() == 1 => (ValueKind::Integer, true),
            Some("float") if found.len() == 1 => (ValueKind::Float, true),
            _ => (ValueKind::Text, found.len() == 1),
        };
        let mut values = BTreeMap::new();
        let mut statement = db.prepare("SELECT arm, name, value, label FROM levels")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(1)?;
            let is_single = kinds.iter().any(|(known, found)| *known == name && kind(found).1);
            values.insert((row.get(0)?, name), cell(row.get_ref(if is_single { 2 } else { 3 })?));
        }
        let columns = kinds
            .iter()
            .map(|(name, found)| (name.clone(), ColumnKind::new(apart("level", name, taken), kind(found).0, true)));
        Ok(Levels { columns: columns.collect(), values })
    }

    /// The metrics in the order in which they come, with their values by trial.
    fn metrics(&self) -> rusqlite::Result<Vec<(String, BTreeMap<i64, f64>)>> {
        let mut metrics: Vec<(String, BTreeMap<i64, f64>)> = Vec::new();
        let query = "SELECT trial, metric, value FROM measurements ORDER BY trial, position";
        let mut statement = self.opened.db.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (trial, metric, value): (i64, String, Option<f64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let at = metrics.iter().position(|(known, _)| *known == metric).unwrap_or_else(|| {
                metrics.push((metric, BTreeMap::new()));
                metrics.len() - 1
            });
            if let Some(value) = value {
                metrics[at].1.insert(trial, value);
            }
        }
        Ok(metrics)
    }
}

impl Levels {
    fn none() -> Self {
        Levels { columns: Vec::new(), values: BTreeMap::new() }
    }
}

/// The column of a level or a metric: its name, with what it is before it where another column has the name.
fn apart(what: &str, name: &str, taken: &BTreeSet<String>) -> String {
    if taken.contains(name) { format!("{what}.{name}") } else { name.to_owned() }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Missing,
        ValueRef::Integer(value) => Cell::Integer(value),
        ValueRef::Real(value) => Cell::Float(value),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}
