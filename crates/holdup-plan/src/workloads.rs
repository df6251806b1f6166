//! `[[workload]]`, `[factors]` and `[set]`.

use crate::checker::{Checker, Used};
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry, Node};
use crate::source::Location;
use crate::tables::Tables;
use crate::values::{TextIs, truth, unexpected};
use crate::words::{Meaning, did_you_mean, shown};
use holdup_model::catalogue::WorkloadWords;
use holdup_model::plan::{Factor, Level};
use holdup_model::{Parameter, ParameterKind, Parameters, WorkloadUse};
use std::borrow::Cow;

/// Keys of `[[workload]]` that are no parameters.
pub(crate) const WORKLOAD_KEYS: &[&str] = &["name", "kind", "negative_control"];

impl<'a> Checker<'a> {
    pub(crate) fn workloads(&mut self, draft: &Draft) -> Vec<Used<'a>> {
        let mut all: Vec<Used<'a>> = Vec::new();
        for node in &draft.workloads {
            let Data::Table(entries) = &node.data else { continue };
            let Some(used) = self.workload(node, entries) else { continue };
            if all.iter().any(|other| other.used.name == used.used.name) {
                let place = find(entries, "name").map_or(&node.place, |e| &e.node.place);
                let wrong = Wrong::new("another workload has this name").hint("give each [[workload]] another name");
                self.complain(place, format!("workload name = {}", shown(&used.used.name)), wrong);
                continue;
            }
            all.push(used);
        }
        if draft.workloads.is_empty() && self.complaints.is_empty() {
            let known: Vec<&str> = self.words.all.workloads.iter().map(|w| w.id).collect();
            let hint = format!("add [[workload]] with a kind: {}", known.join(", "));
            self.complain(&Location::In { file: 0, at: 0 }, "the plan", Wrong::new("it has no workload").hint(hint));
        }
        all
    }

    fn workload(&mut self, node: &Node, entries: &[Entry]) -> Option<Used<'a>> {
        let name = find(entries, "name").and_then(|e| self.name_text("workload name", e));
        let known: Vec<&str> = self.words.all.workloads.iter().map(|w| w.id).collect();
        let Some(kind) = find(entries, "kind") else {
            let wrong = Wrong::new("it is missing").hint(did_you_mean(name.as_deref().unwrap_or_default(), &known));
            self.complain(&node.place, "workload kind", wrong);
            self.doubtful.extend(name);
            return None;
        };
        let words = match &kind.node.data {
            Data::Text(id) => self.words.workload(id),
            _ => None,
        };
        let Some(words) = words else {
            let wrong = match &kind.node.data {
                Data::Text(id) => Wrong::new("there is no such workload").hint(did_you_mean(id, &known)),
                _ => unexpected(&kind.node, "a text").hint(did_you_mean("", &known)),
            };
            if !kind.node.is_bad() {
                self.complain(&kind.node.place, format!("workload kind = {}", kind.node.written()), wrong);
            }
            self.doubtful.push(name.unwrap_or_else(|| kind.node.written()));
            return None;
        };
        let name = name.unwrap_or_else(|| words.id.to_owned());
        let mut used = WorkloadUse {
            name,
            kind: words.id.to_owned(),
            parameters: Parameters::default(),
            axes: Vec::new(),
            negative_control: false,
            semantics: words.semantics.clone(),
        };
        if let Some(entry) = find(entries, "negative_control").filter(|e| !e.node.is_bad()) {
            match truth(&entry.node) {
                Ok(yes) => used.negative_control = yes,
                Err(wrong) => {
                    self.complain(&entry.node.place, format!("negative_control = {}", entry.node.written()), wrong);
                }
            }
        }
        let flat;
        let mut entries = entries;
        if words.combines {
            flat = Tables(self.complaints).flat_entries(entries);
            entries = &flat;
        }
        self.parameters(node, entries, words, &mut used);
        let mut words = Cow::Borrowed(words);
        if words.combines {
            words = Cow::Owned(self.combined(node, entries, &words, &mut used)?);
            used.semantics.clone_from(&words.semantics);
        }
        Some(Used { used, words, place: node.place.clone() })
    }

    fn parameters(&mut self, node: &Node, entries: &[Entry], words: &WorkloadWords, used: &mut WorkloadUse) {
        for entry in entries.iter().filter(|e| !WORKLOAD_KEYS.contains(&e.key.as_str())) {
            match words.parameters.iter().find(|p| p.name == entry.key) {
                Some(parameter) => self.parameter(entry, parameter, used),
                None => self.unknown_parameter(entry, words),
            }
        }
        for parameter in words.parameters.iter().filter(|p| find(entries, p.name).is_none()) {
            match parameter.default {
                Some(default) => {
                    let default = Node::new(node.place.clone(), Data::Text(default.to_owned()));
                    let what = format!("default of {} of workload {}", parameter.name, words.id);
                    if let Some(typed) = self.value(&what, &default, &parameter.kind, TextIs::Plain) {
                        used.parameters.set(parameter.name, typed.level.value);
                    }
                }
                None if parameter.required => {
                    let wrong = Wrong::new("it is missing").hint(format!("it is {}", parameter.summary));
                    self.complain(&node.place, format!("{} of workload {}", parameter.name, shown(&used.name)), wrong);
                }
                None => {}
            }
        }
    }

    fn parameter(&mut self, entry: &Entry, parameter: &Parameter, used: &mut WorkloadUse) {
        if entry.node.is_bad() {
            return;
        }
        let what = format!("{} of workload {}", parameter.name, shown(&used.name));
        // A command is a list itself; several of them are a list of lists.
        let is_command = parameter.kind == ParameterKind::CommandLine;
        let nodes = match &entry.node.data {
            Data::List(nodes) if !is_command || nodes.iter().any(|n| matches!(n.data, Data::List(_))) => {
                nodes.as_slice()
            }
            _ => std::slice::from_ref(&entry.node),
        };
        if nodes.is_empty() {
            let wrong = Wrong::new("an empty list").hint("one value, or a list of several as an axis");
            self.complain(&entry.node.place, what, wrong);
            return;
        }
        let Some(levels) = self.levels(&what, nodes, &parameter.kind, TextIs::Plain) else { return };
        match <[Level; 1]>::try_from(levels) {
            Ok([only]) => used.parameters.set(parameter.name, only.value),
            Err(levels) => used.axes.push(Factor {
                name: parameter.name.to_owned(),
                levels,
                workloads: Vec::new(),
                optional: false,
            }),
        }
    }

    fn unknown_parameter(&mut self, entry: &Entry, words: &WorkloadWords) {
        let what = format!("key `{}` of workload {}", shown(&entry.key), words.id);
        let hint = match self.words.meaning(&entry.key) {
            Meaning::Unknown | Meaning::Parameter => {
                let mut known: Vec<&str> = words.parameters.iter().map(|p| p.name).collect();
                known.extend(WORKLOAD_KEYS);
                did_you_mean(&entry.key, &known)
            }
            _ => format!("`{}` is set in [set] or varied in [factors]", shown(&entry.key)),
        };
        self.complain(&entry.place, what, Wrong::new("it has no such parameter").hint(hint));
    }

    pub(crate) fn factors(&mut self, draft: &Draft, workloads: &[Used<'_>]) -> Vec<Factor> {
        draft.factors.iter().filter_map(|entry| self.factor(entry, draft, workloads)).collect()
    }

    fn factor(&mut self, entry: &Entry, draft: &Draft, workloads: &[Used<'_>]) -> Option<Factor> {
        let what = format!("factor {}", shown(&entry.key));
        if find(&draft.settings, &entry.key).is_some() {
            let wrong = Wrong::new("it is fixed in [set] as well").hint("vary it or set it, not both");
            self.complain(&entry.place, &what, wrong);
            return None;
        }
        let (kind, text) = self.kind_of(entry, &what, workloads)?;
        let (levels, names, optional) = self.factor_parts(entry, &what)?;
        if let (true, Meaning::Boot(_)) = (optional, self.words.meaning(&entry.key)) {
            let wrong = Wrong::new("what is chosen at boot cannot be optional")
                .hint("take `optional` out; [[exclude]] names combinations that cannot be run");
            self.complain(&entry.place, &what, wrong);
        }
        let Data::List(nodes) = &levels.data else {
            if !levels.is_bad() {
                let wrong = unexpected(levels, "a list of levels")
                    .hint("name two levels or more, the baseline first; a fixed value belongs in [set]");
                self.complain(&levels.place, &what, wrong);
            }
            return None;
        };
        let levels_place = &levels.place;
        if nodes.len() < 2 {
            let why = if nodes.is_empty() { "an empty list of levels" } else { "one level is nothing to compare" };
            let hint = format!("name two levels or more, or fix it: [set] \"{}\" = …", shown(&entry.key));
            self.complain(levels_place, &what, Wrong::new(why).hint(hint));
            return None;
        }
        let levels = self.levels(&what, nodes, &kind, text)?;
        if levels.len() < 2 {
            let place = if self.boots == Some(true) { "in this guest" } else { "on this machine" };
            let wrong = Wrong::new(format!("all its levels come to {} {place}", levels[0].label))
                .hint("name a level that differs here");
            self.complain(levels_place, &what, wrong);
            return None;
        }
        let workloads = self.factor_workloads(entry, &what, names, workloads)?;
        Some(Factor { name: entry.key.clone(), levels, workloads, optional })
    }

    /// The levels, the names of workloads and whether it is optional.
    fn factor_parts<'n>(&mut self, entry: &'n Entry, what: &str) -> Option<(&'n Node, Option<&'n Node>, bool)> {
        let Data::Table(parts) = &entry.node.data else { return Some((&entry.node, None, false)) };
        const PARTS: &[&str] = &["levels", "workloads", "optional"];
        for part in parts.iter().filter(|p| !PARTS.contains(&p.key.as_str())) {
            let wrong = Wrong::new("a factor has no such key").hint(did_you_mean(&part.key, PARTS));
            self.complain(&part.place, format!("key `{}` of {what}", shown(&part.key)), wrong);
        }
        let mut optional = false;
        if let Some(part) = find(parts, "optional").filter(|p| !p.node.is_bad()) {
            match truth(&part.node) {
                Ok(yes) => optional = yes,
                Err(wrong) => self.complain(&part.node.place, format!("optional of {what}"), wrong),
            }
        }
        let levels = &find(parts, "levels")?.node;
        Some((levels, find(parts, "workloads").map(|p| &p.node), optional))
    }

    /// The workloads that a factor holds for: those named, or all that it does something to; empty for all.
    fn factor_workloads(
        &mut self,
        entry: &Entry,
        what: &str,
        names: Option<&Node>,
        workloads: &[Used<'_>],
    ) -> Option<Vec<String>> {
        let Some(names) = names else {
            let fitting: Vec<String> = self.fitting(&entry.key, workloads);
            return Some(if fitting.len() == workloads.len() { Vec::new() } else { fitting });
        };
        let known: Vec<&str> = workloads.iter().map(|w| w.used.name.as_str()).collect();
        let mut named: Vec<String> = Vec::new();
        let mut all_good = true;
        if names.levels().is_empty() {
            let wrong = Wrong::new("an empty list of workloads").hint("leave `workloads` away for all of them");
            self.complain(&names.place, what, wrong);
            return None;
        }
        for node in names.levels().iter().filter(|n| !n.is_bad()) {
            let wrong = match &node.data {
                Data::Text(name) if named.contains(name) => Wrong::new("it is named twice").hint("name it once"),
                Data::Text(name) if self.doubtful.contains(name) => continue,
                Data::Text(name) => match workloads.iter().find(|w| w.used.name == *name) {
                    None => Wrong::new("the plan has no workload of this name").hint(did_you_mean(name, &known)),
                    Some(w) if self.words.acts_on(&entry.key, &w.words) => {
                        named.push(name.clone());
                        continue;
                    }
                    Some(w) => {
                        Wrong::new(format!("the factor does nothing to {}", w.used.kind)).hint("take it out here")
                    }
                },
                _ => unexpected(node, "a workload's name"),
            };
            self.complain(&node.place, format!("workload {} of {what}", node.written()), wrong);
            all_good = false;
        }
        all_good.then_some(named)
    }

    fn fitting(&self, name: &str, workloads: &[Used<'_>]) -> Vec<String> {
        workloads.iter().filter(|w| self.words.acts_on(name, &w.words)).map(|w| w.used.name.clone()).collect()
    }

    fn only_simulated(&self) -> Wrong {
        let targets = self.words.all.simulated_targets.join(" or ");
        Wrong::new("only a simulated machine has it").hint(format!("take target {targets}, or leave it out"))
    }

    /// The kind of a factor's or setting's values, and what a text among them is.
    fn kind_of(&mut self, entry: &Entry, what: &str, workloads: &[Used<'_>]) -> Option<(ParameterKind, TextIs)> {
        let found = match self.words.meaning(&entry.key) {
            Meaning::Knob(kind) => Ok((*kind, TextIs::Plain)),
            Meaning::PostgresSetting(kind) => Ok((*kind, TextIs::Setting)),
            Meaning::Offered(parameter) => Ok((parameter.kind, TextIs::Plain)),
            Meaning::Boot(words) => self.at_boot(&entry.key, words),
            Meaning::Profile => Ok((ParameterKind::Text, TextIs::Plain)),
            Meaning::Simulated(_) if self.simulates == Some(false) => Err(self.only_simulated()),
            Meaning::Simulated(kind) => Ok((*kind, TextIs::Plain)),
            Meaning::Parameter => Err(Wrong::new("it is a parameter of a workload")
                .hint(format!("give it in [[workload]]: {} = [ … ]", shown(&entry.key)))),
            Meaning::Unknown => Err(self.unknown_factor(&entry.key)),
        };
        let found = match found {
            Ok(found) => found,
            Err(wrong) => {
                self.complain(&entry.place, what, wrong);
                return None;
            }
        };
        let acts = !self.fitting(&entry.key, workloads).is_empty();
        if !acts && !workloads.is_empty() && self.doubtful.is_empty() {
            let fit: Vec<&str> =
                self.words.all.workloads.iter().filter(|w| self.words.acts_on(&entry.key, w)).map(|w| w.id).collect();
            let wrong = Wrong::new("no workload of this plan has to do with it")
                .hint(format!("workloads that have: {}", fit.join(", ")));
            self.complain(&entry.place, what, wrong);
            return None;
        }
        Some(found)
    }

    pub(crate) fn settings(&mut self, draft: &Draft, workloads: &[Used<'_>]) -> Vec<(String, Level)> {
        let mut settings = Vec::new();
        for entry in &draft.settings {
            let what = format!("setting {}", shown(&entry.key));
            if let Data::List(_) = entry.node.data {
                let wrong = Wrong::new("a fixed setting has one value").hint("several values are a factor: [factors]");
                self.complain(&entry.node.place, what, wrong);
                continue;
            }
            let Some((kind, text)) = self.kind_of(entry, &what, workloads) else { continue };
            if let Some(typed) = self.value(&what, &entry.node, &kind, text) {
                settings.push((entry.key.clone(), typed.level));
            }
        }
        settings
    }
}
