//! The page of a report.

use crate::constants::shown;
use holdup_model::published::{ClaimEvidence, PublishedReport, ReportClaim};
use std::fmt::Write as _;

/// The table in README.md.
pub(super) fn table(all: &[PublishedReport]) -> String {
    let mut out = "\n| report | what it says | claims |\n|---|---|---|\n".to_owned();
    for report in all {
        let PublishedReport { name, summary, .. } = report;
        let _infallible = writeln!(out, "| [{name}](docs/cases/{name}.md) | {summary} | {} |", report.verdicts());
    }
    out.push('\n');
    out
}

/// The page in Markdown.
pub(super) fn page(report: &PublishedReport) -> String {
    let mut out = String::new();
    let commands = commands(report);
    let _infallible = write!(
        out,
        "# {}: {}\n\nMade from `reports/{}.toml` by `cargo xtask reports`.\n\n**Reported: {}.** Claims: {}.\n\n",
        report.name,
        report.title,
        report.name,
        report.summary,
        report.verdicts()
    );
    for one in &report.publications {
        let parts = [one.author.clone(), one.title.clone(), Some(one.date.clone()), Some(one.place.clone())];
        let id = one.message_id.as_ref().map(|id| format!("Message-ID `{id}`"));
        let known: Vec<String> = parts.into_iter().chain([id]).flatten().collect();
        let _infallible = writeln!(out, "- {}", known.join(", "));
    }
    out.push_str("\n## Claims and verdicts\n\n| claim | published | verdict |\n|---|---|---|\n");
    for claim in &report.claims {
        let ReportClaim { id, sentence, conditions, why, verdict, .. } = claim;
        let published = published(claim);
        let _infallible =
            writeln!(out, "| {id}: {sentence} ({conditions}) | {published} | **{}**: {why} |", verdict.words());
    }
    let _infallible = write!(out, "\n## Cause\n\n{}\n\n", report.cause.trim());
    out.push_str("## What an operator does today\n\n| do | effect | how that is known |\n|---|---|---|\n");
    for line in &report.advice {
        let _infallible = writeln!(out, "| {} | {} | {} |", line.action, line.effect, line.evidence);
    }
    out.push_str(
        "\n## Evidence\n\nRatios of kept runs are computed from their bundles; the other numbers are of runs that are not kept, and the command \
         gives new ones.\n\n| claim | on what | result | counted | command |\n|---|---|---|---|---|\n",
    );
    for claim in &report.claims {
        for evidence in &claim.evidence {
            out.push_str(&row(claim, evidence, &commands));
        }
    }
    out.push('\n');
    for (number, command) in commands.iter().enumerate() {
        let _infallible = writeln!(out, "{}. `{command}`", number + 1);
    }
    out.push_str("\n## What is missing\n\n");
    report.missing.iter().for_each(|line| out.extend(["- ", line, "\n"]));
    let settling = &report.settling;
    let _infallible = write!(out, "\n## Ten minutes that decide it\n\nOn {}:\n\n", settling.owner);
    settling.commands.iter().for_each(|command| out.extend(["    ", command, "\n"]));
    let _infallible = write!(out, "\n{}.\n\nMore:", settling.reading);
    for (number, page) in report.pages.iter().enumerate() {
        let name = page.rsplit('/').next().unwrap_or_default().trim_end_matches(".md");
        let place = page.split('/').next().unwrap_or_default();
        let _infallible = write!(out, "{} [{place}: {name}](../{page})", if number > 0 { "," } else { "" });
    }
    out.push_str(".\n");
    out
}

fn published(claim: &ReportClaim) -> String {
    let number = |value: &f64| if *value >= 1000.0 { shown(value.round()) } else { value.to_string() };
    let each = claim.numbers.iter().map(|n| {
        let values: Vec<String> = n.values.iter().map(number).collect();
        format!("{}: {} {}", n.of, values.join(", "), n.unit).trim_end().to_owned()
    });
    match claim.numbers.is_empty() {
        true => "no number".to_owned(),
        false => each.collect::<Vec<_>>().join("; "),
    }
}

/// Every command of the evidence, each one time.
fn commands(report: &PublishedReport) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for evidence in report.claims.iter().flat_map(|claim| &claim.evidence) {
        if !all.contains(&evidence.command.as_str()) {
            all.push(&evidence.command);
        }
    }
    all
}

fn count(number: u32, what: &str) -> String {
    match number {
        0 => format!("{what}s not known"),
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn row(claim: &ReportClaim, evidence: &ClaimEvidence, commands: &[&str]) -> String {
    let models: Vec<&str> = evidence.models.iter().map(|model| model.word()).collect();
    let ratio = evidence.recorded.as_ref().map(|recorded| {
        let [ratio, low, high] = recorded.ratio;
        format!("×{ratio:.3} ({low:.3} to {high:.3}) ")
    });
    let note = evidence.note.as_ref().map(|note| format!("; {note}"));
    let events = evidence.events.map(|events| format!(", {events} events"));
    let kept = evidence.recorded.as_ref().map(|r| format!(", kept in reports/bundles/{}.holdup.gz", r.bundle));
    let at = commands.iter().position(|command| *command == evidence.command).map_or(0, |at| at + 1);
    format!(
        "| {} | {}: {}, {} ({}) | {}{}{} | {}, {}{} | {at}{} |\n",
        claim.id,
        evidence.kind.words(),
        evidence.machine,
        evidence.kernel,
        models.join(", "),
        ratio.unwrap_or_default(),
        evidence.result,
        note.unwrap_or_default(),
        count(evidence.blocks, "block"),
        count(evidence.sessions, "session"),
        events.unwrap_or_default(),
        kept.unwrap_or_default(),
    )
}
