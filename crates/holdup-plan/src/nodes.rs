//! `[nodes]`: what the nodes of a cluster must have that run the plan.

use crate::checker::Checker;
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry, Node};
use crate::values::TextIs;
use crate::words::{did_you_mean, shown};
use holdup_model::{Nodes, ParameterKind, Value};

/// The keys of `[nodes]`.
pub(crate) const NODES_KEYS: &[&str] = &["arch", "cpus", "memory", "features"];

/// The most CPUs of a machine (NR_CPUS, x86, Linux 6.19).
const CPUS: ParameterKind = ParameterKind::Integer { min: 1, max: 8192 };

impl Checker<'_> {
    /// What the nodes must have, if the plan says anything of them.
    pub(crate) fn nodes(&mut self, draft: &Draft) -> Option<Nodes> {
        let keys = &draft.nodes;
        for entry in keys.iter().filter(|e| !NODES_KEYS.contains(&e.key.as_str())) {
            let wrong = Wrong::new("[nodes] has no such key").hint(did_you_mean(&entry.key, NODES_KEYS));
            self.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
        }
        keys.first()?;
        let mut arch = find(keys, "arch").map(|entry| self.words_of(entry)).unwrap_or_default();
        if let (Some(entry), 2..) = (find(keys, "arch"), arch.len()) {
            let wrong = Wrong::new("holdup runs on one architecture").hint("one word, as `uname -m` prints it");
            self.complain(&entry.place, format!("arch = {}", entry.node.written()), wrong);
        }
        let memory = self.amount(keys, "memory", &ParameterKind::SIZE);
        Some(Nodes {
            arch: arch.pop(),
            cpus: self.amount(keys, "cpus", &CPUS).and_then(|cpus| u32::try_from(cpus).ok()),
            memory_bytes: memory.and_then(|bytes| u64::try_from(bytes).ok()),
            features: find(keys, "features").map(|entry| self.words_of(entry)).unwrap_or_default(),
        })
    }

    /// A number that is not relative: there is no machine yet that it could be relative to.
    fn amount(&mut self, keys: &[Entry], key: &str, kind: &ParameterKind) -> Option<i64> {
        let entry = find(keys, key)?;
        let [node] = entry.node.levels() else {
            self.complain(&entry.place, format!("{key} = {}", entry.node.written()), Wrong::new("it takes one value"));
            return None;
        };
        let typed = self.value(key, node, kind, TextIs::Plain)?;
        if typed.relative {
            let wrong = Wrong::new("it says which nodes there are to choose from, so it cannot be relative to one");
            self.complain(&node.place, format!("{key} = {}", node.written()), wrong.hint("a number"));
        }
        match typed.level.value {
            Value::Integer(amount) => Some(amount),
            _ => None,
        }
    }

    /// A word or a list of words.
    fn words_of(&mut self, entry: &Entry) -> Vec<String> {
        let mut words = Vec::new();
        for node in entry.node.levels() {
            match word(node) {
                Some(word) => words.push(word),
                None => {
                    let wrong = Wrong::new("it is no name of a feature: letters, digits, `_`, `-`, `.`, `:`")
                        .hint("a list means all of them; for anything else --slurm-option=--constraint=…");
                    self.complain(&node.place, format!("{} = {}", entry.key, node.written()), wrong);
                }
            }
        }
        words
    }
}

/// Signs that sbatch reads as operators stand in no word.
fn word(node: &Node) -> Option<String> {
    let Data::Text(text) = &node.data else { return None };
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    (!text.is_empty() && text.len() <= 100 && text.chars().all(is_letter)).then(|| text.clone())
}
