//! A draft as TOML, for plans that were made on the command line.

use crate::draft::Draft;
use crate::node::{Data, Entry, Node, unfill};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

/// The TOML that reads back as the draft in any environment.
pub(crate) fn write(draft: &Draft) -> String {
    let Draft { head, workloads, factors, settings, design, guest, exclude, metrics, published, collect } = draft;
    let mut document = DocumentMut::new();
    for entry in head {
        document.insert(&entry.key, Item::Value(value(&entry.node)));
    }
    for (key, nodes) in [("workload", workloads), ("exclude", exclude), ("metric", metrics), ("published", published)] {
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
    let parts = [("factors", factors), ("set", settings), ("design", design), ("guest", guest), ("collect", collect)];
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
