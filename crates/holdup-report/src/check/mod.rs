//! What `holdup check` found: the verdict, what it rests on, and all that was looked at.

mod lines;

use crate::formats::terminal::TerminalOptions;
use crate::screen::Screen;
use crate::text::{capital, clean, count, wrap};
use holdup_model::survey::{CaseFinding, Exposure, Survey, Weight};
use lines::Group;
use serde_json::json;
use std::collections::BTreeMap;

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub struct Checked<'a> {
    /// What was found.
    pub survey: &'a Survey,
    /// What was found of each case, those that hit first.
    pub findings: &'a [CaseFinding],
    /// The verdict of all.
    pub overall: Exposure,
    /// Advice that cannot work here.
    pub impossible: &'a [String],
}

/// As one JSON document of schema `holdup.check/1`.
pub fn check_json(checked: &Checked<'_>) -> String {
    crate::formats::json::pretty(&json!({
        "schema": "holdup.check/1",
        "verdict": checked.overall,
        "findings": checked.findings,
        "impossible_advice": checked.impossible,
        "survey": checked.survey,
    }))
}

/// For a terminal: the answer, on one screen of 24 lines of 80 columns.
pub fn check_terminal(checked: &Checked<'_>, options: &TerminalOptions) -> String {
    if options.details {
        return details(checked, options);
    }
    let (shown, rest): (Vec<_>, Vec<_>) = checked.findings.iter().partition(|f| {
        f.exposure == Exposure::Exposed || f.exposure == Exposure::Undecided && f.weight == Weight::High
    });
    let mut screen = Screen::new(&in_short(&rest, options));
    screen.begin(&head(checked, options));
    shown.into_iter().for_each(|finding| screen.offer(&brief(finding, options)));
    screen.finish("finding")
}

/// What passed, what was not checked, and where the rest is.
fn in_short(findings: &[&CaseFinding], options: &TerminalOptions) -> String {
    let width = options.columns();
    let mut out = String::new();
    let passed = findings.iter().filter(|f| f.exposure == Exposure::NotExposed).count();
    if passed > 0 {
        out.push_str(&wrap(&format!("{} passed.", count(passed, "check")), width, "", "  "));
    }
    let mut by_change: BTreeMap<Option<&String>, Vec<&str>> = BTreeMap::new();
    for finding in findings.iter().filter(|f| f.exposure == Exposure::Undecided) {
        by_change.entry(finding.would_change.first()).or_default().push(&finding.case);
    }
    for (change, cases) in by_change {
        let how = change.map_or_else(String::new, |change| format!(": {change}"));
        out.push_str(&wrap(&format!("Not checked: {}{how}", cases.join(", ")), width, "", "  "));
    }
    out.push_str(&wrap("Everything that was looked at, with sources: holdup check --details", width, "", "  "));
    out
}

/// A finding with its first reason and its first advice.
fn brief(finding: &CaseFinding, options: &TerminalOptions) -> String {
    let width = options.columns();
    let about = finding.server.as_deref().map_or_else(String::new, |s| format!(" ({})", clean(s)));
    let head = match finding.exposure {
        Exposure::Undecided => format!("Not known: {}{about} [{}]", finding.summary, finding.case),
        _ => format!("{}{about} [{}]", capital(&finding.summary), finding.case),
    };
    let mut out = format!("\n{}", options.bold_lines(&wrap(&head, width, "", "  ")));
    if let Some(reason) = finding.reasons.first() {
        out.push_str(&wrap(reason, width, "  ", "  "));
    }
    let action = finding.advice.first().map(|advice| &advice.action);
    if let Some(action) = action.or(finding.would_change.first().filter(|_| finding.exposure == Exposure::Undecided)) {
        out.push_str(&wrap(action, width, "  → ", "    "));
    }
    out
}

/// For a terminal: the verdict in the first line, then cases, then everything that was looked at.
fn details(checked: &Checked<'_>, options: &TerminalOptions) -> String {
    let mut out = head(checked, options);
    for finding in checked.findings.iter().filter(|f| f.exposure != Exposure::NotExposed) {
        out.push_str(&in_full(finding, options));
    }
    out.push_str(&cleared(checked.findings, options));
    out.push_str(&impossible(checked.impossible, options));
    out.push_str(&sources(checked.survey, options));
    let groups = lines::groups(checked.survey);
    for group in &groups {
        out.push_str(&table(group, options));
    }
    out.push_str(&remarks(checked.survey, options));
    out.push_str(&not_known(&groups, options));
    out
}

/// The verdict, and the preemption model.
fn head(checked: &Checked<'_>, options: &TerminalOptions) -> String {
    let mut out = wrap(&headline(checked), options.columns(), "", "");
    if options.color {
        let color = match checked.overall {
            Exposure::Exposed => 31,
            Exposure::Undecided => 33,
            Exposure::NotExposed => 32,
        };
        out = out.lines().map(|line| format!("\u{1b}[1;{color}m{line}\u{1b}[0m\n")).collect();
    }
    out.push_str(&wrap(&preemption(checked.survey), options.columns(), "", ""));
    out
}

fn headline(checked: &Checked<'_>) -> String {
    let counted = || checked.findings.iter().filter(|f| f.weight != Weight::None);
    let of = |exposure: Exposure| counted().filter(move |f| f.exposure == exposure);
    let (all, exposed, open) = (counted().count(), of(Exposure::Exposed).count(), of(Exposure::Undecided).count());
    let all_need =
        |what: &str| of(Exposure::Undecided).all(|f| f.would_change.iter().any(|change| change.contains(what)));
    let needs = if open == 1 { "needs" } else { "need" };
    let rest = match (all_need("as root"), all_need("debugfs")) {
        _ if open == 0 => String::new(),
        (true, true) => format!(" {open} of {all} checks {needs} root and debugfs."),
        (true, false) => format!(" {open} of {all} checks {needs} root."),
        _ => format!(" {open} of {all} checks could not be decided."),
    };
    match checked.overall {
        Exposure::Exposed if exposed == 1 => format!("1 known regression affects this host.{rest}"),
        Exposure::Exposed => format!("{exposed} known regressions affect this host.{rest}"),
        Exposure::Undecided => format!("Undecided whether a known regression affects this host.{rest}"),
        Exposure::NotExposed => format!("No known regression affects this host.{rest}"),
    }
}

fn preemption(survey: &Survey) -> String {
    let kernel =
        survey.kernel.release.get().map_or_else(|| "a kernel of unknown version".to_owned(), |r| format!("Linux {r}"));
    let preempt = &survey.preempt;
    let model = match (preempt.model.get(), survey.probe.as_ref().and_then(|p| p.models.get())) {
        (Some(model), _) => format!("the preemption model in force is {} ({})", model.word(), preempt.model.source),
        (None, Some(models)) if !models.is_empty() => {
            let words: Vec<&str> = models.iter().map(|m| m.word()).collect();
            format!("the preemption model in force is {} (measured)", words.join(" or "))
        }
        _ => "which preemption model is in force is not known".to_owned(),
    };
    format!("{kernel}: {model}.")
}

fn word(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::Exposed => "exposed",
        Exposure::Undecided => "undecided",
        Exposure::NotExposed => "not exposed",
    }
}

/// A case that hits or is open, in full.
fn in_full(finding: &CaseFinding, options: &TerminalOptions) -> String {
    let width = options.columns();
    let about = finding.server.as_deref().map_or_else(String::new, |s| format!(" ({})", clean(s)));
    let aside = if finding.weight == Weight::None { ", no harm by itself" } else { "" };
    let head = format!("{}{aside}: {}{about} [{}]", capital(word(finding.exposure)), finding.summary, finding.case);
    let mut out = format!("\n{}", options.bold_lines(&wrap(&head, width, "", "  ")));
    for reason in &finding.reasons {
        out.push_str(&wrap(reason, width, "  · ", "    "));
    }
    let label = if finding.exposure == Exposure::Exposed { "would clear it: " } else { "would decide it: " };
    if !finding.would_change.is_empty() {
        out.push_str(&wrap(&format!("{label}{}", finding.would_change.join("; or ")), width, "  ", "    "));
    }
    for advice in &finding.advice {
        out.push_str(&wrap(&advice.action, width, "  → ", "    "));
        out.push_str(&wrap(&format!("evidence: {}", advice.evidence), width, "    ", "      "));
        out.push_str(&wrap(&format!("to undo: {}", advice.undo), width, "    ", "      "));
    }
    out
}

/// The cases that do not hit, one sentence each.
fn cleared(findings: &[CaseFinding], options: &TerminalOptions) -> String {
    let mut out = String::new();
    for finding in findings.iter().filter(|f| f.exposure == Exposure::NotExposed) {
        if out.is_empty() {
            out = format!("\n{}", options.bold_lines("Not exposed\n"));
        }
        let about = finding.server.as_deref().map_or_else(String::new, |s| format!(" ({})", clean(s)));
        let reason = finding.reasons.first().map_or("", String::as_str);
        out.push_str(&wrap(&format!("{}{about}: {reason}", finding.case), options.columns(), "  · ", "    "));
    }
    out
}

fn impossible(all: &[String], options: &TerminalOptions) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}", options.bold_lines("Advice that cannot work here\n"));
    for sentence in all {
        out.push_str(&wrap(sentence, options.columns(), "  · ", "    "));
    }
    out
}

/// What each source says of the preemption model.
fn sources(survey: &Survey, options: &TerminalOptions) -> String {
    let width = options.columns();
    let mut out = format!("\n{}", options.bold_lines("Sources for the preemption model\n"));
    for source in &survey.preempt.sources {
        let says: Vec<&str> = source.says.iter().map(|m| m.word()).collect();
        let says = if says.is_empty() { "not known".to_owned() } else { says.join(" or ") };
        out.push_str(&wrap(&format!("{}: {says} ({})", source.source, source.note), width, "  · ", "    "));
    }
    if let Some(probe) = &survey.probe {
        let says = match (probe.models.get(), &probe.models.why_unknown) {
            (Some(models), _) => models.iter().map(|m| m.word()).collect::<Vec<_>>().join(" or "),
            (None, why) => format!("not known ({})", why.as_deref().unwrap_or_default()),
        };
        out.push_str(&wrap(&format!("the probe: {says}. {}", probe.measured.join(" ")), width, "  · ", "    "));
    }
    if let Some(disagreement) = &survey.preempt.disagreement {
        out.push_str(&wrap(&format!("They disagree: {disagreement}."), width, "  ", "  "));
    }
    out
}

fn table(group: &Group, options: &TerminalOptions) -> String {
    let known: Vec<_> = group.lines.iter().filter(|l| l.value.is_some()).collect();
    if known.is_empty() {
        return String::new();
    }
    let label = known.iter().map(|l| l.label.chars().count()).max().unwrap_or(0);
    let indent = " ".repeat(label + 4);
    let mut out = format!("\n{}", options.bold_lines(&wrap(&group.title, options.columns(), "", "  ")));
    for line in known {
        let value = line.value.as_deref().unwrap_or_default();
        let first = format!("  {:label$}  ", line.label);
        out.push_str(&wrap(&format!("{value} ({})", line.source), options.columns(), &first, &indent));
    }
    out
}

/// Sentences that belong to a setting or a server.
fn remarks(survey: &Survey, options: &TerminalOptions) -> String {
    let folklore = survey.settings.iter().filter_map(|s| Some(format!("{}: {}.", s.name, s.folklore.as_ref()?)));
    let servers = survey.servers.get().into_iter().flatten();
    let notes = servers.flat_map(|s| s.notes.iter().map(move |note| format!("{}: {note}", s.name)));
    let steps = survey.slice_extension.reasons.iter().map(|r| format!("time slice extension, {r}."));
    let all: Vec<String> = folklore.chain(notes).chain(steps).collect();
    let mut out = if all.is_empty() { String::new() } else { format!("\n{}", options.bold_lines("Remarks\n")) };
    for sentence in &all {
        out.push_str(&wrap(sentence, options.columns(), "  · ", "    "));
    }
    out
}

/// What could not be read, with the reason and the remedy.
fn not_known(groups: &[Group], options: &TerminalOptions) -> String {
    let mut out = String::new();
    for group in groups {
        for line in group.lines.iter().filter(|l| l.value.is_none()) {
            if out.is_empty() {
                out = format!("\n{}", options.bold_lines("Not known\n"));
            }
            let remedy = line.remedy.as_ref().map_or_else(String::new, |r| format!("; {r}"));
            let text = format!("{}, {}: {}: {}{remedy}", group.title, line.label, line.source, line.why);
            out.push_str(&wrap(&text, options.columns(), "  · ", "    "));
        }
    }
    out
}
