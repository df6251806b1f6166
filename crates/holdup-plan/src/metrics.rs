//! `[[metric]]`.

use crate::checker::{Checker, Used};
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry, Node};
use crate::source::Location;
use crate::values::{truth, unexpected};
use crate::words::{did_you_mean, shown};
use holdup_model::Direction;
use holdup_model::plan::{Extract, MetricChoice};

const METRIC_KEYS: &[&str] = &["id", "workload", "primary", "margin", "better", "unit", "from"];
const FROM_KEYS: &[&str] = &["regex", "json", "duration"];

/// The equivalence margin of a metric whose plan states none: 2 %.
pub(crate) const DEFAULT_MARGIN: f64 = 0.02;
/// The metric of a program for which no metric is defined: its own duration.
const DURATION: &str = "duration_s";
/// How much memory a compiled expression may take, bytes: it is foreign input.
const MOST_REGEX: usize = 1 << 20;

/// A metric with the place of its table.
struct Named {
    choice: MetricChoice,
    place: Location,
}

impl Named {
    fn is_of(&self, workload: &Used<'_>) -> bool {
        match &self.choice.workload {
            Some(name) => *name == workload.used.name,
            None => has(workload, &self.choice),
        }
    }
}

/// True if a workload measures it, or lets the plan define it.
fn has(workload: &Used<'_>, choice: &MetricChoice) -> bool {
    if choice.from.is_some() { workload.words.takes_metrics } else { workload.words.metrics.contains(&choice.id) }
}

impl Checker<'_> {
    pub(crate) fn metrics(&mut self, draft: &Draft, workloads: &[Used<'_>]) -> Vec<MetricChoice> {
        let mut named: Vec<Named> = Vec::new();
        for node in &draft.metrics {
            let Data::Table(entries) = &node.data else { continue };
            let before = self.complaints.count();
            let metric = self.metric(node, entries, workloads);
            let Some(metric) = metric.filter(|_| self.complaints.count() == before) else { continue };
            self.clashes(&metric, &named, workloads);
            named.push(metric);
        }
        // The primary metric is known only after the whole plan is read.
        if self.complaints.is_empty() {
            for workload in workloads {
                settle_primary(&mut named, workload, workloads);
            }
        }
        named.iter().flat_map(|n| per_workload(n, workloads)).collect()
    }

    fn metric(&mut self, node: &Node, entries: &[Entry], workloads: &[Used<'_>]) -> Option<Named> {
        for entry in entries.iter().filter(|e| !METRIC_KEYS.contains(&e.key.as_str())) {
            let wrong = Wrong::new("[[metric]] has no such key").hint(did_you_mean(&entry.key, METRIC_KEYS));
            self.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
        }
        let Some(id) = find(entries, "id") else {
            self.complain(&node.place, "metric id", Wrong::new("it is missing").hint("for example id = \"tps\""));
            return None;
        };
        let id_place = id.node.place.clone();
        let id = self.name_text("metric id", id)?;
        let choice = MetricChoice {
            workload: self.metric_workload(entries, workloads)?,
            primary: self.flag(entries, "primary"),
            better: self.better(entries),
            unit: self.unit(entries),
            margin: self.share_of(entries, "margin", DEFAULT_MARGIN),
            from: self.from(entries),
            id,
        };
        let named = Named { choice, place: node.place.clone() };
        self.applies(&named, &id_place, entries, workloads);
        Some(named)
    }

    /// The workload that a metric names: `Some(None)` when it names none, `None` when there is none of that name.
    fn metric_workload(&mut self, entries: &[Entry], workloads: &[Used<'_>]) -> Option<Option<String>> {
        let Some(entry) = find(entries, "workload") else { return Some(None) };
        let known: Vec<&str> = workloads.iter().map(|w| w.used.name.as_str()).collect();
        let wrong = match &entry.node.data {
            Data::Bad => return None,
            Data::Text(name) if self.doubtful.contains(name) => return None,
            Data::Text(name) if known.contains(&name.as_str()) => return Some(Some(name.clone())),
            Data::Text(name) => Wrong::new("the plan has no workload of this name").hint(did_you_mean(name, &known)),
            _ => unexpected(&entry.node, "a workload's name"),
        };
        self.complain(&entry.node.place, format!("workload = {}", entry.node.written()), wrong);
        None
    }

    /// Whether some workload has the metric, and what only a program's metrics can have.
    fn applies(&mut self, named: &Named, id_place: &Location, entries: &[Entry], workloads: &[Used<'_>]) {
        let choice = &named.choice;
        let meant: Vec<&Used<'_>> =
            workloads.iter().filter(|w| choice.workload.as_ref().is_none_or(|n| *n == w.used.name)).collect();
        let has_from = find(entries, "from").is_some();
        if let Some(unit) = find(entries, "unit").filter(|_| !has_from) {
            let wrong = Wrong::new("the workload states the unit of its metrics").hint("take it out");
            self.complain(&unit.node.place, format!("unit = {}", unit.node.written()), wrong);
        }
        let in_doubt = choice.workload.is_none() && !self.doubtful.is_empty();
        if meant.is_empty() || in_doubt || meant.iter().any(|w| has(w, choice) || (has_from && w.words.takes_metrics)) {
            return;
        }
        let what = format!("metric {}", shown(&choice.id));
        let names: Vec<&str> = meant.iter().map(|w| w.used.name.as_str()).collect();
        let names = names.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        if has_from {
            let wrong = Wrong::new(format!("{names} runs no program of yours to read it from"))
                .hint("`from` is for workloads of kind command; take it out");
            self.complain(id_place, what, wrong);
        } else if meant.iter().any(|w| w.words.takes_metrics) {
            let wrong = Wrong::new("how to read it from the output is not said")
                .hint("from = { regex = \"…\" }, { json = \"/…\" } or { duration = true }");
            self.complain(id_place, what, wrong);
        } else {
            let mut known: Vec<&str> = Vec::new();
            for id in meant.iter().flat_map(|w| &w.words.metrics).map(String::as_str) {
                if !known.contains(&id) {
                    known.push(id);
                }
            }
            let wrong = Wrong::new(format!("{names} does not measure it")).hint(did_you_mean(&choice.id, &known));
            self.complain(id_place, what, wrong);
        }
    }

    /// A metric that is named twice for one workload, or a second primary one.
    fn clashes(&mut self, metric: &Named, others: &[Named], workloads: &[Used<'_>]) {
        for workload in workloads.iter().filter(|w| metric.is_of(w)) {
            let others = || others.iter().filter(|o| o.is_of(workload));
            let name = shown(&workload.used.name);
            let id = shown(&metric.choice.id);
            if others().any(|o| o.choice.id == metric.choice.id) {
                let wrong = Wrong::new(format!("it is named twice for workload {name}")).hint("keep one of them");
                self.complain(&metric.place, format!("metric {id}"), wrong);
                return;
            }
            if let Some(first) = others().find(|o| o.choice.primary && metric.choice.primary) {
                let why = format!("workload {name} has a primary metric already, {}", shown(&first.choice.id));
                let hint = "one metric is the headline; take `primary` out of the others";
                self.complain(&metric.place, format!("metric {id}"), Wrong::new(why).hint(hint));
                return;
            }
        }
    }

    fn flag(&mut self, entries: &[Entry], key: &str) -> bool {
        let Some(entry) = find(entries, key).filter(|e| !e.node.is_bad()) else { return false };
        truth(&entry.node).unwrap_or_else(|wrong| {
            self.complain(&entry.node.place, format!("{key} = {}", entry.node.written()), wrong);
            false
        })
    }

    fn better(&mut self, entries: &[Entry]) -> Option<Direction> {
        let entry = find(entries, "better").filter(|e| !e.node.is_bad())?;
        let wrong = match &entry.node.data {
            Data::Text(text) if text == "higher" => return Some(Direction::Higher),
            Data::Text(text) if text == "lower" => return Some(Direction::Lower),
            Data::Text(_) => Wrong::new("it is no direction").hint("better = \"higher\" or \"lower\""),
            _ => unexpected(&entry.node, "a text").hint("better = \"higher\" or \"lower\""),
        };
        self.complain(&entry.node.place, format!("better = {}", entry.node.written()), wrong);
        None
    }

    fn unit(&mut self, entries: &[Entry]) -> Option<String> {
        let entry = find(entries, "unit").filter(|e| !e.node.is_bad())?;
        let wrong = match &entry.node.data {
            Data::Text(text) if !text.is_empty() && text.len() <= 40 && !text.contains(char::is_control) => {
                return Some(text.clone());
            }
            Data::Text(_) => Wrong::new("a unit is a short text on one line").hint("for example \"1/s\""),
            _ => unexpected(&entry.node, "a text"),
        };
        self.complain(&entry.node.place, format!("unit = {}", entry.node.written()), wrong);
        None
    }

    /// A share between 0 and 100 %, both excluded.
    pub(crate) fn share_of(&mut self, entries: &[Entry], key: &str, default: f64) -> f64 {
        let Some(entry) = find(entries, key).filter(|e| !e.node.is_bad()) else { return default };
        let hint = "for example \"2%\" or 0.02";
        let share = match &entry.node.data {
            Data::Float(x) => Ok(*x),
            Data::Integer(i) => Ok(*i as f64),
            Data::Text(text) => share(text).ok_or_else(|| Wrong::new("not a share").hint(hint)),
            _ => Err(unexpected(&entry.node, "a share").hint(hint)),
        };
        let wrong = match share {
            Ok(x) if x > 0.0 && x < 1.0 => return x,
            Ok(_) => Wrong::new("it must be above 0 % and below 100 %").hint(hint),
            Err(wrong) => wrong,
        };
        self.complain(&entry.node.place, format!("{key} = {}", entry.node.written()), wrong);
        default
    }

    fn from(&mut self, entries: &[Entry]) -> Option<Extract> {
        let entry = find(entries, "from").filter(|e| !e.node.is_bad())?;
        let hint = "one of { regex = \"…\" }, { json = \"/…\" }, { duration = true }";
        let Data::Table(parts) = &entry.node.data else {
            self.complain(&entry.node.place, "from", unexpected(&entry.node, "a table").hint(hint));
            return None;
        };
        let [part] = parts.as_slice() else {
            let wrong = Wrong::new(format!("it has {} keys where one says how to read it", parts.len())).hint(hint);
            self.complain(&entry.node.place, "from", wrong);
            return None;
        };
        let wrong = match (part.key.as_str(), &part.node.data) {
            (_, Data::Bad) => return None,
            ("regex", Data::Text(text)) => match check_regex(text) {
                Ok(()) => return Some(Extract::Regex(text.clone())),
                Err(wrong) => wrong,
            },
            ("json", Data::Text(text)) => match check_pointer(text) {
                Ok(()) => return Some(Extract::Json(text.clone())),
                Err(wrong) => wrong,
            },
            ("duration", Data::Bool(true)) => return Some(Extract::Duration),
            ("duration", _) => unexpected(&part.node, "true"),
            ("regex" | "json", _) => unexpected(&part.node, "a text"),
            (key, _) => {
                let wrong = Wrong::new("metrics are not read so").hint(did_you_mean(key, FROM_KEYS));
                self.complain(&part.place, format!("key `{}` of from", shown(key)), wrong);
                return None;
            }
        };
        self.complain(&part.node.place, format!("{} = {}", part.key, part.node.written()), wrong);
        None
    }
}

/// `2%` or `0.02`.
fn share(text: &str) -> Option<f64> {
    let text = text.trim();
    match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok().map(|x| x / 100.0),
        None => text.parse().ok(),
    }
}

fn check_regex(text: &str) -> Result<(), Wrong> {
    let built = regex::RegexBuilder::new(text).size_limit(MOST_REGEX).build();
    let error = match built {
        Ok(_) => return Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => "it is too large".to_owned(),
        Err(e) => e.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    };
    Err(Wrong::new(format!("not a regular expression: {error}"))
        .hint("the syntax is that of Rust's regex crate; write it in 'single quotes' to keep backslashes"))
}

/// RFC 6901: empty, or parts that begin with a slash; `~` only as `~0` and `~1`.
fn check_pointer(text: &str) -> Result<(), Wrong> {
    let wrong = |why: &str| Err(Wrong::new(why).hint("for example /results/0/rps (RFC 6901)"));
    if !text.is_empty() && !text.starts_with('/') {
        return wrong("a JSON pointer begins with a slash");
    }
    if text.split('~').skip(1).any(|after| !after.starts_with(['0', '1'])) {
        return wrong("a `~` in a JSON pointer is written ~0");
    }
    Ok(())
}

/// A metric for all workloads as it is; one for some of them as one choice for each, so that an id which two
/// kinds of workload share is never taken for the other's.
fn per_workload(named: &Named, workloads: &[Used<'_>]) -> Vec<MetricChoice> {
    if named.choice.workload.is_some() || workloads.iter().all(|w| named.is_of(w)) {
        return vec![named.choice.clone()];
    }
    let of = |w: &Used<'_>| MetricChoice { workload: Some(w.used.name.clone()), ..named.choice.clone() };
    workloads.iter().filter(|w| named.is_of(w)).map(of).collect()
}

/// Gives a workload its primary metric when the plan marks none: the one that the workload holds for primary, or
/// the first that the plan defines for a program.
fn settle_primary(named: &mut Vec<Named>, workload: &Used<'_>, all: &[Used<'_>]) {
    if named.iter().any(|n| n.choice.primary && n.is_of(workload)) {
        return;
    }
    let own_program = workload.words.takes_metrics;
    let defined = named.iter().find(|n| own_program && n.choice.from.is_some() && n.is_of(workload));
    let id = match defined {
        Some(first) => first.choice.id.clone(),
        None => workload.words.primary_metric.unwrap_or(DURATION).to_owned(),
    };
    let Some(at) = named.iter().position(|n| n.choice.id == id && n.is_of(workload)) else {
        // Nothing is known of a program but how long it ran.
        let from = (own_program && !workload.words.metrics.contains(&id)).then_some(Extract::Duration);
        let choice = MetricChoice {
            id,
            workload: Some(workload.used.name.clone()),
            primary: true,
            better: None,
            unit: None,
            margin: DEFAULT_MARGIN,
            from,
        };
        named.push(Named { choice, place: workload.place.clone() });
        return;
    };
    let others_differ = all
        .iter()
        .filter(|w| named[at].is_of(w))
        .any(|w| w.used.name != workload.used.name && named.iter().any(|n| n.choice.primary && n.is_of(w)));
    if !others_differ {
        named[at].choice.primary = true;
        return;
    }
    // The metric is another's headline elsewhere. The special choice must stand before the general one,
    // because the first that fits is the one that holds.
    let mut choice = named[at].choice.clone();
    choice.primary = true;
    choice.workload = Some(workload.used.name.clone());
    let place = named[at].place.clone();
    named.insert(at, Named { choice, place });
}
