//! `holdup list`: the catalogues, and the contents of a bundle.

use super::boots;
use crate::cli::MemoryLimit;
use crate::output;
use holdup_evidence::CollectContext;
use holdup_host::Host;
use holdup_knobs::KnobContext;
use holdup_load::PostgresOptions;
use holdup_model::foreign::line;
use holdup_model::published::PublishedReport;
use holdup_model::{Availability, BundleData, Meta, Parameter, ParameterKind, Problem, TrialStatus};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Workloads,
    Algorithms,
    Collectors,
    Knobs,
    /// What `holdup tune` tries
    Tunables,
    Cases,
    /// Published reports, and what is known of their claims
    Reports,
    Analyses,
    Explanations,
    Targets,
    /// Tools whose results `holdup import` reads
    Importers,
    /// What `holdup exporter` exports
    Metrics,
    Machines,
    Formats,
    Schemas,
    /// The arms of a bundle
    Arms,
    /// The trials of a bundle
    Trials,
    /// The boots of a bundle's guests
    Boots,
    /// What a bundle's guests logged
    Logs,
}

/// List workloads, collectors, knobs, …, or parts of a bundle
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  holdup list workloads            holdup list trials a.holdup
  holdup list workloads pgbench    holdup list logs a.holdup --boot 2")]
pub(crate) struct Args {
    /// What to list
    #[arg(value_enum)]
    kind: Kind,
    /// One member, in full; or the bundle
    #[arg(value_name = "ID|FILE")]
    what: Option<String>,
    /// With `logs`: only those of this boot, in full
    #[arg(long, value_name = "N")]
    boot: Option<u32>,
    /// Print all rows of a bundle, in full
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Kind {
    fn name(self) -> String {
        format!("{self:?}").to_ascii_lowercase()
    }
}

/// The columns of a screen.
const COLUMNS: usize = 80;

/// One member of a catalogue, as it is listed.
#[derive(Default)]
struct Row {
    id: &'static str,
    summary: &'static str,
    docs: &'static str,
    references: &'static [&'static str],
    /// The published report of a case.
    report: Option<&'static str>,
    /// Whether it can be used here; `None` where that does not apply.
    here: Option<Availability>,
    parameters: Vec<&'static Parameter>,
    /// Names, units and meanings of the evidence of a collector.
    produces: Vec<(&'static str, &'static str, &'static str)>,
}

impl Row {
    fn of(meta: &'static Meta, here: Option<Availability>) -> Self {
        let Meta { id, summary, docs, references } = *meta;
        Row { id, summary, docs, references, here, ..Row::default() }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let Args { kind, boot, json, .. } = *args;
    let what = args.what.as_deref();
    if boot.is_some() && kind != Kind::Logs {
        return Err(Problem::usage("--boot", "only `holdup list logs` has boots to choose from")
            .hint("holdup list logs FILE.holdup --boot N")
            .into());
    }
    let text = match kind {
        Kind::Arms | Kind::Trials | Kind::Boots | Kind::Logs => {
            let rows = of_bundle(kind, what, boot, args)?;
            holdup_report::list(&rows, args.details || json || boot.is_some())
        }
        Kind::Schemas => schemas(what, json)?,
        Kind::Machines => machines(what, json)?,
        Kind::Reports => reports(what, json)?,
        Kind::Formats => formats(json),
        Kind::Metrics => metrics(what, json)?,
        _ => catalogue(kind, what, json)?,
    };
    output::data(&text)?;
    Ok(0)
}

fn rows(kind: Kind) -> Vec<Row> {
    let host = Host::real();
    match kind {
        Kind::Workloads => workloads(&host),
        Kind::Algorithms => holdup_locks::algorithms::ALL.iter().map(|a| Row::of(a.meta, Some(a.probe()))).collect(),
        Kind::Collectors => collectors(&host),
        Kind::Knobs => knobs(&host),
        Kind::Tunables => tunables(),
        Kind::Analyses => holdup_analysis::analyses::ALL.iter().map(|a| Row::of(a.meta, None)).collect(),
        Kind::Explanations => holdup_analysis::explanations::ALL.iter().map(|e| Row::of(e.meta, None)).collect(),
        Kind::Importers => holdup_import::KINDS.iter().map(|kind| Row::of(&kind.meta, None)).collect(),
        Kind::Cases => {
            holdup_analysis::cases::ALL.iter().map(|c| Row { report: c.report, ..Row::of(c.meta, None) }).collect()
        }
        Kind::Targets => holdup_target::targets::ALL.iter().map(|t| Row::of(t.meta(), Some(t.probe(&host)))).collect(),
        _ => Vec::new(),
    }
}

fn workloads(host: &Host) -> Vec<Row> {
    let here = PostgresOptions::default();
    holdup_workloads::workloads::ALL
        .iter()
        .map(|w| Row {
            // Parameters with a dot belong to members and are in their rows.
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

/// What a search of settings tries; each level with its class.
fn tunables() -> Vec<Row> {
    let of_group = |group: &'static holdup_knobs::tunables::Group| group.tunables.iter().map(move |t| (group, t));
    holdup_knobs::tunables::ALL
        .iter()
        .flat_map(of_group)
        .map(|(group, tunable)| Row {
            id: tunable.name,
            summary: tunable.why,
            docs: group.summary,
            produces: tunable.choices().into_iter().map(|(label, _)| (label, tunable.class.name(), group.id)).collect(),
            ..Row::default()
        })
        .collect()
}

fn catalogue(kind: Kind, id: Option<&str>, as_json: bool) -> Result<String, Problem> {
    let rows = rows(kind);
    let chosen: Vec<&Row> = rows.iter().filter(|r| id.is_none_or(|id| r.id == id)).collect();
    if let (Some(id), true) = (id, chosen.is_empty()) {
        return Err(unknown(kind, id, rows.iter().map(|r| r.id)));
    }
    if as_json {
        return Ok(document(kind, chosen.iter().map(|r| row_json(r))));
    }
    if let (Some(_), [row]) = (id, chosen.as_slice()) {
        let here = here_in_words(row.here.as_ref());
        return Ok(format!("{}  {}{here}\n{}", row.id, row.summary, in_full(row)));
    }
    let width = chosen.iter().map(|r| r.id.len()).max().unwrap_or(0);
    // The last line names those for which the screen has no line.
    let lines = if chosen.len() > SCREEN_LINES { SCREEN_LINES - 1 } else { chosen.len() };
    let (shown, others) = chosen.split_at(lines);
    let mut text: String =
        shown.iter().map(|row| one_line(row.id, row.summary, mark(row.here.as_ref()), width)).collect();
    if !others.is_empty() {
        let names = others.iter().map(|row| row.id).collect::<Vec<_>>().join(", ");
        text.push_str(&one_line("and", &names, "", width));
    }
    // A list that fills the screen has no line for it.
    if chosen.len() < SCREEN_LINES && chosen.iter().any(|row| !mark(row.here.as_ref()).is_empty()) {
        let _infallible = writeln!(text, "why not here: holdup list {} ID", kind.name());
    }
    Ok(text)
}

/// Lines of a terminal of 80 columns.
const SCREEN_LINES: usize = 24;

/// A member on one line of a screen; its summary is cut at a word where there is no room for all of it.
fn one_line(id: &str, summary: &str, mark: &str, width: usize) -> String {
    let room = COLUMNS.saturating_sub(width + 2 + mark.chars().count());
    let mut shown = summary.to_owned();
    while shown.chars().count() > room {
        let words = shown.trim_end_matches('…').trim_end();
        shown = format!("{}…", words.rsplit_once(' ').map_or("", |(before, _)| before));
        if shown == "…" {
            break;
        }
    }
    format!("{id:width$}  {shown}{mark}\n")
}

fn mark(here: Option<&Availability>) -> &'static str {
    match here {
        None | Some(Availability::Ready) => "",
        Some(Availability::Degraded { .. }) => " [in part]",
        Some(Availability::Unavailable { .. }) => " [not here]",
    }
}

fn unknown<'a>(kind: Kind, id: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.collect();
    Problem::usage(format!("{} `{id}`", kind.name()), "there is none with this name").hint(known.join(", "))
}

/// The JSON document of a list.
fn document(kind: Kind, members: impl Iterator<Item = Value>) -> String {
    let members: Vec<Value> = members.collect();
    pretty(&json!({"schema": "holdup.list/1", "kind": kind.name(), "members": members}))
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
    if let Some(report) = row.report {
        let _infallible = writeln!(text, "\nclaims: holdup list reports {report}");
    }
    text
}

fn row_json(row: &Row) -> Value {
    json!({
        "id": row.id,
        "summary": row.summary,
        "docs": row.docs,
        "references": row.references,
        "report": row.report,
        "here": row.here,
        "parameters": row.parameters,
        "brings": row.produces.iter().map(|(name, unit, summary)| json!({"name": name, "unit": unit, "summary": summary})).collect::<Vec<_>>(),
    })
}

/// What is exported, by the names in a query.
fn metrics(name: Option<&str>, as_json: bool) -> Result<String, Problem> {
    let all: Vec<Exported> = holdup_live::families().map(Exported::of).collect();
    let chosen: Vec<&Exported> = all.iter().filter(|f| name.is_none_or(|name| f.name == name)).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        return Err(unknown(Kind::Metrics, name, all.iter().map(|f| f.name.as_str())));
    }
    if as_json {
        return Ok(document(Kind::Metrics, chosen.iter().map(|f| f.to_json())));
    }
    if let (Some(_), [f]) = (name, chosen.as_slice()) {
        return Ok(format!("{}{{{}}}  {}\n\n{}\n", f.name, f.labels.join(", "), f.kind, f.help));
    }
    let width = chosen.iter().map(|f| f.name.len()).max().unwrap_or(0);
    Ok(chosen.iter().map(|f| one_line(&f.name, f.help, "", width)).collect())
}

/// A family as it is listed.
struct Exported {
    name: String,
    kind: &'static str,
    unit: &'static str,
    labels: Vec<&'static str>,
    help: &'static str,
}

impl Exported {
    fn of(family: &holdup_live::Family) -> Self {
        Exported {
            name: family.exposed_name(),
            kind: family.kind.name(),
            unit: family.unit,
            labels: std::iter::once("watched").chain(family.labels.iter().copied()).collect(),
            help: family.help,
        }
    }

    fn to_json(&self) -> Value {
        json!({"name": self.name, "kind": self.kind, "unit": self.unit, "labels": self.labels, "help": self.help})
    }
}

fn formats(as_json: bool) -> String {
    let all = holdup_report::formats::ALL;
    if as_json {
        return document(Kind::Formats, all.iter().map(|f| json!({"id": f.id, "summary": f.summary})));
    }
    all.iter().map(|f| format!("{:10}  {}\n", f.id, f.summary)).collect()
}

fn schemas(id: Option<&str>, as_json: bool) -> Result<String, Problem> {
    let all = holdup_report::schemas();
    if let Some(id) = id {
        let found = all.iter().find(|(name, _)| *name == id).map(|(_, text)| (*text).to_owned());
        return found.ok_or_else(|| unknown(Kind::Schemas, id, all.iter().map(|(name, _)| *name)));
    }
    if as_json {
        return Ok(document(Kind::Schemas, all.iter().map(|(name, _)| json!(name))));
    }
    Ok(all.iter().map(|(name, _)| format!("{name}\n")).collect())
}

/// Published reports; with a name, the claims of that one.
fn reports(name: Option<&str>, as_json: bool) -> Result<String, Problem> {
    let all = holdup_catalogue::reports::all();
    let chosen: Vec<_> = all.iter().filter(|report| name.is_none_or(|name| report.name == name)).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        return Err(unknown(Kind::Reports, name, all.iter().map(|report| report.name.as_str())));
    }
    if as_json {
        return Ok(document(Kind::Reports, chosen.iter().map(|report| {
            let claims = report.claims.iter();
            let claims = claims.map(|c| json!({"id": c.id, "sentence": c.sentence, "verdict": c.verdict.words(), "why": c.why}));
            json!({"id": report.name, "summary": report.summary, "verdicts": report.verdicts(), "claims": claims.collect::<Vec<_>>()})
        })));
    }
    let (Some(_), [report]) = (name, chosen.as_slice()) else {
        let width = all.iter().map(|report| report.name.len()).max().unwrap_or(0);
        let row = |r: &&PublishedReport| one_line(&r.name, &format!("{}: {}", r.verdicts(), r.summary), "", width);
        return Ok(chosen.iter().map(row).collect());
    };
    let mut text = format!("{}: {}\n\n{}.\n", report.name, report.title, report.summary);
    for claim in &report.claims {
        let _infallible =
            writeln!(text, "\n{}: {}\n  {}: {}.", claim.id, claim.sentence, claim.verdict.words(), claim.why);
    }
    let _infallible = writeln!(text, "\nevidence: docs/cases/{}.md", report.name);
    Ok(text)
}

/// The machines of the simulator; with a name, the file of that machine.
fn machines(name: Option<&str>, as_json: bool) -> Result<String, Problem> {
    if let Some(name) = name {
        let mut text = holdup_target::known_machine(name)?.to_toml();
        text.push_str("\n# Every simulated machine leaves out:\n");
        text.extend(holdup_target::OMISSIONS.iter().map(|omission| format!("# {}: {}\n", omission.id, omission.what)));
        return Ok(text);
    }
    let all = holdup_target::known_machines();
    if as_json {
        return Ok(document(Kind::Machines, all.iter().map(|m| {
            json!({"id": m.name, "summary": m.summary, "cpus": m.machine.topology.cpus(), "memory_bytes": m.memory_bytes})
        })));
    }
    let width = all.iter().map(|m| m.name.len()).max().unwrap_or(0);
    Ok(all
        .iter()
        .map(|m| one_line(&m.name, &format!("{:>4} CPUs  {}", m.machine.topology.cpus(), m.summary), "", width))
        .collect())
}

fn of_bundle(kind: Kind, file: Option<&str>, boot: Option<u32>, args: &Args) -> Result<String, Problem> {
    let file = file.ok_or_else(|| {
        let command = format!("holdup list {}", kind.name());
        Problem::usage(command.as_str(), "it needs a bundle").hint(format!("{command} FILE.holdup"))
    })?;
    let bundle = holdup_bundle::read_without_events(Path::new(file), &args.memory.budget())?;
    Ok(match (kind, args.json) {
        (Kind::Boots, false) => boots::table(&bundle),
        (Kind::Boots, true) => document(kind, boots::json(&bundle).into_iter()),
        (Kind::Logs, false) => boots::logs(&bundle, boot)?,
        (Kind::Logs, true) => document(kind, boots::chosen(&bundle, boot)?.into_iter().map(|log| json!(log))),
        (Kind::Arms, false) => {
            bundle.schedule.arms.iter().map(|a| format!("{:4}  {}\n", a.id, line(&a.label))).collect()
        }
        (Kind::Arms, true) => document(kind, bundle.schedule.arms.iter().map(|arm| json!(arm))),
        (_, false) => bundle.trials.iter().map(|t| trial_line(&bundle, t)).collect(),
        (_, true) => document(kind, bundle.trials.iter().map(trial_json)),
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
        // The notes have the rest: the last lines of a console.
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
