//! `[collect]`: which collectors run, and what is asked of them.

use crate::checker::Checker;
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry};
use crate::values::unexpected;
use crate::words::{did_you_mean, shown};
use holdup_model::plan::CollectOptions;

const KEYS: [&str; 4] = ["collectors", "sections", "frequency", "breakpoints"];

impl Checker<'_> {
    /// The collectors' ids, and what is asked of them.
    pub(crate) fn collect(&mut self, draft: &Draft) -> (Vec<String>, CollectOptions) {
        for entry in draft.collect.iter().filter(|e| !KEYS.contains(&e.key.as_str())) {
            let wrong = Wrong::new("[collect] has no such key").hint(did_you_mean(&entry.key, &KEYS));
            self.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
        }
        let known = self.words.all.collectors.clone();
        let ids = match find(&draft.collect, "collectors") {
            None => self.words.all.default_collectors.iter().map(|&id| id.to_owned()).collect(),
            Some(entry) => self.names(entry, "collector", "collectors = [\"cpu\"], or [] for none", |id| {
                match known.contains(&id) {
                    true => Ok(()),
                    false => Err(Wrong::new("there is no such collector").hint(did_you_mean(id, &known))),
                }
            }),
        };
        let sections = find(&draft.collect, "sections").map(|entry| {
            self.names(entry, "section", "sections = [\"StrategyGetBuffer\"], names of functions", |name| {
                match name.trim().is_empty() || name.contains(char::is_whitespace) {
                    true => Err(Wrong::new("it is no function's name").hint("write it as the symbol table does")),
                    false => Ok(()),
                }
            })
        });
        let given = find(&draft.collect, "frequency").is_some();
        let frequency = self.count(&draft.collect, "frequency", 1, 1, CollectOptions::MOST_HZ.into());
        let frequency_hz = u32::try_from(frequency).ok().filter(|_| given);
        let (sections, default) = (sections.unwrap_or_default(), CollectOptions::default());
        let without_breakpoints = !self.truth_of(&draft.collect, "breakpoints", true);
        (ids, CollectOptions { sections, frequency_hz, without_breakpoints, ..default })
    }

    /// A list of names, each once; complains about those that are wrong.
    fn names(
        &mut self,
        entry: &Entry,
        each: &str,
        hint: &str,
        is_good: impl Fn(&str) -> Result<(), Wrong>,
    ) -> Vec<String> {
        let Data::List(nodes) = &entry.node.data else {
            if !entry.node.is_bad() {
                let wrong = unexpected(&entry.node, "a list").hint(hint);
                self.complain(&entry.node.place, entry.key.clone(), wrong);
            }
            return Vec::new();
        };
        let mut names: Vec<String> = Vec::new();
        for node in nodes.iter().filter(|n| !n.is_bad()) {
            let wrong = match &node.data {
                Data::Text(name) if names.contains(name) => Wrong::new("it is named twice").hint("name it once"),
                Data::Text(name) => match is_good(name) {
                    Ok(()) => {
                        names.push(name.clone());
                        continue;
                    }
                    Err(wrong) => wrong,
                },
                _ => unexpected(node, &format!("a {each}'s name")),
            };
            self.complain(&node.place, format!("{each} {}", node.written()), wrong);
        }
        names
    }
}
