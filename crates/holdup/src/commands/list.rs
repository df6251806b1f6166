//! `holdup list`: the catalogues, and what a bundle holds.

use super::boots;
use crate::{bundles, output};
use clap::ArgMatches;
use holdup_evidence::CollectContext;
use holdup_host::Host;
use holdup_knobs::KnobContext;
use holdup_model::foreign::line;
use holdup_model::{Availability, BundleData, Meta, Parameter, ParameterKind, Problem, TrialStatus};
use holdup_workloads::PostgresOptions;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// One member of a catalogue, as it is listed.
struct Row {
    id: &'static str,
    summary: &'static str,
    docs: &'static str,
    references: &'static [&'static str],
    /// Whether it can be used here; `None` where that is no question.
    here: Option<Availability>,
    parameters: Vec<&'static Parameter>,
    /// Names, units and meanings of what it brings, for collectors.
    produces: Vec<(&'static str, &'static str, &'static str)>,
}

impl Row {
    fn of(meta: &'static Meta, here: Option<Availability>) -> Self {
        Row {
            id: meta.id,
            summary: meta.summary,
            docs: meta.docs,
            references: meta.references,
            here,
            parameters: Vec::new(),
            produces: Vec::new(),
        }
    }
}

const KINDS: &[&str] = &[
    "workloads",
    "algorithms",
    "collectors",
    "knobs",
    "cases",
    "analyses",
    "explanations",
    "targets",
    "machines",
    "formats",
    "schemas",
    "arms",
    "trials",
    "boots",
    "logs",
];

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let kind = matches.get_one::<String>("kind").map_or("", String::as_str);
    let what = matches.get_one::<String>("what").map(String::as_str);
    let as_json = matches.get_flag("json");
    let boot = matches.get_one::<u32>("boot").copied();
    if boot.is_some() && kind != "logs" {
        return Err(Problem::usage("--boot", format!("holdup list {kind} has nothing of it"))
            .hint("holdup list logs FILE.holdup --boot N")
            .into());
    }
    let text = match kind {
        "arms" | "trials" | "boots" | "logs" => of_bundle(kind, what, boot, as_json)?,
        "schemas" => schemas(what, as_json)?,
        "machines" => machines(what, as_json)?,
        "formats" => formats(as_json),
        _ => catalogue(kind, what, as_json)?,
    };
    output::data(&text)?;
    Ok(0)
}

fn rows(kind: &str) -> Option<Vec<Row>> {
    let host = Host::real();
    Some(match kind {
        "workloads" => workloads(&host),
        "algorithms" => holdup_workloads::algorithms::ALL.iter().map(|a| Row::of(a.meta, Some(a.probe()))).collect(),
        "collectors" => collectors(&host),
        "knobs" => knobs(&host),
        "analyses" => holdup_analysis::analyses::ALL.iter().map(|a| Row::of(a.meta(), None)).collect(),
        "explanations" => holdup_analysis::explanations::ALL.iter().map(|e| Row::of(e.meta(), None)).collect(),
        "cases" => holdup_analysis::cases::ALL.iter().map(|c| Row::of(c.meta, None)).collect(),
        "targets" => holdup_target::targets::ALL.iter().map(|t| Row::of(t.meta(), Some(t.probe(&host)))).collect(),
        _ => return None,
    })
}

fn workloads(host: &Host) -> Vec<Row> {
    let here = PostgresOptions::default();
    holdup_workloads::workloads::ALL
        .iter()
        .map(|w| Row {
            // Those with a dot are members' own, which stand in the members' rows.
            parameters: w
                .parameters()
                .iter()
                .chain(w.factors())
                .filter(|p| !(w.combines() && p.name.contains('.')))
                .collect(),
            ..Row::of(w.meta(), Some(w.probe(host, &here)))
        })
        .collect()
}

fn collectors(host: &Host) -> Vec<Row> {
    let context = CollectContext { host: host.clone(), ..CollectContext::default() };
    holdup_evidence::collectors::ALL
        .iter()
        .map(|c| {
            let here = if c.needs_postgres() { None } else { Some(c.probe(&context)) };
            Row { produces: c.produces().to_vec(), ..Row::of(c.meta(), here) }
        })
        .collect()
}

fn knobs(host: &Host) -> Vec<Row> {
    let context = KnobContext { host, postgres: None, pids: vec![std::process::id()] };
    holdup_knobs::knobs::ALL
        .iter()
        .map(|k| Row::of(k.meta(), k.prefix().is_none().then(|| k.probe(&context, ""))))
        .collect()
}

fn catalogue(kind: &str, id: Option<&str>, as_json: bool) -> Result<String, Problem> {
    let rows = rows(kind).ok_or_else(|| {
        Problem::usage(format!("holdup list {kind}"), "there is no such kind")
            .hint(format!("kinds: {}", KINDS.join(", ")))
    })?;
    let chosen: Vec<&Row> = rows.iter().filter(|r| id.is_none_or(|id| r.id == id)).collect();
    if let (Some(id), true) = (id, chosen.is_empty()) {
        let known: Vec<&str> = rows.iter().map(|r| r.id).collect();
        return Err(Problem::usage(format!("{kind} `{id}`"), "there is none of that name").hint(known.join(", ")));
    }
    if as_json {
        let members: Vec<Value> = chosen.iter().map(|r| row_json(r)).collect();
        return Ok(pretty(&json!({"schema": "holdup.list/1", "kind": kind, "members": members})));
    }
    let width = chosen.iter().map(|r| r.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &chosen {
        let _infallible = writeln!(text, "{:width$}  {}{}", row.id, row.summary, here_in_words(row.here.as_ref()));
        if id.is_some() {
            text.push_str(&in_full(row));
        }
    }
    Ok(text)
}

fn here_in_words(here: Option<&Availability>) -> String {
    match here {
        None | Some(Availability::Ready) => String::new(),
        Some(Availability::Degraded { reason }) => format!(" [here in part: {reason}]"),
        Some(Availability::Unavailable { reason, remedy: None }) => format!(" [not here: {reason}]"),
        Some(Availability::Unavailable { reason, remedy: Some(remedy) }) => {
            format!(" [not here: {reason}; remedy: {remedy}]")
        }
    }
}

fn in_full(row: &Row) -> String {
    let mut text = format!("\n{}\n", row.docs);
    if !row.parameters.is_empty() {
        text.push_str("\nparameters\n");
    }
    for p in &row.parameters {
        let default = p.default.map(|d| format!(" [default: {d}]")).unwrap_or_default();
        let words = match p.kind {
            ParameterKind::Choice(words) => format!(": {}", words.join(", ")),
            _ => String::new(),
        };
        let _infallible = writeln!(text, "  {:16} {}{words}{default}", p.name, p.summary);
    }
    if !row.produces.is_empty() {
        text.push_str("\nbrings\n");
    }
    for (name, unit, summary) in &row.produces {
        let _infallible = writeln!(text, "  {name} [{unit}]: {summary}");
    }
    for reference in row.references {
        let _infallible = writeln!(text, "\nsource: {reference}");
    }
    text
}

fn row_json(row: &Row) -> Value {
    json!({
        "id": row.id,
        "summary": row.summary,
        "docs": row.docs,
        "references": row.references,
        "here": row.here,
        "parameters": row.parameters,
        "brings": row.produces.iter().map(|(name, unit, summary)| json!({"name": name, "unit": unit, "summary": summary})).collect::<Vec<_>>(),
    })
}

fn formats(as_json: bool) -> String {
    let all = holdup_report::formats::ALL;
    if as_json {
        let members: Vec<Value> = all.iter().map(|f| json!({"id": f.id, "summary": f.summary})).collect();
        return pretty(&json!({"schema": "holdup.list/1", "kind": "formats", "members": members}));
    }
    all.iter().map(|f| format!("{:10}  {}\n", f.id, f.summary)).collect()
}

fn schemas(id: Option<&str>, as_json: bool) -> Result<String, Problem> {
    let all = holdup_report::schemas();
    if let Some(id) = id {
        return all.iter().find(|(name, _)| *name == id).map(|(_, text)| (*text).to_owned()).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            Problem::usage(format!("schema `{id}`"), "there is none of that name").hint(known.join(", "))
        });
    }
    if as_json {
        let members: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        return Ok(pretty(&json!({"schema": "holdup.list/1", "kind": "schemas", "members": members})));
    }
    Ok(all.iter().map(|(name, _)| format!("{name}\n")).collect())
}

/// The machines of the simulator; of one of them its file.
fn machines(name: Option<&str>, as_json: bool) -> Result<String, Problem> {
    if let Some(name) = name {
        return Ok(holdup_target::known_machine(name)?.to_toml());
    }
    let all = holdup_target::known_machines();
    if as_json {
        let members: Vec<_> = all
            .iter()
            .map(|m| json!({"id": m.name, "summary": m.summary, "cpus": m.machine.topology.cpus(), "memory_bytes": m.memory_bytes}))
            .collect();
        return Ok(pretty(&json!({"schema": "holdup.list/1", "kind": "machines", "members": members})));
    }
    let width = all.iter().map(|m| m.name.len()).max().unwrap_or(0);
    Ok(all
        .iter()
        .map(|m| format!("{:width$}  {:>4} CPUs  {}\n", m.name, m.machine.topology.cpus(), m.summary))
        .collect())
}

fn of_bundle(kind: &str, file: Option<&str>, boot: Option<u32>, as_json: bool) -> Result<String, Problem> {
    let file = file.ok_or_else(|| {
        Problem::usage(format!("holdup list {kind}"), "it needs a bundle")
            .hint(format!("holdup list {kind} FILE.holdup"))
    })?;
    let bundle = bundles::read(Path::new(file))?;
    Ok(match (kind, as_json) {
        ("boots", false) => boots::table(&bundle),
        ("boots", true) => pretty(&boots::json(&bundle)),
        ("logs", false) => boots::logs(&bundle, boot)?,
        ("logs", true) => pretty(&boots::logs_json(&bundle, boot)?),
        ("arms", false) => bundle.schedule.arms.iter().map(|a| format!("{:4}  {}\n", a.id, line(&a.label))).collect(),
        ("arms", true) => pretty(&json!({"schema": "holdup.list/1", "kind": "arms", "members": bundle.schedule.arms})),
        (_, false) => bundle.trials.iter().map(|t| trial_line(&bundle, t)).collect(),
        (_, true) => {
            let members: Vec<Value> = bundle.trials.iter().map(trial_json).collect();
            pretty(&json!({"schema": "holdup.list/1", "kind": "trials", "members": members}))
        }
    })
}

fn trial_line(bundle: &BundleData, trial: &holdup_model::Trial) -> String {
    let label = bundle.schedule.arms.get(trial.arm as usize).map_or_else(|| "?".to_owned(), |a| line(&a.label));
    let state = match &trial.status {
        TrialStatus::Done => trial
            .measurements
            .first()
            .and_then(|m| m.value.value().map(|v| format!("{} {v:.6}", line(&m.metric))))
            .unwrap_or_else(|| "done".to_owned()),
        // The first line: what follows it, the last words of a console, stands in the notes.
        TrialStatus::Void { reason } => format!("void: {}", line(reason.lines().next().unwrap_or(""))),
    };
    format!("{:5}  block {:3}  {label}  {state}\n", trial.seq, trial.block)
}

fn trial_json(trial: &holdup_model::Trial) -> Value {
    json!({
        "seq": trial.seq, "session": trial.session, "boot": trial.boot, "block": trial.block, "position": trial.position,
        "arm": trial.arm, "attempt": trial.attempt, "status": trial.status,
        "started_unix_ns": trial.started_unix_ns, "ended_unix_ns": trial.ended_unix_ns,
        "window": trial.window, "measurements": trial.measurements, "notes": trial.notes,
    })
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value can always be written")
}
