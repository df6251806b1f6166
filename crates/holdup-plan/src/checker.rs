//! From a draft to a checked plan. Checking continues after an error, so that all errors of a plan are reported together.

use crate::Inputs;
use crate::arms;
use crate::draft::{Draft, find};
use crate::errors::{Complaints, Wrong};
use crate::node::{Data, Entry, Node};
use crate::source::{Location, stem};
use crate::values::{Against, TextIs, Typed, check_name, command_label, unexpected};
use crate::words::{Words, did_you_mean, nearest, shown};
use holdup_model::catalogue::WorkloadWords;
use holdup_model::plan::{Factor, Level};
use holdup_model::text::shell_quoted;
use holdup_model::{Machine, ParameterKind, Plan, Problem, Value, WorkloadUse, guest};
use std::borrow::Cow;

/// The longest text of a question, characters.
const MOST_QUESTION: usize = 1_000;

/// What checking needs at hand.
pub(crate) struct Checker<'a> {
    pub(crate) words: Words<'a>,
    pub(crate) complaints: &'a mut Complaints,
    /// What relative sizes are relative to: the guest's where the target boots one.
    pub(crate) machine: Machine,
    /// True if the target boots guests; `None` when there is no such target.
    pub(crate) boots: Option<bool>,
    /// True if trials run on other hosts; `None` when there is no such target.
    pub(crate) is_elsewhere: Option<bool>,
    /// True if the target simulates; `None` when there is no such target.
    pub(crate) simulates: Option<bool>,
    machine_of: &'a dyn Fn(&str) -> Result<Option<Machine>, Problem>,
    /// Reads the file of a profile.
    pub(crate) read: &'a dyn Fn(&str) -> Result<String, String>,
    /// The names of workloads whose kind is not known: what names them is not wrong for that.
    pub(crate) doubtful: Vec<String>,
}

/// A workload of the plan with its place in the catalogue.
pub(crate) struct Used<'a> {
    pub(crate) used: WorkloadUse,
    /// Those of its kind; made for this use where it is made of other workloads.
    pub(crate) words: Cow<'a, WorkloadWords>,
    pub(crate) place: Location,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(inputs: &'a Inputs<'a>, complaints: &'a mut Complaints) -> Self {
        let words = Words { all: inputs.vocabulary };
        Checker {
            words,
            complaints,
            machine_of: inputs.machine_of,
            read: inputs.read_include,
            machine: inputs.machine,
            boots: None,
            is_elsewhere: None,
            simulates: None,
            doubtful: Vec::new(),
        }
    }

    /// The checked plan. It is of use only when nothing was complained about.
    pub(crate) fn plan(&mut self, file: &str, draft: &Draft) -> Plan {
        let (hosts, of_hosts) = self.hosts(draft).unzip();
        let target = self.target(draft, of_hosts);
        let nodes = self.nodes(draft);
        let guest = self.guest(draft);
        let workloads = self.workloads(draft);
        let mut factors = self.factors(draft, &workloads);
        let mut settings = self.settings(draft, &workloads);
        let profiles = self.profiles(draft, &mut factors, &mut settings);
        let (collectors, collect) = self.collect(draft);
        let compares = factors.iter().any(|f| f.levels.len() > 1)
            || workloads.iter().flat_map(|w| &w.used.axes).any(|a| a.levels.len() > 1);
        let at_boot = factors.iter().any(|f| guest::is_chosen_at_boot(&f.name));
        let design = self.design(draft, &collectors, compares, at_boot);
        let metrics = self.metrics(draft, &workloads);
        let name = self.head_text(draft, "name", 100).unwrap_or_else(|| stem(file));
        let question = self.head_text(draft, "question", MOST_QUESTION);
        let mut plan = Plan {
            name,
            question: String::new(),
            workloads: workloads.into_iter().map(|w| w.used).collect(),
            factors,
            settings,
            profiles,
            design,
            metrics,
            collectors,
            collect,
            target,
            guest,
            hosts,
            nodes,
            exclude: Vec::new(),
            report: self.report(draft),
        };
        plan.question = question.unwrap_or_else(|| generated_question(&plan));
        if self.complaints.is_empty() && arms::most(&plan).is_ok() {
            plan.exclude = self.exclude(draft, &plan);
        }
        if self.complaints.is_empty() {
            self.size(draft, &plan);
        }
        plan
    }

    pub(crate) fn complain(&mut self, place: &Location, what: impl Into<String>, wrong: Wrong) {
        self.complaints.add(place, what, wrong);
    }

    /// A place for what is missing altogether: the begin of the plan.
    pub(crate) fn begin(&self, draft: &Draft) -> Location {
        match draft.workloads.first().map(|n| &n.place) {
            Some(Location::Flag(flag)) => Location::Flag(flag.clone()),
            _ => Location::In { file: 0, at: 0 },
        }
    }

    fn size(&mut self, draft: &Draft, plan: &Plan) {
        let Err(problem) = arms::count(plan) else { return };
        let mut one_block = plan.clone();
        (one_block.design.blocks, one_block.design.sessions) = (1, 1);
        let blame = if arms::count(&one_block).is_ok() {
            find(&draft.design, "blocks")
                .or_else(|| find(&draft.design, "max_blocks"))
                .or_else(|| find(&draft.design, "sessions"))
        } else {
            let parameters = draft.workloads.iter().flat_map(|w| match &w.data {
                Data::Table(entries) => entries.as_slice(),
                _ => &[],
            });
            let levels = |e: &&Entry| match &e.node.data {
                Data::List(nodes) => nodes.len(),
                _ => 0,
            };
            parameters.chain(&draft.factors).max_by_key(levels)
        };
        let place = blame.map_or_else(|| self.begin(draft), |e| e.place.clone());
        let counted =
            if draft.exclude.is_empty() || arms::most(plan).is_ok() { "" } else { "; what is excluded counts too" };
        let hint = problem.hint.map(|hint| hint + counted);
        self.complain(&place, problem.what, Wrong { why: problem.why, hint });
    }

    /// The report that the plan is about; only one that is known.
    fn report(&mut self, draft: &Draft) -> Option<String> {
        let name = self.head_text(draft, "report", 100)?;
        if self.words.all.reports.contains(&name.as_str()) {
            return Some(name);
        }
        let wrong = Wrong::new("there is no record of it").hint(did_you_mean(&name, &self.words.all.reports));
        let place = find(&draft.head, "report").map_or_else(|| self.begin(draft), |entry| entry.node.place.clone());
        self.complain(&place, format!("report `{}`", shown(&name)), wrong);
        None
    }

    fn head_text(&mut self, draft: &Draft, key: &str, most: usize) -> Option<String> {
        let entry = find(&draft.head, key)?;
        let what = || format!("{key} = {}", entry.node.written());
        let Data::Text(text) = &entry.node.data else {
            self.complain(&entry.node.place, what(), unexpected(&entry.node, "a text"));
            return None;
        };
        let text = text.trim();
        let wrong = if text.chars().count() > most {
            Some(Wrong::new(format!("it has more than {most} characters")))
        } else if text.contains(char::is_control) {
            Some(Wrong::new("it holds a control character").hint("one line of plain text"))
        } else if key == "name" && (text.is_empty() || text.contains('/') || text.starts_with('.')) {
            Some(
                Wrong::new("it cannot be the name of a file")
                    .hint("the bundle is named after it: no `/`, no `.` in front"),
            )
        } else {
            None
        };
        match wrong {
            Some(wrong) => {
                self.complain(&entry.node.place, what(), wrong);
                None
            }
            None => Some(text.to_owned()),
        }
    }

    /// The target that a plan names, or that its hosts name.
    fn target(&mut self, draft: &Draft, of_hosts: Option<String>) -> String {
        let known = &self.words.all.targets;
        let default = known.first().copied().unwrap_or("local").to_owned();
        let boots = |id: &str| Some(self.words.all.boot_targets.contains(&id));
        let of_hosts = of_hosts
            .zip(draft.hosts.first())
            .map(|(target, first)| Entry { node: Node::new(first.place.clone(), Data::Text(target)), ..first.clone() });
        let Some(entry) = of_hosts.as_ref().or_else(|| find(&draft.head, "target")) else {
            self.boots = boots(&default);
            self.is_elsewhere = Some(self.words.all.host_targets.contains(&default.as_str()));
            self.simulates = Some(self.words.all.simulated_targets.contains(&default.as_str()));
            return default;
        };
        let Data::Text(text) = &entry.node.data else {
            let wrong = unexpected(&entry.node, "a target's name").hint(did_you_mean("", known));
            self.complain(&entry.node.place, format!("target = {}", entry.node.written()), wrong);
            return default;
        };
        // `ssh:HOST` names a host beside the target, `sim:MACHINE` a machine.
        let id =
            text.split_once(':').map_or(text.as_str(), |(id, _)| if matches!(id, "ssh" | "sim") { id } else { text });
        if !known.contains(&id) {
            let wrong = Wrong::new("there is no such target").hint(did_you_mean(text, known));
            self.complain(&entry.node.place, format!("target = {}", shown(text)), wrong);
        } else {
            self.boots = boots(id);
            self.is_elsewhere = Some(self.words.all.host_targets.contains(&id));
            self.simulates = Some(self.words.all.simulated_targets.contains(&id));
            match (self.machine_of)(text) {
                Ok(machine) => self.machine = machine.unwrap_or(self.machine),
                Err(problem) => {
                    let wrong = Wrong::new(format!("{}: {}", problem.what, problem.why));
                    let wrong = match problem.hint {
                        Some(hint) => wrong.hint(hint),
                        None => wrong,
                    };
                    let what = format!("target = {}", shown(text));
                    self.complaints.add_of_kind(problem.kind, &entry.node.place, what, wrong);
                }
            }
        }
        text.clone()
    }

    /// Reads one value; complains when it is wrong.
    pub(crate) fn value(&mut self, what: &str, node: &Node, kind: &ParameterKind, text: TextIs) -> Option<Typed> {
        if node.is_bad() {
            return None;
        }
        let file_name = |place: &Location| self.file_name(place);
        let against = Against { machine: self.machine, file_name: &file_name, text };
        match against.read(node, kind) {
            Ok(typed) => Some(typed),
            Err(wrong) => {
                self.complain(&node.place, format!("{what} = {}", node.written()), wrong);
                None
            }
        }
    }

    /// The file of a place; empty on the command line.
    pub(crate) fn file_name(&self, place: &Location) -> String {
        match place {
            Location::In { file, .. } => self.complaints.source_name(*file).to_owned(),
            Location::Flag(_) => String::new(),
        }
    }

    /// Reads the levels of an axis or a factor; `None` when one is wrong. Levels that are the same only on this
    /// machine (`["1x cpus", 16]` on 16 CPUs) become one; levels that are the same everywhere are an error.
    pub(crate) fn levels(
        &mut self,
        what: &str,
        nodes: &[Node],
        kind: &ParameterKind,
        text: TextIs,
    ) -> Option<Vec<Level>> {
        if nodes.len() as u64 > arms::MOST_ARMS {
            let wrong =
                Wrong::new(format!("{} levels are more than the {} arms of a plan", nodes.len(), arms::MOST_ARMS));
            self.complain(&nodes[0].place, what, wrong.hint("name fewer levels"));
            return None;
        }
        let mut levels: Vec<Typed> = Vec::new();
        let mut seen = std::collections::BTreeMap::new();
        let mut all_good = true;
        for node in nodes {
            let Some(typed) = self.value(what, node, kind, text) else {
                all_good = false;
                continue;
            };
            let key = match &typed.level.value {
                Value::Text(text) => text.clone(),
                other => other.to_string(),
            };
            match seen.get(&key) {
                None => {
                    seen.insert(key, (levels.len(), &node.data));
                    levels.push(typed);
                }
                Some(&(first, written)) if (typed.relative || levels[first].relative) && *written != node.data => {}
                Some(_) => {
                    let wrong = Wrong::new("this level stands there twice")
                        .hint("keep one of them; the A/A pair repeats the baseline");
                    self.complain(&node.place, format!("{what} = {}", node.written()), wrong);
                    all_good = false;
                }
            }
        }
        all_good.then(|| levels.into_iter().map(|t| t.level).collect())
    }

    /// A factor or a setting that does not exist.
    pub(crate) fn unknown_factor(&self, name: &str) -> Wrong {
        let mut names = self.words.factor_names();
        if self.simulates == Some(true) {
            names.extend(self.words.all.simulated_factors.iter().map(|k| k.id));
        }
        self.unknown_among(name, names)
    }

    /// The same among some names, families as `postgres.`.
    pub(crate) fn unknown_among(&self, name: &str, names: Vec<&str>) -> Wrong {
        let member = |family: &str| if family == guest::BOOT_PREFIX { "NAME" } else { "SETTING" };
        let full: Vec<String> =
            names.iter().filter(|k| k.ends_with('.')).map(|k| format!("{k}{}", member(k))).collect();
        let mut known: Vec<&str> = names.into_iter().filter(|k| !k.ends_with('.')).collect();
        known.extend(full.iter().map(String::as_str));
        let wrong = Wrong::new("there is no such knob, and no workload offers it");
        let family =
            name.split_once('.').and_then(|(front, rest)| nearest(front, &["postgres"]).map(|near| (near, rest)));
        match family.filter(|_| nearest(name, &known).is_none()) {
            Some((near, rest)) => wrong.hint(format!("did you mean `{near}.{}`?", shown(rest))),
            None => wrong.hint(did_you_mean(name, &known)),
        }
    }

    /// A text under a key of a table; complains when it is there and no name.
    pub(crate) fn name_text(&mut self, what: &str, entry: &Entry) -> Option<String> {
        let checked = match &entry.node.data {
            Data::Text(text) => check_name(text).map(|()| text.clone()),
            Data::Bad => return None,
            _ => Err(unexpected(&entry.node, "a text")),
        };
        match checked {
            Ok(text) => Some(text),
            Err(wrong) => {
                self.complain(&entry.node.place, format!("{what} = {}", entry.node.written()), wrong);
                None
            }
        }
    }
}

/// The question of a plan that states none: `pgbench: preempt full against lazy, over clients`.
fn generated_question(plan: &Plan) -> String {
    let mut workloads: Vec<String> = plan.workloads.iter().map(title).collect();
    workloads.dedup();
    let mut axes: Vec<&str> = Vec::new();
    for axis in plan.workloads.iter().flat_map(|w| &w.axes).filter(|a| a.name != "command") {
        if !axes.contains(&axis.name.as_str()) {
            axes.push(&axis.name);
        }
    }
    let compared: Vec<String> = plan.factors.iter().map(compared).collect();
    let of = match (compared.is_empty(), axes.is_empty()) {
        (false, true) => format!(": {}", compared.join("; ")),
        (false, false) => format!(": {}, over {}", compared.join("; "), axes.join(", ")),
        (true, false) => format!(" over {}", axes.join(", ")),
        (true, true) => ": how fast, how stable?".to_owned(),
    };
    workloads.join(", ") + &of
}

/// A workload's name; of a program that has none, its command line.
fn title(used: &WorkloadUse) -> String {
    if used.name != "command" {
        return used.name.clone();
    }
    if let Some(axis) = used.axes.iter().find(|axis| axis.name == "command") {
        let mut labels = axis.levels.iter().map(|level| format!("`{}`", level.label));
        let baseline = labels.next().unwrap_or_default();
        return format!("{} against {baseline}", labels.collect::<Vec<_>>().join(", "));
    }
    let command = used.parameters.text("command").ok().flatten();
    let words: Option<Vec<String>> = command.and_then(|text| serde_json::from_str(text).ok());
    words.map_or_else(|| used.name.clone(), |words| format!("`{}`", command_label(&words, shell_quoted)))
}

/// The other levels of a factor against its baseline.
fn compared(factor: &Factor) -> String {
    let mut labels = factor.levels.iter().map(|level| level.label.as_str());
    let baseline = labels.next().unwrap_or_default();
    format!("{} {} against {baseline}", factor.name, labels.collect::<Vec<_>>().join(", "))
}
