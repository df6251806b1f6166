//! The schema as data: what `docs/bundle.md` is made from, and what a reader expects to find.

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, unit last.
    pub name: String,
    /// Its type in SQL.
    pub kind: String,
    /// True if it may be NULL.
    pub nullable: bool,
    /// What it holds.
    pub text: String,
}

/// A table of the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    /// The schema version that brought it.
    pub since: u32,
    /// What a row is.
    pub text: String,
    pub columns: Vec<Column>,
}

/// The tables of the schema, in order, with the comments of the SQL.
///
/// The SQL is written for this: one column a line, its comment at the end of the line, the table's comment first.
pub fn tables() -> Vec<Table> {
    crate::SCHEMA.iter().zip(1..).flat_map(|(sql, since)| tables_of(sql, since)).collect()
}

fn tables_of(sql: &str, since: u32) -> Vec<Table> {
    let mut found: Vec<Table> = Vec::new();
    let mut inside = false;
    for line in sql.lines() {
        if let Some(name) = line.strip_prefix("CREATE TABLE ") {
            let name = name.trim_end_matches(" (").to_owned();
            found.push(Table { name, since, text: String::new(), columns: Vec::new() });
            inside = true;
        } else if line.starts_with(')') {
            inside = false;
        } else if inside && let Some(table) = found.last_mut() {
            let line = line.trim();
            if let Some(text) = line.strip_prefix("-- ") {
                table.text = text.to_owned();
            } else if let Some((definition, text)) = line.split_once("-- ") {
                table.columns.extend(column(definition, text));
            }
        }
    }
    found
}

fn column(definition: &str, text: &str) -> Option<Column> {
    let mut words = definition.split_whitespace();
    let (name, kind) = (words.next()?, words.next()?.trim_end_matches(','));
    let nullable = !definition.contains("NOT NULL") && !definition.contains("PRIMARY KEY");
    Some(Column { name: name.to_owned(), kind: kind.to_owned(), nullable, text: text.to_owned() })
}
