//! A plan without a file: `holdup run pgbench --clients 8,64 --vary autogroup=on,off`.

use crate::draft::{Draft, put};
use crate::errors::{Complaints, Wrong};
use crate::node::{Data, Entry, Node};
use crate::source::Place;
use crate::words::{Words, shown};
use crate::{Inputs, PlanErrors, checker, overrides, toml};
use holdup_model::catalogue::WorkloadWords;
use holdup_model::{ParameterKind, Plan};

/// Makes a plan of a command line, and the TOML that [`check`](crate::check) reads as the same plan, with the
/// overrides folded in.
///
/// - `workload`: the kind of the only workload.
/// - `options`: its options as (parameter, values), such as `("clients", "8,64")`; several values are an axis, and
///   `\,` is a comma in a value.
/// - `command`: the program with its arguments that stands after `--`.
/// - `metrics`: one definition each. `NAME=regex:EXPRESSION`, `NAME=json:/POINTER` or `NAME=duration` defines a metric
///   of a program; `NAME` alone names a metric that the workload has. `:higher` or `:lower` at the end says which way
///   is better. The first one is primary.
///
/// # Errors
/// Everything that is wrong with the command line; the option stands where a file would stand.
pub fn from_command_line(
    workload: &str,
    options: &[(String, String)],
    command: Option<&[String]>,
    metrics: &[String],
    inputs: &Inputs<'_>,
) -> Result<(Plan, String), PlanErrors> {
    let mut complaints = Complaints::default();
    let words = Words { all: inputs.vocabulary };
    let place = Place::flag(shown(workload));
    let text = |text: &str| Node::new(place.clone(), Data::Text(text.to_owned()));
    let mut draft = Draft::default();
    put(&mut draft.head, "name", text(workload));
    let mut entries: Vec<Entry> = Vec::new();
    put(&mut entries, "kind", text(workload));
    let known = words.workload(workload);
    for (name, values) in options {
        option(name, values, known, &mut entries, &mut complaints);
    }
    if let Some(command) = command {
        program(command, known, &mut entries, &mut complaints);
    }
    draft.workloads.push(Node::new(place, Data::Table(entries)));
    for (i, definition) in metrics.iter().enumerate() {
        draft.metrics.extend(metric(definition, i == 0, &mut complaints));
    }
    overrides::apply(&mut draft, inputs.overrides, words, &mut complaints);
    let plan = checker::Checker::new(inputs, &mut complaints).plan("", &draft);
    if complaints.is_empty() { Ok((plan, toml::write(&draft))) } else { Err(complaints.into_errors()) }
}

fn option(
    name: &str,
    values: &str,
    words: Option<&WorkloadWords>,
    entries: &mut Vec<Entry>,
    complaints: &mut Complaints,
) {
    let place = Place::flag(format!("--{} {}", name.replace('_', "-"), shown(values)));
    let kind = words.and_then(|w| w.parameters.iter().find(|p| p.name == name)).map(|p| &p.kind);
    let parts = overrides::split(values);
    if parts.iter().any(String::is_empty) {
        let why = if parts.len() == 1 { "it has no value" } else { "one of its values is empty" };
        complaints.add(
            &place,
            format!("option {}", shown(name)),
            Wrong::new(why).hint("several values have commas between"),
        );
        return;
    }
    let mut nodes: Vec<Node> =
        parts.iter().map(|text| Node::new(place.clone(), overrides::scalar(text, kind))).collect();
    let node = match nodes.len() {
        1 => nodes.remove(0),
        _ => Node::new(place, Data::List(nodes)),
    };
    put(entries, name, node);
}

fn program(command: &[String], words: Option<&WorkloadWords>, entries: &mut Vec<Entry>, complaints: &mut Complaints) {
    let place = Place::flag("after --");
    let Some(words) = words else { return };
    let Some(parameter) = words.parameters.iter().find(|p| p.kind == ParameterKind::CommandLine) else {
        let wrong =
            Wrong::new(format!("workload {} runs no program", words.id)).hint("`holdup run command -- PROGRAM …`");
        complaints.add(&place, "a program", wrong);
        return;
    };
    let nodes = command.iter().map(|word| Node::new(place.clone(), Data::Text(word.clone()))).collect();
    put(entries, parameter.name, Node::new(place, Data::List(nodes)));
}

/// One `--metric`.
fn metric(definition: &str, primary: bool, complaints: &mut Complaints) -> Option<Node> {
    let place = Place::flag(format!("--metric {}", shown(definition)));
    let node = |data: Data| Node::new(place.clone(), data);
    let text = |text: &str| node(Data::Text(text.to_owned()));
    let mut entries = Vec::new();
    let (definition, better) = match definition.rsplit_once(':') {
        Some((front, word @ ("higher" | "lower"))) => (front, Some(word)),
        _ => (definition, None),
    };
    match definition.split_once('=') {
        None => put(&mut entries, "id", text(definition)),
        Some((id, how)) => {
            put(&mut entries, "id", text(id));
            let (key, value) = match how.split_once(':') {
                Some((key @ ("regex" | "json"), rest)) => (key, text(rest)),
                None if how == "duration" => ("duration", node(Data::Bool(true))),
                _ => {
                    let wrong = Wrong::new("it does not say how the metric is read")
                        .hint("NAME=regex:EXPRESSION, NAME=json:/POINTER or NAME=duration, then :higher or :lower");
                    complaints.add(&place, format!("metric {}", shown(id)), wrong);
                    return None;
                }
            };
            let mut from = Vec::new();
            put(&mut from, key, value);
            put(&mut entries, "from", node(Data::Table(from)));
        }
    }
    if let Some(better) = better {
        put(&mut entries, "better", text(better));
    }
    if primary {
        put(&mut entries, "primary", node(Data::Bool(true)));
    }
    Some(node(Data::Table(entries)))
}
