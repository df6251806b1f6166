//! The nodes of a cluster on which sessions ran: whether they are alike, and what each kind of them says.

use super::{Context, note};
use crate::compare;
use crate::index::Index;
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{BundleData, Comparison, Fact, Finding, Meta};
use std::collections::{BTreeMap, BTreeSet};

pub static META: Meta = Meta {
    id: "nodes",
    summary: "whether the nodes of a cluster are alike, and results by kind of node",
    docs: "A run on a cluster (`--on slurm`) has a node for each session. Blocks are within sessions, so every ratio is of \
           trials of one node; nodes that differ are still pooled in the headline. Nodes with the same CPU model, number of CPUs, \
           kernel and preemption model are of one kind. Where there are several kinds, each has its own ratio here.",
    references: &["docs/slurm.md"],
};

/// The fact that names the node of a session.
const NODE: &str = "slurm.node";
/// What makes the kind of a node, and how it is called.
const KIND: [(&str, &str); 4] = [
    ("cpu.model", "CPU model"),
    ("cpu.online", "CPUs"),
    ("kernel.release", "kernel"),
    ("kernel.preempt", "preemption model"),
];

/// Nodes that are alike.
#[derive(Default)]
struct Kind<'a> {
    nodes: BTreeSet<&'a str>,
    sessions: BTreeSet<u32>,
}

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let bundle = context.bundle();
    let kinds = kinds(bundle);
    let nodes: BTreeSet<&str> = kinds.values().flat_map(|kind| kind.nodes.iter().copied()).collect();
    let names: Vec<&str> = nodes.into_iter().collect();
    match kinds.len() {
        0 => Vec::new(),
        1 if names.len() == 1 => vec![alike(format!("All sessions ran on the node {}.", names[0]))],
        1 => vec![alike(format!(
            "The nodes {} are alike in CPU model, CPUs, kernel and preemption model.",
            words::list(&names)
        ))],
        _ => vec![different(context, &kinds)],
    }
}

fn alike(sentence: String) -> Finding {
    note(&META, FindingVerdict::Refuted, sentence)
}

fn kinds(bundle: &BundleData) -> BTreeMap<Vec<&str>, Kind<'_>> {
    // A session that was repeated on another node has several readings, and the last is that of its trials.
    let of_sessions: BTreeMap<u32, &[Fact]> = bundle.environment.iter().map(|r| (r.session, &*r.facts)).collect();
    let mut kinds: BTreeMap<Vec<&str>, Kind<'_>> = BTreeMap::new();
    for (session, facts) in of_sessions {
        let value = |key: &str| facts.iter().find(|fact| fact.key == key).and_then(|fact| fact.value.as_deref());
        let Some(node) = value(NODE) else { continue };
        let kind = kinds.entry(KIND.iter().map(|(key, _)| value(key).unwrap_or("not known")).collect()).or_default();
        kind.nodes.insert(node);
        kind.sessions.insert(session);
    }
    kinds
}

fn different(context: &Context<'_>, kinds: &BTreeMap<Vec<&str>, Kind<'_>>) -> Finding {
    let differs = |place: usize| kinds.keys().map(|values| values[place]).collect::<BTreeSet<_>>().len() > 1;
    let places: Vec<usize> = (0..KIND.len()).filter(|place| differs(*place)).collect();
    let by: Vec<&str> = places.iter().map(|place| KIND[*place].1).collect();
    let of_kinds: Vec<(String, Vec<Comparison>)> =
        kinds.iter().map(|(values, kind)| (name(kind, values, &places), of_kind(context.bundle(), kind))).collect();
    let mut sentence = format!("The nodes differ in {}", words::list(&by));
    let mut details: Vec<String> = of_kinds.iter().map(|(name, _)| format!("{name}.")).collect();
    for headline in context.comparisons.iter().filter(|c| c.headline) {
        let (line, disagree) = by_kind(headline, kinds, &of_kinds);
        if disagree {
            sentence.push_str(&format!(
                ", and so do the answers: {} of {} {}",
                words::metric_name(&headline.metric),
                headline.workload,
                line
            ));
        }
        details.push(format!("{}: {line}.", super::effect::subject(&headline.contrast)));
    }
    sentence.push_str("; the headline pools them.");
    Finding { details, ..note(&META, FindingVerdict::Supported, sentence) }
}

/// `n1 and n2: AMD EPYC, 6.1.0`.
fn name(kind: &Kind<'_>, values: &[&str], places: &[usize]) -> String {
    let values: Vec<String> = places.iter().map(|place| format!("{} {}", KIND[*place].1, values[*place])).collect();
    format!("{}: {}", nodes(kind), values.join(", "))
}

fn nodes(kind: &Kind<'_>) -> String {
    words::list(&kind.nodes.iter().copied().collect::<Vec<_>>())
}

/// The comparisons of the sessions on nodes of a kind.
fn of_kind(bundle: &BundleData, kind: &Kind<'_>) -> Vec<Comparison> {
    let trials = bundle.trials.iter().filter(|trial| kind.sessions.contains(&trial.session)).cloned().collect();
    let part = BundleData { trials, ..bundle.clone() };
    compare::all(&Index::new(&part))
}

/// The ratio of a headline on each kind of node, and whether the intervals of two have nothing in common.
fn by_kind(
    headline: &Comparison,
    kinds: &BTreeMap<Vec<&str>, Kind<'_>>,
    of_kinds: &[(String, Vec<Comparison>)],
) -> (String, bool) {
    let mut said = Vec::new();
    let mut intervals: Vec<(f64, f64)> = Vec::new();
    for (kind, (_, comparisons)) in kinds.values().zip(of_kinds) {
        let same = |c: &&Comparison| c.headline && c.contrast == headline.contrast && c.workload == headline.workload;
        match comparisons.iter().find(same).and_then(|c| c.ratio.as_ref()) {
            Some(ratio) => {
                said.push(format!("{} on {}", words::ratio_short(ratio), nodes(kind)));
                intervals.push((ratio.low, ratio.high));
            }
            None => said.push(format!("no ratio on {}", nodes(kind))),
        }
    }
    let apart = |a: &(f64, f64), b: &(f64, f64)| a.1 < b.0 || b.1 < a.0;
    let disagree = intervals.iter().any(|a| intervals.iter().any(|b| apart(a, b)));
    (words::list(&said), disagree)
}
