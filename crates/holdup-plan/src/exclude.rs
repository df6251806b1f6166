//! `[[exclude]]`: combinations that are not run.

use crate::arms;
use crate::checker::Checker;
use crate::draft::Draft;
use crate::errors::Wrong;
use crate::node::{Data, Entry, Node};
use crate::source::Location;
use crate::tables::Tables;
use crate::values::TextIs;
use crate::words::{Meaning, did_you_mean, shown};
use holdup_model::plan::{Exclusion, Factor, Level};
use holdup_model::{Arm, ParameterKind, Plan};

impl Checker<'_> {
    /// The exclusions of a plan that is otherwise good and within the limits.
    pub(crate) fn exclude(&mut self, draft: &Draft, plan: &Plan) -> Vec<Exclusion> {
        let mut all: Vec<(&Location, Exclusion)> = Vec::new();
        for node in &draft.exclude {
            if let Some(exclusion) = self.exclusion(node, plan) {
                all.push((&node.place, exclusion));
            }
        }
        if self.complaints.is_empty() && !all.is_empty() {
            self.exclusions_leave_something(&all, plan);
        }
        all.into_iter().map(|(_, exclusion)| exclusion).collect()
    }

    fn exclusion(&mut self, node: &Node, plan: &Plan) -> Option<Exclusion> {
        let entries = Tables(self.complaints).flat("exclude", node.clone(), None);
        if entries.is_empty() {
            let wrong = Wrong::new("it names no levels").hint("factor = \"level\" for each factor of the combination");
            self.complain(&node.place, "a member of `exclude`", wrong);
            return None;
        }
        let levels: Vec<Option<(String, Vec<Level>)>> = entries.iter().map(|e| self.excluded(e, plan)).collect();
        levels.into_iter().collect::<Option<_>>().map(|levels| Exclusion { levels })
    }

    /// The levels of one factor or axis.
    fn excluded(&mut self, entry: &Entry, plan: &Plan) -> Option<(String, Vec<Level>)> {
        let name = &entry.key;
        let what = format!("exclude {}", shown(name));
        let known = named(plan, name);
        if known.is_empty() {
            let wrong = self.not_varied(name, plan);
            self.complain(&entry.place, what, wrong);
            return None;
        }
        let (kind, text) = self.kind_of_varied(name, plan)?;
        // Each value of a command line is a list itself.
        let is_command = kind == ParameterKind::CommandLine;
        let nodes = match &entry.node.data {
            Data::List(nodes) if !is_command || nodes.iter().any(|n| matches!(n.data, Data::List(_))) => {
                nodes.as_slice()
            }
            _ => std::slice::from_ref(&entry.node),
        };
        if nodes.is_empty() {
            let wrong = Wrong::new("an empty list of levels").hint("name one level, or a list of several");
            self.complain(&entry.node.place, what, wrong);
            return None;
        }
        let levels = self.levels(&what, nodes, &kind, text)?;
        let labels: Vec<&str> = known.iter().flat_map(|f| &f.levels).map(|l| l.label.as_str()).collect();
        let is_known = |level: &Level| known.iter().flat_map(|f| &f.levels).any(|l| l.value == level.value);
        let mut all_good = true;
        for level in levels.iter().filter(|level| !is_known(level)) {
            let wrong = Wrong::new("it is not one of its levels").hint(did_you_mean(&level.label, &labels));
            let place = nodes.iter().find(|n| n.written() == level.label).map_or(&entry.node.place, |n| &n.place);
            self.complain(place, format!("{what} = {}", shown(&level.label)), wrong);
            all_good = false;
        }
        all_good.then(|| (name.clone(), levels))
    }

    fn not_varied(&self, name: &str, plan: &Plan) -> Wrong {
        let mut known: Vec<&str> = Vec::new();
        for factor in plan.factors.iter().chain(plan.workloads.iter().flat_map(|w| &w.axes)) {
            if !known.contains(&factor.name.as_str()) {
                known.push(&factor.name);
            }
        }
        let why = match self.words.meaning(name) {
            Meaning::Unknown => "the plan has no factor and no axis of this name",
            _ => "it has one level in this plan",
        };
        Wrong::new(why).hint(did_you_mean(name, &known))
    }

    fn kind_of_varied(&self, name: &str, plan: &Plan) -> Option<(ParameterKind, TextIs)> {
        match self.words.meaning(name) {
            Meaning::Knob(kind) | Meaning::Simulated(kind) => Some((*kind, TextIs::Plain)),
            Meaning::PostgresSetting(kind) => Some((*kind, TextIs::Setting)),
            Meaning::Boot(words) => self.at_boot(name, words).ok(),
            Meaning::Offered(parameter) => Some((parameter.kind, TextIs::Plain)),
            Meaning::Profile => Some((ParameterKind::Text, TextIs::Plain)),
            Meaning::Parameter | Meaning::Unknown => {
                let of = plan.workloads.iter().find(|w| w.axes.iter().any(|a| a.name == name))?;
                let parameters = self.words.workload(&of.kind)?.parameters;
                parameters.iter().find(|p| p.name == name).map(|p| (p.kind, TextIs::Plain))
            }
        }
    }

    /// Each exclusion takes something away, and what comparisons start from stays.
    fn exclusions_leave_something(&mut self, all: &[(&Location, Exclusion)], plan: &Plan) {
        let arms: Vec<Arm> = arms::with_excluded(plan);
        let matches = |exclusion: &Exclusion, arm: &Arm| arms::is_excluded_by(exclusion, arm);
        let excluding = |arm: &Arm| all.iter().find(|(_, exclusion)| matches(exclusion, arm)).map(|(place, _)| *place);
        for (place, exclusion) in all {
            if !arms.iter().any(|arm| matches(exclusion, arm)) {
                let wrong = Wrong::new("no arm has all of these levels, so it is without effect")
                    .hint("name levels that meet in one workload, or take it out");
                self.complain(place, "a member of `exclude`", wrong);
            }
        }
        for workload in &plan.workloads {
            let of: Vec<&Arm> = arms.iter().filter(|arm| arm.workload == workload.name).collect();
            if let (true, Some(place)) =
                (of.iter().all(|a| excluding(a).is_some()), of.iter().find_map(|a| excluding(a)))
            {
                let wrong = Wrong::new(format!("nothing of workload {} is left", shown(&workload.name)))
                    .hint("exclude combinations, not all levels");
                self.complain(place, "a member of `exclude`", wrong);
                continue;
            }
            // The arms of a cell stand together, the baseline of the factors first.
            for (number, cell) in of.chunk_by(|a, b| a.axes == b.axes).enumerate() {
                let is_left = cell.iter().any(|a| excluding(a).is_none());
                let Some(place) =
                    cell.first().and_then(|baseline| excluding(baseline)).filter(|_| number == 0 || is_left)
                else {
                    continue;
                };
                let wrong = Wrong::new(format!(
                    "it takes away the baseline {}, which others are compared with",
                    shown(&cell[0].label)
                ))
                .hint("the first level of each factor and axis is the baseline: put another one first");
                self.complain(place, "a member of `exclude`", wrong);
                break;
            }
        }
    }
}

/// The factors and axes of this name.
fn named<'a>(plan: &'a Plan, name: &str) -> Vec<&'a Factor> {
    plan.factors.iter().chain(plan.workloads.iter().flat_map(|w| &w.axes)).filter(|f| f.name == name).collect()
}
