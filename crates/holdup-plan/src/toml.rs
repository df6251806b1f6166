//! A draft as TOML, for plans that were made on the command line.

use crate::draft::Draft;
use crate::node::{Data, Entry, Node, unfill};
use holdup_model::profile::FACTOR;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

/// The TOML of a plan that compares profiles, if any are given, and nothing else of what it compared before.
///
/// # Errors
/// When the text is no TOML.
pub fn comparing_profiles(source: &str, profiles: &[String]) -> Result<String, String> {
    let mut document: DocumentMut = source.parse().map_err(|e: toml_edit::TomlError| e.message().to_owned())?;
    for key in ["factors", "exclude", "report"] {
        document.remove(key);
    }
    if !profiles.is_empty() {
        let mut factors = Table::new();
        factors.insert(FACTOR, Item::Value(Value::Array(profiles.iter().map(String::as_str).collect())));
        document.insert("factors", Item::Table(factors));
    }
    Ok(document.to_string())
}

pub fn profile_toml(name: &str, summary: &str, knobs: &[(String, String)]) -> String {
    let mut document = DocumentMut::new();
    document.insert("name", Item::Value(Value::from(name)));
    document.insert("summary", Item::Value(Value::from(summary)));
    let mut table = Table::new();
    for (knob, value) in knobs {
        table.insert(knob, Item::Value(Value::from(value.as_str())));
    }
    document.insert("knobs", Item::Table(table));
    document.to_string()
}

/// The TOML that reads back as the draft in any environment.
pub(crate) fn write(draft: &Draft) -> String {
    let Draft { head, workloads, factors, settings, design, guest, hosts, nodes, exclude, metrics, collect } = draft;
    let mut document = DocumentMut::new();
    for entry in head {
        document.insert(&entry.key, Item::Value(value(&entry.node)));
    }
    for (key, nodes) in [("workload", workloads), ("exclude", exclude), ("metric", metrics)] {
        let mut tables = ArrayOfTables::new();
        for node in nodes {
            if let Data::Table(entries) = &node.data {
                tables.push(table(entries));
            }
        }
        if !tables.is_empty() {
            document.insert(key, Item::ArrayOfTables(tables));
        }
    }
    let parts = [
        ("factors", factors),
        ("set", settings),
        ("design", design),
        ("guest", guest),
        ("hosts", hosts),
        ("nodes", nodes),
        ("collect", collect),
    ];
    for (key, entries) in parts {
        if !entries.is_empty() {
            document.insert(key, Item::Table(table(entries)));
        }
    }
    document.to_string()
}

fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new();
    for entry in entries {
        table.insert(&entry.key, Item::Value(value(&entry.node)));
    }
    table
}

fn value(node: &Node) -> Value {
    match &node.data {
        Data::Text(text) | Data::Date(text) => Value::from(unfill(text)),
        Data::Integer(i) => Value::from(*i),
        Data::Float(x) => Value::from(*x),
        Data::Bool(b) => Value::from(*b),
        Data::List(nodes) => Value::Array(nodes.iter().map(value).collect::<Array>()),
        Data::Table(entries) => {
            let mut table = InlineTable::new();
            for entry in entries {
                table.insert(&entry.key, value(&entry.node));
            }
            Value::InlineTable(table)
        }
        // Never written: a draft with a bad node gives errors, not TOML.
        Data::Bad => Value::from(""),
    }
}
