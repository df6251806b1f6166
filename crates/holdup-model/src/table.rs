//! A bundle as tables for other programs: which there are, and one of them as columns.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The list that the Python package reads too, so that both have the same columns; a link, so that it is in the published crate.
const KINDS: &str = include_str!("kinds.json");

/// A kind of table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableKind {
    /// Its name: `trials`.
    pub name: String,
    /// Its columns, in order, without those of levels and metrics.
    pub columns: Vec<ColumnKind>,
    /// What it is read with; `None` for one that analysis computes.
    pub query: Option<String>,
    /// The schema version of bundles that brought it.
    pub since: u32,
    /// True if the levels of the arm are columns too.
    pub has_levels: bool,
}

/// A column without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnKind {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: ValueKind,
    /// True if a value may be missing.
    pub is_nullable: bool,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Signed, of 64 bits.
    Integer,
    /// Of 64 bits.
    Float,
    /// UTF-8.
    Text,
    /// True or false.
    Boolean,
}

/// The values of a column; `None` where one is missing.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Of a column of integers.
    Integer(Vec<Option<i64>>),
    /// Of a column of floats.
    Float(Vec<Option<f64>>),
    /// Of a column of texts.
    Text(Vec<Option<String>>),
    /// Of a column of booleans.
    Boolean(Vec<Option<bool>>),
}

/// A value on its way into a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Not there.
    Missing,
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A text.
    Text(String),
    /// True or false.
    Boolean(bool),
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// What it is.
    pub kind: ColumnKind,
    /// Its values, one for each row.
    pub values: Values,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The name of its kind.
    pub name: String,
    /// Its columns, all of one length.
    pub columns: Vec<Column>,
    /// How many rows it has.
    pub rows: usize,
}

impl ColumnKind {
    /// A column of this name.
    pub fn new(name: impl Into<String>, kind: ValueKind, is_nullable: bool) -> Self {
        ColumnKind { name: name.into(), kind, is_nullable }
    }

    /// From `name:type`, the type being `i`, `f`, `s` or `b`, with a question mark where a value may be missing.
    fn parse(text: &str) -> Option<Self> {
        let (name, kind) = text.split_once(':')?;
        let bare = kind.trim_end_matches('?');
        let of = match bare {
            "i" => ValueKind::Integer,
            "f" => ValueKind::Float,
            "s" => ValueKind::Text,
            "b" => ValueKind::Boolean,
            _ => return None,
        };
        Some(ColumnKind::new(name, of, bare != kind))
    }
}

impl Column {
    /// A column without values.
    pub fn new(kind: ColumnKind) -> Self {
        let values = match kind.kind {
            ValueKind::Integer => Values::Integer(Vec::new()),
            ValueKind::Float => Values::Float(Vec::new()),
            ValueKind::Text => Values::Text(Vec::new()),
            ValueKind::Boolean => Values::Boolean(Vec::new()),
        };
        Column { kind, values }
    }

    /// Adds a value.
    ///
    /// # Errors
    /// The value, when it is of another type, or missing where none may be.
    pub fn push(&mut self, cell: Cell) -> Result<(), Cell> {
        match (&mut self.values, cell) {
            (_, Cell::Missing) if !self.kind.is_nullable => return Err(Cell::Missing),
            (Values::Integer(all), Cell::Missing) => all.push(None),
            (Values::Float(all), Cell::Missing) => all.push(None),
            (Values::Text(all), Cell::Missing) => all.push(None),
            (Values::Boolean(all), Cell::Missing) => all.push(None),
            (Values::Integer(all), Cell::Integer(value)) => all.push(Some(value)),
            (Values::Float(all), Cell::Float(value)) => all.push(Some(value)),
            (Values::Text(all), Cell::Text(value)) => all.push(Some(value)),
            (Values::Boolean(all), Cell::Boolean(value)) => all.push(Some(value)),
            // SQLite has no booleans.
            (Values::Boolean(all), Cell::Integer(value)) => all.push(Some(value != 0)),
            (_, other) => return Err(other),
        }
        Ok(())
    }
}

impl Table {
    /// A table of these columns without rows.
    pub fn new(name: &str, columns: Vec<ColumnKind>) -> Self {
        Table { name: name.to_owned(), columns: columns.into_iter().map(Column::new).collect(), rows: 0 }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The name of the column whose value does not fit.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) -> Result<(), String> {
        let mut cells = cells.into_iter();
        for column in &mut self.columns {
            let cell = cells.next().unwrap_or(Cell::Missing);
            column.push(cell).map_err(|_| column.kind.name.clone())?;
        }
        self.rows += 1;
        Ok(())
    }
}

#[derive(Deserialize)]
struct Listed {
    columns: Vec<String>,
    #[serde(default)]
    query: Vec<String>,
    #[serde(default)]
    since: Option<u32>,
    #[serde(default)]
    has_levels: bool,
}

/// Every kind of table, by name.
pub fn kinds() -> BTreeMap<String, TableKind> {
    let listed: BTreeMap<String, Listed> = serde_json::from_str(KINDS).expect("the list is a part of the program");
    listed
        .into_iter()
        .map(|(name, listed)| {
            let columns = listed.columns.join(" ");
            let columns = columns.split(' ').map(|c| ColumnKind::parse(c).expect("a column has a name and a type"));
            let kind = TableKind {
                columns: columns.collect(),
                query: (!listed.query.is_empty()).then(|| listed.query.join(" ")),
                since: listed.since.unwrap_or(1),
                has_levels: listed.has_levels,
                name: name.clone(),
            };
            (name, kind)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_columns_of_different_names() {
        let kinds = kinds();
        assert_eq!(kinds.values().filter(|k| k.query.is_none()).count(), 3);
        for kind in kinds.values() {
            let names: std::collections::BTreeSet<&str> = kind.columns.iter().map(|c| c.name.as_str()).collect();
            assert_eq!(names.len(), kind.columns.len(), "{}", kind.name);
        }
        assert!(kinds["trials"].has_levels);
        assert_eq!(kinds["captures"].since, 3);
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let mut table = Table::new(
            "t",
            vec![
                ColumnKind::new("whole", ValueKind::Integer, false),
                ColumnKind::new("flag", ValueKind::Boolean, true),
            ],
        );
        table.push([Cell::Integer(1), Cell::Integer(2)]).unwrap();
        assert_eq!(table.push([Cell::Missing, Cell::Missing]), Err("whole".to_owned()));
        assert_eq!(table.columns[1].values, Values::Boolean(vec![Some(true)]));
        assert_eq!(table.rows, 1);
    }
}
