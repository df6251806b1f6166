//! A plan as written: its parts, with the files that it includes merged under it. Nothing is typed yet.

use crate::Inputs;
use crate::errors::{Complaints, Wrong};
use crate::node::{Data, Entry, Node, Reading};
use crate::source::{Location, normal, resolve};
use crate::tables::Tables;
use crate::values::unexpected;
use crate::words::{did_you_mean, shown};

/// The keys of a plan.
pub(crate) const KEYS: &[&str] = &[
    "name", "question", "target", "include", "workload", "factors", "set", "exclude", "design", "guest", "hosts",
    "nodes", "metric", "collect", "report",
];

/// How deep includes may nest.
const MOST_DEPTH: usize = 8;
/// How many files a plan may include in all.
const MOST_FILES: usize = 32;
/// How large one file may be, bytes.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// The parts of a plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    /// `name`, `question`, `target`, `report`.
    pub(crate) head: Vec<Entry>,
    /// Each is a table.
    pub(crate) workloads: Vec<Node>,
    /// Names with their dots; `postgres.huge_pages` whether written so or as nested tables.
    pub(crate) factors: Vec<Entry>,
    /// As `factors`.
    pub(crate) settings: Vec<Entry>,
    pub(crate) design: Vec<Entry>,
    pub(crate) guest: Vec<Entry>,
    pub(crate) hosts: Vec<Entry>,
    pub(crate) nodes: Vec<Entry>,
    /// Each is a table.
    pub(crate) exclude: Vec<Node>,
    /// Each is a table.
    pub(crate) metrics: Vec<Node>,
    pub(crate) collect: Vec<Entry>,
}

impl Draft {
    /// Puts another draft under this one: what this one says wins, lists of tables are appended.
    fn merge_under(&mut self, other: Draft) {
        let Draft { head, workloads, factors, settings, design, guest, hosts, nodes, exclude, metrics, collect } =
            other;
        for (mine, others) in [
            (&mut self.head, head),
            (&mut self.factors, factors),
            (&mut self.settings, settings),
            (&mut self.design, design),
            (&mut self.guest, guest),
            (&mut self.hosts, hosts),
            (&mut self.nodes, nodes),
            (&mut self.collect, collect),
        ] {
            for entry in others {
                if find(mine, &entry.key).is_none() {
                    mine.push(entry);
                }
            }
        }
        // What this file sets is not varied by the file under it, and the other way round.
        let set: Vec<&String> = self.settings.iter().map(|e| &e.key).collect();
        let both: Vec<String> = self.factors.iter().filter(|f| set.contains(&&f.key)).map(|f| f.key.clone()).collect();
        for key in both {
            let file = |entries: &[Entry]| find(entries, &key).map(|e| file_of(&e.place));
            let (factor, setting) = (file(&self.factors), file(&self.settings));
            match (factor, setting) {
                (Some(f), Some(s)) if f < s => self.settings.retain(|e| e.key != key),
                (Some(f), Some(s)) if s < f => self.factors.retain(|e| e.key != key),
                _ => {}
            }
        }
        self.workloads.extend(workloads);
        self.metrics.extend(metrics);
        self.exclude.extend(exclude);
    }
}

/// The number of a file; files that are included have higher ones.
fn file_of(place: &Location) -> usize {
    match place {
        Location::In { file, .. } => *file,
        Location::Flag(_) => 0,
    }
}

pub(crate) fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|e| e.key == key)
}

/// Puts a value under a key, in place of what stood there.
pub(crate) fn put(entries: &mut Vec<Entry>, key: &str, node: Node) {
    match entries.iter_mut().find(|e| e.key == key) {
        Some(entry) => *entry = Entry { key: entry.key.clone(), place: node.place.clone(), node },
        None => entries.push(Entry { key: key.to_owned(), place: node.place.clone(), node }),
    }
}

/// Reads a plan's text and everything that it includes.
pub(crate) fn read(file: &str, text: &str, inputs: &Inputs<'_>, complaints: &mut Complaints) -> Draft {
    let mut files = Files { inputs, complaints, open: Vec::new(), included: 0 };
    files.read(file, text)
}

struct Files<'a> {
    inputs: &'a Inputs<'a>,
    complaints: &'a mut Complaints,
    /// The files that are being read, each included by the one before.
    open: Vec<String>,
    included: usize,
}

impl Files<'_> {
    fn read(&mut self, file: &str, text: &str) -> Draft {
        let number = self.complaints.add_source(file, text);
        if text.len() > MOST_BYTES {
            let wrong = Wrong::new(format!("it has {} bytes, more than {MOST_BYTES}", text.len()))
                .hint("a plan is short; is this the right file?");
            self.complaints.add(&Location::In { file: number, at: 0 }, "too large for a plan", wrong);
            return Draft::default();
        }
        let environment = Some(self.inputs.environment);
        let mut reading = Reading { file: number, what: "a plan", environment, complaints: &mut *self.complaints };
        let Some(entries) = reading.parse(text) else { return Draft::default() };
        let mut draft = Draft::default();
        let mut includes = Vec::new();
        for entry in entries {
            self.take(entry, &mut draft, &mut includes);
        }
        self.open.push(normal(file));
        for include in includes {
            if let Some(under) = self.include(file, &include) {
                draft.merge_under(under);
            }
        }
        self.open.pop();
        draft
    }

    /// Sorts one top-level entry into its part.
    fn take(&mut self, entry: Entry, draft: &mut Draft, includes: &mut Vec<Node>) {
        let Entry { key, place, node } = entry;
        if node.is_bad() {
            return;
        }
        match key.as_str() {
            "name" | "question" | "target" | "report" => draft.head.push(Entry { key, place, node }),
            "include" => includes.extend(node.levels().iter().cloned()),
            "workload" => draft.workloads.extend(self.tables(&key, &place, node)),
            "exclude" => draft.exclude.extend(self.tables(&key, &place, node)),
            "published" => {
                let wrong = Wrong::new("what was published stands in the record of a report")
                    .hint("report = \"NAME\", of those that `holdup list reports` lists");
                self.complaints.add(&place, "key `published`", wrong);
            }
            "metric" => draft.metrics.extend(self.tables(&key, &place, node)),
            "factors" => draft.factors = Tables(self.complaints).flat(&key, node, Some("levels")),
            "set" => draft.settings = Tables(self.complaints).flat(&key, node, None),
            "design" => draft.design = Tables(self.complaints).table(&key, node),
            "guest" => draft.guest = Tables(self.complaints).table(&key, node),
            "hosts" => draft.hosts = Tables(self.complaints).table(&key, node),
            "nodes" => draft.nodes = Tables(self.complaints).table(&key, node),
            "collect" => draft.collect = Tables(self.complaints).table(&key, node),
            _ => {
                let wrong = Wrong::new("a plan has no such key").hint(did_you_mean(&key, KEYS));
                self.complaints.add(&place, format!("key `{}`", shown(&key)), wrong);
            }
        }
    }

    /// The members of `[[workload]]`, `[[exclude]]` or `[[metric]]`.
    fn tables(&mut self, key: &str, place: &Location, node: Node) -> Vec<Node> {
        let Data::List(nodes) = node.data else {
            let wrong = unexpected(&node, "a list of tables").hint(format!("write [[{key}]] with two brackets"));
            self.complaints.add(place, format!("`{key}`"), wrong);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for node in Tables(self.complaints).not_too_many(key, nodes, |node| &node.place) {
            match node.data {
                Data::Table(_) => tables.push(node),
                Data::Bad => {}
                _ => {
                    let wrong = unexpected(&node, "a table").hint(format!("write [[{key}]], then its keys"));
                    self.complaints.add(&node.place, format!("a member of `{key}`"), wrong);
                }
            }
        }
        tables
    }

    /// Reads an included file; `None` when that was refused.
    fn include(&mut self, by: &str, node: &Node) -> Option<Draft> {
        let refuse = |files: &mut Self, what: String, wrong: Wrong| {
            files.complaints.add(&node.place, what, wrong);
            None
        };
        let text = match &node.data {
            Data::Text(text) if !text.is_empty() => text,
            Data::Bad => return None,
            _ => return refuse(self, "include".to_owned(), unexpected(node, "the path of a plan")),
        };
        let path = resolve(by, text);
        let what = format!("include `{}`", shown(text));
        if self.open.contains(&normal(&path)) {
            let way: Vec<String> = self.open.iter().map(|f| shown(f)).collect();
            let wrong = Wrong::new("it includes itself").hint(format!("the way there: {}", way.join(" → ")));
            return refuse(self, what, wrong);
        }
        if self.open.len() > MOST_DEPTH {
            return refuse(self, what, Wrong::new(format!("includes nest deeper than {MOST_DEPTH}")));
        }
        if self.included >= MOST_FILES {
            return refuse(self, what, Wrong::new(format!("more than {MOST_FILES} files are included")));
        }
        self.included += 1;
        match (self.inputs.read_include)(&path) {
            Ok(text) => Some(self.read(&path, &text)),
            Err(why) => {
                let wrong = Wrong::new(format!("it cannot be read: {}", shown(&why)))
                    .hint(format!("paths are relative to the file that includes; looked for {}", shown(&path)));
                refuse(self, what, wrong)
            }
        }
    }
}
