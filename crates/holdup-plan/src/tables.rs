//! Tables of a file: their bounds, and nested ones as names with dots.

use crate::draft::find;
use crate::errors::{Complaints, Wrong};
use crate::node::{Data, Entry, Node};
use crate::source::Location;
use crate::values::unexpected;
use crate::words::shown;

/// How many keys a table, and how many members a list of tables, may have.
const MOST_KEYS: usize = 500;

/// Reads tables and complains.
pub(crate) struct Tables<'a>(pub(crate) &'a mut Complaints);

impl Tables<'_> {
    pub(crate) fn table(&mut self, key: &str, node: Node) -> Vec<Entry> {
        match node.data {
            Data::Table(entries) => self.not_too_many(key, entries, |entry| &entry.place),
            _ => {
                let wrong = unexpected(&node, "a table").hint(format!("write [{key}], then its keys"));
                self.0.add(&node.place, format!("`{key}`"), wrong);
                Vec::new()
            }
        }
    }

    /// All of them, or the first ones with a complaint: no plan that a person wrote is that long.
    pub(crate) fn not_too_many<T>(&mut self, key: &str, mut all: Vec<T>, place: impl Fn(&T) -> &Location) -> Vec<T> {
        if let Some(first) = all.get(MOST_KEYS) {
            let wrong = Wrong::new(format!("{} are more than the {MOST_KEYS} that can stand here", all.len()));
            self.0.add(place(first), format!("`{}`", shown(key)), wrong);
            all.truncate(MOST_KEYS);
        }
        all
    }

    /// A table whose nested tables are names with dots. A table that has the key `spec` is a value.
    pub(crate) fn flat(&mut self, key: &str, node: Node, spec: Option<&str>) -> Vec<Entry> {
        let mut flat = Vec::new();
        for entry in self.table(key, node) {
            self.flatten(entry, spec, &mut flat);
        }
        flat
    }

    /// Entries whose nested tables are names with dots.
    pub(crate) fn flat_entries(&mut self, entries: &[Entry]) -> Vec<Entry> {
        let mut flat = Vec::new();
        for entry in entries {
            self.flatten(entry.clone(), None, &mut flat);
        }
        flat
    }

    fn flatten(&mut self, entry: Entry, spec: Option<&str>, flat: &mut Vec<Entry>) {
        let nested = match entry.node.data {
            Data::Table(inner) if spec.is_none_or(|key| find(&inner, key).is_none()) => inner,
            data => {
                let node = Node { data, place: entry.node.place };
                if find(flat, &entry.key).is_some() {
                    let wrong = Wrong::new("it stands here twice, once in quotes and once nested").hint("keep one");
                    self.0.add(&entry.place, format!("`{}`", shown(&entry.key)), wrong);
                } else if !node.is_bad() {
                    flat.push(Entry { key: entry.key, place: entry.place, node });
                }
                return;
            }
        };
        if nested.is_empty() {
            let wrong = Wrong::new("an empty table says nothing").hint("give it values, or take it out");
            self.0.add(&entry.place, format!("`{}`", shown(&entry.key)), wrong);
        }
        for inner in self.not_too_many(&entry.key, nested, |e| &e.place) {
            if flat.len() >= MOST_KEYS {
                return;
            }
            let key = format!("{}.{}", entry.key, inner.key);
            self.flatten(Entry { key, ..inner }, spec, flat);
        }
    }
}
