//! Workloads that are made of other workloads: their parts, and the metrics of each.

use crate::checker::Checker;
use crate::draft::find;
use crate::errors::Wrong;
use crate::node::{Data, Entry, Node};
use crate::source::Location;
use crate::values::TextIs;
use crate::words::{did_you_mean, shown};
use holdup_model::catalogue::WorkloadWords;
use holdup_model::plan::Level;
use holdup_model::{Value, WorkloadUse};

const FOREGROUND: &str = "foreground";
const BACKGROUND: &str = "background";
/// No background.
const NONE: &str = "none";

impl<'a> Checker<'a> {
    /// The words of one use: the metrics of the foreground by their names, those of the backgrounds behind their kind.
    /// Fills in the members' defaults. `None` when a member is not known or takes part twice, which is complained about.
    pub(crate) fn combined(
        &mut self,
        node: &Node,
        entries: &[Entry],
        words: &WorkloadWords,
        used: &mut WorkloadUse,
    ) -> Option<WorkloadWords> {
        let before = self.complaints.count();
        let place = |key: &str| find(entries, key).map_or(&node.place, |e| &e.node.place).clone();
        if used.axes.iter().any(|axis| axis.name == FOREGROUND) {
            let wrong = Wrong::new("it is what is measured, so it has one value")
                .hint("make it several [[workload]] tables; background may be an axis");
            self.complain(&place(FOREGROUND), FOREGROUND, wrong);
            return None;
        }
        let foreground = self.member(texts(used, FOREGROUND).first()?, &place(FOREGROUND))?;
        let mut members = vec![foreground];
        for background in texts(used, BACKGROUND) {
            let mut here = vec![foreground.id];
            for kind in background.split('+').map(str::trim).filter(|kind| *kind != NONE) {
                let Some(member) = self.member(kind, &place(BACKGROUND)) else { continue };
                if here.contains(&member.id) {
                    let wrong = Wrong::new("it takes part twice")
                        .hint("name each member once: a member is identified by its kind");
                    self.complain(&place(BACKGROUND), format!("member {}", member.id), wrong);
                }
                here.push(member.id);
                if !members.iter().any(|other| other.id == member.id) {
                    members.push(member);
                }
            }
        }
        self.bystanders(entries, &members);
        self.defaults_of(node, entries, &members, used);
        (self.complaints.count() == before).then(|| together(words, &members))
    }

    fn member(&mut self, kind: &str, place: &Location) -> Option<&'a WorkloadWords> {
        let found = self.words.workload(kind).filter(|words| !words.combines);
        if found.is_none() {
            let known: Vec<&str> = self.words.all.workloads.iter().filter(|w| !w.combines).map(|w| w.id).collect();
            let wrong = Wrong::new("there is no such workload").hint(did_you_mean(kind, &known));
            self.complain(place, format!("member {}", shown(kind)), wrong);
        }
        found
    }

    /// Complains about parameters of workloads that take no part.
    fn bystanders(&mut self, entries: &[Entry], members: &[&WorkloadWords]) {
        for entry in entries {
            let Some((kind, _)) = entry.key.split_once('.') else { continue };
            if self.words.workload(kind).is_some() && !members.iter().any(|member| member.id == kind) {
                let wrong = Wrong::new(format!("{kind} takes no part")).hint(format!("name it in {BACKGROUND}"));
                self.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
            }
        }
    }

    /// Fills in what the plan does not say, for the members that take part.
    fn defaults_of(&mut self, node: &Node, entries: &[Entry], members: &[&WorkloadWords], used: &mut WorkloadUse) {
        for (member, parameter) in members.iter().flat_map(|m| m.parameters.iter().map(move |p| (m, p))) {
            let name = format!("{}.{}", member.id, parameter.name);
            if find(entries, &name).is_some() {
                continue;
            }
            match parameter.default {
                Some(default) => {
                    let default = Node::new(node.place.clone(), Data::Text(default.to_owned()));
                    if let Some(typed) =
                        self.value(&format!("default of {name}"), &default, &parameter.kind, TextIs::Plain)
                    {
                        used.parameters.set(&name, typed.level.value);
                    }
                }
                None if parameter.required => {
                    let wrong = Wrong::new("it is missing").hint(format!("it is {}", parameter.summary));
                    self.complain(&node.place, format!("{name} of workload {}", shown(&used.name)), wrong);
                }
                None => {}
            }
        }
    }
}

/// The texts of a parameter: what is fixed, or all levels of the axis.
fn texts(used: &WorkloadUse, name: &str) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    };
    let fixed = used.parameters.get(name).and_then(text);
    let levels = used.axes.iter().filter(|axis| axis.name == name).flat_map(|axis| &axis.levels);
    fixed.into_iter().chain(levels.filter_map(|level: &Level| text(&level.value))).collect()
}

fn together(words: &WorkloadWords, members: &[&WorkloadWords]) -> WorkloadWords {
    let mut all = words.clone();
    all.has_postgres = members.iter().any(|m| m.has_postgres);
    all.factors = members.iter().map(|m| m.factors).find(|factors| !factors.is_empty()).unwrap_or_default();
    all.takes_metrics = members.first().is_some_and(|m| m.takes_metrics);
    all.primary_metric = members.first().and_then(|m| m.primary_metric);
    all.semantics = holdup_model::Semantics::default();
    for (place, member) in members.iter().enumerate() {
        let of_member = member.semantics.of_member(member.id, place == 0);
        all.semantics.closed_loops.extend(of_member.closed_loops);
        all.semantics.diagnostics.extend(of_member.diagnostics);
    }
    all.metrics = members.first().map(|m| m.metrics.clone()).unwrap_or_default();
    let behind = members.iter().skip(1).flat_map(|m| m.metrics.iter().map(|id| format!("{}.{id}", m.id)));
    all.metrics.extend(behind);
    all
}
