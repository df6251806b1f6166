//! `--set`, `--vary` and the options of the design: what the command line changes in a plan.

use crate::Overrides;
use crate::design::DESIGN_KEYS;
use crate::draft::{Draft, find, put};
use crate::errors::{Complaints, Wrong};
use crate::guest::GUEST_KEYS;
use crate::hosts::HOSTS_KEYS;
use crate::node::{Data, Entry, Node};
use crate::nodes::NODES_KEYS;
use crate::source::Location;
use crate::words::{Meaning, Words, did_you_mean, shown};
use crate::workloads::WORKLOAD_KEYS;
use holdup_model::catalogue::WorkloadWords;
use holdup_model::{Parameter, ParameterKind};

const HEAD_KEYS: &[&str] = &["name", "question", "target"];

/// Changes a draft as the command line says.
pub(crate) fn apply(draft: &mut Draft, overrides: &Overrides, words: Words<'_>, complaints: &mut Complaints) {
    let mut apply = Apply { draft, words, complaints };
    for (key, values) in &overrides.set {
        apply.set(key, values);
    }
    for (key, values) in &overrides.vary {
        apply.vary(key, values);
    }
    apply.design(overrides);
}

/// One value, or a list of several.
fn value(place: Location, nodes: Vec<Node>) -> Node {
    match <[Node; 1]>::try_from(nodes) {
        Ok([node]) => node,
        Err(nodes) => Node::new(place, Data::List(nodes)),
    }
}

struct Apply<'a> {
    draft: &'a mut Draft,
    words: Words<'a>,
    complaints: &'a mut Complaints,
}

/// A table of a plan whose keys are set as `TABLE.key`.
struct Table {
    name: &'static str,
    keys: &'static [&'static str],
    of: fn(&mut Draft) -> &mut Vec<Entry>,
    /// True if one value is a list of one.
    has_lists: bool,
}

static TABLES: [Table; 3] = [
    Table { name: "guest", keys: GUEST_KEYS, of: |draft| &mut draft.guest, has_lists: false },
    Table { name: "hosts", keys: HOSTS_KEYS, of: |draft| &mut draft.hosts, has_lists: true },
    Table { name: "nodes", keys: NODES_KEYS, of: |draft| &mut draft.nodes, has_lists: true },
];

impl Table {
    /// The table that a key is of, and the key in it.
    fn of_key(key: &str) -> Option<(&'static Table, &str)> {
        let (name, key) = key.split_once('.')?;
        TABLES.iter().find(|table| table.name == name).map(|table| (table, key))
    }
}

/// What a key of `--set` or `--vary` names.
enum Target<'a> {
    Design(&'a str),
    Head(&'a str),
    /// A key of a table that is set as `TABLE.key`.
    Table(&'static Table, &'a str),
    /// Workloads by their number, and the parameter.
    Parameter(Vec<usize>, &'a Parameter),
    NegativeControl(usize),
    /// A factor or a fixed setting, with the kind of its values.
    Factor(&'a ParameterKind),
}

impl<'a> Apply<'a> {
    fn set(&mut self, key: &str, values: &str) {
        let flag = format!("--set {}={}", shown(key), shown(values));
        let Some((place, nodes, target)) = self.read(flag, key, values) else { return };
        let one = |nodes: Vec<Node>| <[Node; 1]>::try_from(nodes).ok().map(|[node]| node);
        let single = nodes.len() == 1;
        match target {
            Target::Design(_) | Target::Head(_) | Target::NegativeControl(_) if !single => {
                let wrong = Wrong::new("it takes one value").hint("only parameters and factors can have several");
                self.complaints.add(&place, format!("key `{}`", shown(key)), wrong);
            }
            Target::Design(name) => one(nodes).into_iter().for_each(|n| put(&mut self.draft.design, name, n)),
            Target::Table(table, name) => {
                let node = if table.has_lists { Node::new(place, Data::List(nodes)) } else { value(place, nodes) };
                put((table.of)(self.draft), name, node);
            }
            Target::Head(name) => one(nodes).into_iter().for_each(|n| put(&mut self.draft.head, name, n)),
            Target::NegativeControl(at) => {
                one(nodes).into_iter().for_each(|n| put_into(&mut self.draft.workloads[at], "negative_control", n));
            }
            Target::Parameter(workloads, parameter) => self.parameter(&workloads, parameter, place, nodes),
            Target::Factor(_) if single => {
                self.draft.factors.retain(|e| e.key != key);
                one(nodes).into_iter().for_each(|n| put(&mut self.draft.settings, key, n));
            }
            Target::Factor(_) => self.factor(key, place, nodes),
        }
    }

    fn vary(&mut self, key: &str, values: &str) {
        let flag = format!("--vary {}={}", shown(key), shown(values));
        let Some((place, nodes, target)) = self.read(flag, key, values) else { return };
        let what = format!("key `{}`", shown(key));
        match target {
            Target::Design(_) | Target::Head(_) | Target::Table(..) | Target::NegativeControl(_) => {
                let wrong = Wrong::new("it is the same for all arms and cannot be varied")
                    .hint(format!("--set {}=VALUE sets it", shown(key)));
                self.complaints.add(&place, what, wrong);
            }
            _ if nodes.len() < 2 => {
                let wrong = Wrong::new("one value is nothing to vary")
                    .hint(format!("--vary {key}=V1,V2 with the baseline first, or --set {key}=V", key = shown(key)));
                self.complaints.add(&place, what, wrong);
            }
            Target::Parameter(workloads, parameter) => self.parameter(&workloads, parameter, place, nodes),
            Target::Factor(_) => self.factor(key, place, nodes),
        }
    }

    /// The place, the values and what the key names; complains when one of them is wrong.
    fn read(&mut self, flag: String, key: &str, values: &str) -> Option<(Location, Vec<Node>, Target<'a>)> {
        let place = Location::flag(flag);
        let what = format!("key `{}`", shown(key));
        let Some(target) = self.target(key) else {
            let hint = self.hint(key);
            self.complaints.add(&place, what, Wrong::new("the plan has nothing of this name").hint(hint));
            return None;
        };
        let kind = match &target {
            Target::Parameter(_, parameter) => Some(&parameter.kind),
            Target::Factor(kind) => Some(*kind),
            _ => None,
        };
        let parts = split(values);
        if parts.iter().any(String::is_empty) {
            let why = if parts.len() == 1 { "it has no value" } else { "one of its values is empty" };
            let wrong = Wrong::new(why).hint(format!("{}=VALUE, several values with commas between", shown(key)));
            self.complaints.add(&place, what, wrong);
            return None;
        }
        let nodes = parts.iter().map(|text| Node::new(place.clone(), scalar(text, kind))).collect();
        Some((place, nodes, target))
    }

    fn target(&self, key: &str) -> Option<Target<'a>> {
        let design = |name: &str| DESIGN_KEYS.iter().find(|k| **k == name).map(|k| Target::Design(k));
        if let Some(target) = design(key.strip_prefix("design.").unwrap_or(key)) {
            return Some(target);
        }
        if let Some(name) = HEAD_KEYS.iter().find(|k| **k == key) {
            return Some(Target::Head(name));
        }
        if let Some((table, key)) = Table::of_key(key)
            && let Some(name) = table.keys.iter().find(|known| **known == key)
        {
            return Some(Target::Table(table, name));
        }
        if let Some(target) = self.of_one_workload(key) {
            return Some(target);
        }
        let having: Vec<(usize, &'a Parameter)> =
            self.kinds().filter_map(|(at, words)| parameter(words, key).map(|p| (at, p))).collect();
        if let Some((_, first)) = having.first() {
            return Some(Target::Parameter(having.iter().map(|(at, _)| *at).collect(), first));
        }
        match self.words.meaning(key) {
            Meaning::Knob(kind) | Meaning::PostgresSetting(kind) | Meaning::Simulated(kind) => {
                Some(Target::Factor(kind))
            }
            Meaning::Boot(words) => Some(Target::Factor(&words.values)),
            Meaning::Profile => Some(Target::Factor(&ParameterKind::Text)),
            Meaning::Offered(parameter) => Some(Target::Factor(&parameter.kind)),
            Meaning::Parameter | Meaning::Unknown => None,
        }
    }

    /// `WORKLOADNAME.parameter`.
    fn of_one_workload(&self, key: &str) -> Option<Target<'a>> {
        self.kinds().find_map(|(at, words)| {
            let rest = key.strip_prefix(&self.workload_name(at)?)?.strip_prefix('.')?;
            if rest == "negative_control" {
                return Some(Target::NegativeControl(at));
            }
            parameter(words, rest).map(|p| Target::Parameter(vec![at], p))
        })
    }

    /// The workloads whose kind is known, by their number.
    fn kinds(&self) -> impl Iterator<Item = (usize, &'a WorkloadWords)> {
        self.draft.workloads.iter().enumerate().filter_map(|(at, node)| {
            let kind = text_of(node, "kind")?;
            self.words.workload(&kind).map(|words| (at, words))
        })
    }

    fn workload_name(&self, at: usize) -> Option<String> {
        let node = &self.draft.workloads[at];
        text_of(node, "name").or_else(|| text_of(node, "kind"))
    }

    fn hint(&self, key: &str) -> String {
        let mut known: Vec<&str> = Vec::new();
        for name in self.kinds().flat_map(|(_, words)| words.parameters).map(|p| p.name) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        known.extend(self.words.factor_names());
        known.extend(DESIGN_KEYS);
        if let Some((table, key)) = Table::of_key(key) {
            return did_you_mean(key, table.keys);
        }
        match key.rsplit_once('.') {
            // `select-only.client`: the parameter is what may be mistyped, or the workload.
            Some((_, last)) if self.words.workload(last).is_none() => match crate::words::nearest(last, &known) {
                Some(near) => format!("did you mean `{near}`? WORKLOAD.{near} names it for one workload"),
                None => did_you_mean(key, &known),
            },
            _ => did_you_mean(key, &known),
        }
    }

    fn parameter(&mut self, workloads: &[usize], parameter: &Parameter, place: Location, nodes: Vec<Node>) {
        let node = value(place, nodes);
        for at in workloads {
            put_into(&mut self.draft.workloads[*at], parameter.name, node.clone());
        }
    }

    /// Makes a factor, or changes the levels of the one that is there.
    fn factor(&mut self, key: &str, place: Location, nodes: Vec<Node>) {
        self.draft.settings.retain(|e| e.key != key);
        let levels = Node::new(place, Data::List(nodes));
        let spec = self.draft.factors.iter_mut().find(|e| e.key == key).map(|e| &mut e.node.data);
        match spec {
            Some(Data::Table(parts)) => put(parts, "levels", levels),
            _ => put(&mut self.draft.factors, key, levels),
        }
    }

    fn design(&mut self, overrides: &Overrides) {
        let mut given: Vec<(&str, String)> = Vec::new();
        let Overrides {
            set: _,
            vary: _,
            blocks,
            max_blocks,
            sessions,
            seed,
            warmup,
            duration,
            budget,
            collect,
            sections,
            frequency,
            no_breakpoints,
            target,
            accel,
        } = overrides;
        // One replaces the other, also where the plan has it.
        if blocks.is_some() {
            self.draft.design.retain(|e| e.key != "max_blocks");
        } else if max_blocks.is_some() {
            self.draft.design.retain(|e| e.key != "blocks");
        }
        given.extend(blocks.map(|n| ("blocks", n.to_string())));
        given.extend(max_blocks.map(|n| ("max_blocks", n.to_string())));
        given.extend(sessions.map(|n| ("sessions", n.to_string())));
        given.extend(seed.map(|n| ("seed", n.to_string())));
        given.extend(warmup.clone().map(|t| ("warmup", t)));
        given.extend(duration.clone().map(|t| ("duration", t)));
        given.extend(budget.clone().map(|t| ("budget", t)));
        for (key, value) in given {
            let place = Location::flag(format!("--{} {}", key.replace('_', "-"), shown(&value)));
            put(&mut self.draft.design, key, Node::new(place, plain(&value)));
        }
        if let Some(target) = target {
            let place = Location::flag(format!("--target {}", shown(target)));
            put(&mut self.draft.head, "target", Node::new(place, Data::Text(target.clone())));
        }
        if let Some(accel) = accel {
            let place = Location::flag(format!("--accel {}", shown(accel)));
            put(&mut self.draft.guest, "accel", Node::new(place, Data::Text(accel.clone())));
        }
        let lists = [("collect", "collectors", collect.as_deref()), ("section", "sections", sections.as_deref())];
        for (option, key, names) in lists {
            let Some(names) = names else { continue };
            let place = Location::flag(format!("--{option} {}", shown(&names.join(","))));
            let nodes = names.iter().map(|name| Node::new(place.clone(), Data::Text(name.clone()))).collect();
            put(&mut self.draft.collect, key, Node::new(place, Data::List(nodes)));
        }
        if let Some(hz) = frequency {
            let place = Location::flag(format!("--frequency {hz}"));
            put(&mut self.draft.collect, "frequency", Node::new(place, Data::Integer((*hz).into())));
        }
        if *no_breakpoints {
            let node = Node::new(Location::flag("--no-breakpoints"), Data::Bool(false));
            put(&mut self.draft.collect, "breakpoints", node);
        }
    }
}

/// A parameter by its name; `-` counts as `_`.
fn parameter(words: &WorkloadWords, name: &str) -> Option<&'static Parameter> {
    let is_key = |p: &&Parameter| p.name == name || p.name == name.replace('-', "_");
    words.parameters.iter().find(is_key).filter(|p| !WORKLOAD_KEYS.contains(&p.name))
}

fn text_of(table: &Node, key: &str) -> Option<String> {
    let Data::Table(entries) = &table.data else { return None };
    match &find(entries, key)?.node.data {
        Data::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn put_into(table: &mut Node, key: &str, node: Node) {
    if let Data::Table(entries) = &mut table.data {
        put(entries, key, node);
    }
}

/// Values between commas; `\,` is a comma in a value.
pub(crate) fn split(values: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = values.chars().peekable();
    while let Some(c) = rest.next() {
        let last = parts.len() - 1;
        match c {
            '\\' if rest.peek() == Some(&',') => parts[last].extend(rest.next()),
            ',' => parts.push(String::new()),
            c => parts[last].push(c),
        }
    }
    parts.iter().map(|p| p.trim().to_owned()).collect()
}

/// A value of the command line as a plan would have it: numbers as numbers where a number is wanted.
pub(crate) fn scalar(text: &str, kind: Option<&ParameterKind>) -> Data {
    match kind {
        Some(ParameterKind::CommandLine) => {
            let words = text.split_whitespace().map(|w| Node::new(Location::flag(""), Data::Text(w.to_owned())));
            Data::List(words.collect())
        }
        Some(ParameterKind::Integer { .. } | ParameterKind::Float { .. }) | None => plain(text),
        Some(_) => Data::Text(text.to_owned()),
    }
}

/// A number when the text is just how that number is written, else the text.
fn plain(text: &str) -> Data {
    match text.parse::<i64>() {
        Ok(i) if i.to_string() == text => Data::Integer(i),
        _ => match text.parse::<f64>() {
            Ok(x) if x.is_finite() && x.to_string() == text => Data::Float(x),
            _ => Data::Text(text.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_part_values() {
        let check = |text: &str, expect: &[&str]| assert_eq!(split(text), expect, "{text}");
        check("8,64", &["8", "64"]);
        check("8, 64", &["8", "64"]);
        check("a\\,b,c", &["a,b", "c"]);
        check("a\\b", &["a\\b"]);
        check("", &[""]);
        check("8,,9", &["8", "", "9"]);
    }
}
