//! `[[published]]`: ratios that others published, which a prediction is held against.

use crate::checker::Checker;
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry, Node};
use crate::tables::Tables;
use crate::values::unexpected;
use crate::words::{Meaning, did_you_mean, shown};
use holdup_model::Plan;
use holdup_model::plan::Published;

const KEYS: &[&str] = &["levels", "at", "ratio", "source"];
/// The longest source, characters.
const MOST_SOURCE: usize = 300;

impl Checker<'_> {
    /// The published ratios of a plan that is otherwise good.
    pub(crate) fn published(&mut self, draft: &Draft, plan: &Plan) -> Vec<Published> {
        draft.published.iter().filter_map(|node| self.one_published(node, plan)).collect()
    }

    fn one_published(&mut self, node: &Node, plan: &Plan) -> Option<Published> {
        let Data::Table(entries) = &node.data else { return None };
        let before = self.complaints.count();
        for entry in entries.iter().filter(|e| !KEYS.contains(&e.key.as_str())) {
            let wrong = Wrong::new("[[published]] has no such key").hint(did_you_mean(&entry.key, KEYS));
            self.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
        }
        let levels = self.published_levels(entries, "levels", plan);
        if levels.is_empty() && find(entries, "levels").is_none_or(|e| e.node.data == Data::Table(Vec::new())) {
            let wrong = Wrong::new("it names no level").hint("levels = { preempt = \"lazy\" }");
            self.complain(&node.place, "published levels", wrong);
        }
        let at = self.published_levels(entries, "at", plan);
        let ratio = self.published_ratio(node, entries);
        let source = self.published_source(node, entries);
        let is_good = self.complaints.count() == before;
        ratio.zip(source).filter(|_| is_good).map(|(ratio, source)| Published { levels, at, ratio, source })
    }

    /// The levels under a key, by factor or axis. They need not be among those of the plan, some of which may be left out on
    /// the command line.
    fn published_levels(&mut self, entries: &[Entry], key: &str, plan: &Plan) -> Vec<(String, String)> {
        let Some(entry) = find(entries, key).filter(|e| !e.node.is_bad()) else { return Vec::new() };
        let mut levels = Vec::new();
        for level in Tables(self.complaints).flat(key, entry.node.clone(), None) {
            let what = format!("published {key} {}", shown(&level.key));
            let is_parameter = plan.workloads.iter().any(|used| {
                let words = self.words.workload(&used.kind);
                words.is_some_and(|words| words.parameters.iter().any(|p| p.name == level.key))
            });
            let wrong = match &level.node.data {
                Data::List(_) | Data::Table(_) | Data::Bad => unexpected(&level.node, "one level"),
                _ if !is_parameter && matches!(self.words.meaning(&level.key), Meaning::Unknown) => {
                    self.unknown_factor(&level.key)
                }
                _ => {
                    levels.push((level.key.clone(), level.node.written()));
                    continue;
                }
            };
            self.complain(&level.place, what, wrong);
        }
        levels
    }

    fn published_ratio(&mut self, node: &Node, entries: &[Entry]) -> Option<f64> {
        let Some(entry) = find(entries, "ratio") else {
            self.complain(&node.place, "published ratio", Wrong::new("it is missing").hint("for example ratio = 0.5"));
            return None;
        };
        let ratio = match entry.node.data {
            Data::Float(x) => x,
            Data::Integer(i) => i as f64,
            _ => f64::NAN,
        };
        if ratio.is_finite() && ratio > 0.0 {
            return Some(ratio);
        }
        let wrong = unexpected(&entry.node, "a number above 0");
        self.complain(&entry.node.place, format!("published ratio = {}", entry.node.written()), wrong);
        None
    }

    fn published_source(&mut self, node: &Node, entries: &[Entry]) -> Option<String> {
        let Some(entry) = find(entries, "source") else {
            let wrong = Wrong::new("it is missing").hint("who published the ratio, where and when");
            self.complain(&node.place, "published source", wrong);
            return None;
        };
        match &entry.node.data {
            Data::Text(text)
                if !text.trim().is_empty()
                    && text.chars().count() <= MOST_SOURCE
                    && !text.contains(char::is_control) =>
            {
                Some(text.trim().to_owned())
            }
            Data::Bad => None,
            _ => {
                let wrong = unexpected(&entry.node, "one line of text");
                self.complain(&entry.node.place, "published source", wrong);
                None
            }
        }
    }
}
