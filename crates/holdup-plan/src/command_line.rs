//! A plan without a file: `holdup run pgbench --clients 8,64 --vary autogroup=on,off`.

use crate::draft::{Draft, put};
use crate::errors::{Complaints, Wrong};
use crate::node::{Data, Entry, Node};
use crate::source::Location;
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
/// - `commands`: programs with their arguments; several are an axis, the first of them the baseline. [`shell_words`]
///   makes one of a line.
/// - `metrics`: one definition each. `NAME=regex:EXPRESSION`, `NAME=json:/POINTER` or `NAME=duration` defines a metric
///   of a program; `NAME` alone names a metric that the workload has. `:higher` or `:lower` at the end says which way
///   is better. The first one is primary.
///
/// # Errors
/// Everything that is wrong with the command line; the option stands where a file would stand.
pub fn from_command_line(
    workload: &str,
    options: &[(String, String)],
    commands: &[Vec<String>],
    metrics: &[String],
    inputs: &Inputs<'_>,
) -> Result<(Plan, String), PlanErrors> {
    let mut complaints = Complaints::default();
    let words = Words { all: inputs.vocabulary };
    let place = Location::flag(shown(workload));
    let text = |text: &str| Node::new(place.clone(), Data::Text(text.to_owned()));
    let mut draft = Draft::default();
    put(&mut draft.head, "name", text(workload));
    let mut entries: Vec<Entry> = Vec::new();
    put(&mut entries, "kind", text(workload));
    let known = words.workload(workload);
    for (name, values) in options {
        option(name, values, known, &mut entries, &mut complaints);
    }
    if !commands.is_empty() {
        program(commands, known, &mut entries, &mut complaints);
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
    let place = Location::flag(format!("--{} {}", name.replace('_', "-"), shown(values)));
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

fn program(
    commands: &[Vec<String>],
    words: Option<&WorkloadWords>,
    entries: &mut Vec<Entry>,
    complaints: &mut Complaints,
) {
    let place = Location::flag("after --");
    let Some(words) = words else { return };
    let Some(parameter) = words.parameters.iter().find(|p| p.kind == ParameterKind::CommandLine) else {
        let wrong =
            Wrong::new(format!("workload {} runs no program", words.id)).hint("`holdup run command -- PROGRAM …`");
        complaints.add(&place, "a program", wrong);
        return;
    };
    let node = |data: Data| Node::new(place.clone(), data);
    let list = |command: &Vec<String>| Data::List(command.iter().map(|word| node(Data::Text(word.clone()))).collect());
    let data = match commands {
        [command] => list(command),
        several => Data::List(several.iter().map(|command| node(list(command))).collect()),
    };
    put(entries, parameter.name, node(data));
}

/// Commands of the shell that are no programs, as far as one would measure a line that begins with them.
const BUILT_IN: &[&str] = &[
    ".", ":", "!", "alias", "break", "cd", "command", "continue", "eval", "exec", "exit", "export", "hash", "if",
    "for", "case", "while", "until", "read", "return", "set", "shift", "source", "time", "times", "trap", "type",
    "ulimit", "umask", "unset", "wait",
];

/// The program and the arguments of a command line. A line without syntax of the shell is its words, as for make(1), so that
/// no shell is measured with it; any other is `sh -c LINE`.
pub fn shell_words(line: &str) -> Vec<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_- ".contains(c);
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match words.first() {
        Some(first) if line.chars().all(is_plain) && !first.contains('=') && !BUILT_IN.contains(&first.as_str()) => {
            words
        }
        _ => ["sh", "-c", line].map(str::to_owned).to_vec(),
    }
}

/// One `--metric`.
fn metric(definition: &str, primary: bool, complaints: &mut Complaints) -> Option<Node> {
    let place = Location::flag(format!("--metric {}", shown(definition)));
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

#[cfg(test)]
mod tests {
    use super::shell_words;

    #[test]
    fn a_shell_runs_only_what_needs_one() {
        for (line, expect) in [
            ("sleep 0.1", &["sleep", "0.1"][..]),
            ("  make  -j4 CC=gcc", &["make", "-j4", "CC=gcc"]),
            ("a | b", &["sh", "-c", "a | b"]),
            ("CC=gcc make", &["sh", "-c", "CC=gcc make"]),
            ("cd x", &["sh", "-c", "cd x"]),
            ("echo 'a b'", &["sh", "-c", "echo 'a b'"]),
            ("echo *", &["sh", "-c", "echo *"]),
            ("", &["sh", "-c", ""]),
        ] {
            assert_eq!(shell_words(line), expect, "{line}");
        }
    }
}
