//! What delays a system, for a terminal, in Markdown, as JSON and on the page.

use crate::account;
use crate::formats::terminal::{TerminalOptions, caution};
use crate::screen::Screen;
use crate::text::{self, clean, wrap};
use holdup_model::Explanation;
use holdup_model::explanation::{Advice, ArmExplanation, Cause, EvidenceRef};
use holdup_model::foreign::markdown as escape;
use holdup_model::outcome::FindingVerdict;
use serde_json::json;
use std::collections::BTreeMap;

/// The parts of an explanation: head, mark in front of a sentence, verdict.
const PARTS: [(&str, &str, FindingVerdict); 3] = [
    ("Causes", "▸ ", FindingVerdict::Supported),
    ("Undecided", "~ ", FindingVerdict::Undecided),
    ("Ruled out", "✓ ", FindingVerdict::Refuted),
];

/// The id of the cause that stands for none.
const NOTHING: &str = "nothing";

/// An explanation for a terminal: the answer on one screen, or all of it. `title` is the bundle's name.
pub fn explain_terminal(explanation: &Explanation, title: &str, options: &TerminalOptions) -> String {
    let columns = options.columns();
    if options.details {
        let mut out = caution(explanation.caution.as_deref(), options);
        out.push_str(&answers(explanation, options));
        out.push_str(&wrap(title, columns, "", ""));
        explanation.notes.iter().for_each(|note| out.push_str(&wrap(note, columns, "! ", "  ")));
        explanation.arms.iter().for_each(|arm| out.push_str(&one_arm(arm, explanation.arms.len() == 1, options)));
        return out;
    }
    let mut screen = Screen::new(&end(explanation, columns));
    screen.begin(&format!("{}{}", caution(explanation.caution.as_deref(), options), answers(explanation, options)));
    screen.begin(&wrap(title, columns, "", ""));
    if let [arm] = explanation.arms.as_slice() {
        screen.begin(&wrap(&format!("{} {}", looked_at(arm), arm.cost), columns, "", ""));
    }
    explanation.notes.iter().for_each(|note| screen.offer(&wrap(note, columns, "! ", "  ")));
    for arm in &explanation.arms {
        let decisive = match arm.verdict {
            FindingVerdict::Supported => FindingVerdict::Supported,
            _ => FindingVerdict::Undecided,
        };
        shown(arm, decisive).for_each(|cause| screen.offer(&brief(arm, cause, explanation, options)));
    }
    screen.finish("cause")
}

/// The answer for each arm, and how the arms differ.
fn answers(explanation: &Explanation, options: &TerminalOptions) -> String {
    let columns = options.columns();
    let mut out = String::new();
    if explanation.arms.is_empty() {
        out.push_str(&options.bold_lines(&wrap("Undecided: no window has evidence.", columns, "", "")));
    }
    for arm in &explanation.arms {
        let answer =
            if explanation.arms.len() == 1 { arm.answer.clone() } else { format!("{}: {}", arm.label, arm.answer) };
        out.push_str(&options.bold_lines(&wrap(&answer, columns, "", "  ")));
    }
    explanation.differences.iter().for_each(|d| out.push_str(&wrap(d, columns, "≠ ", "  ")));
    out
}

/// Everything, where the title stands above it.
pub(crate) fn body(explanation: &Explanation, options: &TerminalOptions) -> String {
    let mut out = format!("\n{}", answers(explanation, options));
    explanation.arms.iter().for_each(|arm| out.push_str(&one_arm(arm, explanation.arms.len() == 1, options)));
    out
}

/// A cause with its first details and what to do.
fn brief(arm: &ArmExplanation, cause: &Cause, explanation: &Explanation, options: &TerminalOptions) -> String {
    let columns = options.columns();
    let mut out = "\n".to_owned();
    let mark = if cause.verdict == FindingVerdict::Supported { "▸ " } else { "~ " };
    // A single cause is the answer already.
    let is_answer = explanation.arms.len() == 1 && arm.answer.starts_with(&cause.sentence);
    if !is_answer {
        let label = if explanation.arms.len() > 1 { format!("{}: ", arm.label) } else { String::new() };
        out.push_str(&options.bold_lines(&wrap(&format!("{label}{}", cause.sentence), columns, mark, "  ")));
    }
    let (details, advice) = if explanation.arms.len() == 1 { (2, 4) } else { (0, 2) };
    cause.details.iter().take(details).for_each(|d| out.push_str(&wrap(d, columns, "  ", "  ")));
    for advice in cause.advice.iter().take(advice) {
        out.push_str(&wrap(&advice.change, columns, "  → ", "    "));
    }
    if cause.advice.is_empty() {
        cause.missing.iter().for_each(|m| out.push_str(&wrap(&m.remedy, columns, "  → ", "    ")));
    }
    out
}

/// What is ruled out, and where the rest is.
fn end(explanation: &Explanation, columns: usize) -> String {
    let refuted = |arm: &ArmExplanation| shown(arm, FindingVerdict::Refuted).count();
    let least = explanation.arms.iter().map(refuted).min().unwrap_or(0);
    let is_found = explanation.verdict() == FindingVerdict::Supported;
    let ruled_out = match least {
        0 => String::new(),
        n => format!("{} ruled out. ", text::count(n, if is_found { "other cause" } else { "cause" })),
    };
    wrap(&format!("{ruled_out}Evidence, all advice and how to undo it: --details."), columns, "", "")
}

fn one_arm(arm: &ArmExplanation, is_one: bool, options: &TerminalOptions) -> String {
    let columns = options.columns();
    let mut out = String::new();
    if !is_one {
        out.push('\n');
        out.push_str(&options.bold_lines(&wrap(&arm.label, columns, "", "")));
    }
    out.push_str(&wrap(&format!("{} {}", looked_at(arm), arm.cost), columns, "", ""));
    out.push_str(&arm.account.as_ref().map(|a| account::terminal(a, options)).unwrap_or_default());
    for (head, mark, verdict) in PARTS {
        let causes: Vec<&Cause> = shown(arm, verdict).collect();
        if causes.is_empty() {
            continue;
        }
        out.push_str(&format!("\n{}", options.bold_lines(head)));
        for cause in causes {
            out.push_str(&wrap(&cause.sentence, columns, mark, "  "));
            if verdict != FindingVerdict::Refuted {
                out.push_str(&in_full(cause, columns));
            }
        }
    }
    out
}

/// The causes of one verdict; that there is none stands in the answer alone.
fn shown(arm: &ArmExplanation, verdict: FindingVerdict) -> impl Iterator<Item = &Cause> {
    arm.causes.iter().filter(move |c| c.verdict == verdict && c.id != NOTHING)
}

/// `10 windows, 30 s in all.`
fn looked_at(arm: &ArmExplanation) -> String {
    let length = text::duration((arm.watched_s * 1e9) as u64);
    format!("{}, {length} in all; intervals are 95 %.", text::count(arm.windows as usize, "window"))
}

fn in_full(cause: &Cause, columns: usize) -> String {
    let mut out: String = cause.details.iter().map(|d| wrap(d, columns, "    ", "    ")).collect();
    for missing in &cause.missing {
        out.push_str(&wrap(&format!("to collect it: {}", missing.remedy), columns, "    ", "    "));
    }
    for advice in &cause.advice {
        out.push_str(&wrap(&advice.change, columns, "    → ", "      "));
        for (name, part) in parts_of(advice) {
            out.push_str(&wrap(&format!("{name}: {part}"), columns, "      ", "        "));
        }
    }
    if let Some(rests) = rests_on(cause) {
        out.push_str(&wrap(&rests, columns, "    ", "    "));
    }
    out
}

/// What stands below an advice, in order.
fn parts_of(advice: &Advice) -> Vec<(&'static str, &str)> {
    let mut parts = vec![("effect", advice.effect.as_str())];
    parts.extend(advice.conditions.as_deref().map(|c| ("requires", c)));
    parts.extend(advice.experiment.as_deref().map(|e| ("measure", e)));
    parts.push(("undo", &advice.undo));
    parts
}

/// `evidence: critical-sections (holder_off_cpu_s, waiter_s), switches (on_cpu_s); trials 0 to 9`.
fn rests_on(cause: &Cause) -> Option<String> {
    let mut by_collector: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for EvidenceRef { collector, item } in &cause.evidence {
        by_collector.entry(collector).or_default().push(item);
    }
    let items: Vec<String> = by_collector.iter().map(|(c, items)| format!("{c} ({})", items.join(", "))).collect();
    let trials = match (cause.trials.first(), cause.trials.last()) {
        (Some(first), Some(last)) if last > first => format!("; trials {first} to {last}"),
        (Some(only), _) => format!("; trial {only}"),
        (None, _) => String::new(),
    };
    (!items.is_empty()).then(|| format!("evidence: {}{trials}", items.join(", ")))
}

/// An explanation in Markdown, from a heading of the second level on.
pub fn explain_markdown(explanation: &Explanation) -> String {
    let mut out = explanation.caution.as_ref().map(|c| format!("**{}**\n\n", escape(c))).unwrap_or_default();
    out.push_str("## Causes of delay\n");
    for arm in &explanation.arms {
        if explanation.arms.len() > 1 {
            out.push_str(&format!("\n### {}\n", escape(&arm.label)));
        }
        out.push_str(&format!("\n**{}**\n\n{} {}\n", escape(&arm.answer), escape(&looked_at(arm)), escape(&arm.cost)));
        out.push_str(&arm.account.as_ref().map(account::markdown).unwrap_or_default());
        for (head, _, verdict) in PARTS {
            let causes: Vec<&Cause> = shown(arm, verdict).collect();
            if !causes.is_empty() {
                out.push_str(&format!("\n{head}:\n\n"));
            }
            for cause in causes {
                out.push_str(&format!("- {}\n", escape(&cause.sentence)));
                if verdict != FindingVerdict::Refuted {
                    out.push_str(&markdown_in_full(cause));
                }
            }
        }
    }
    for line in explanation.differences.iter().chain(&explanation.notes) {
        out.push_str(&format!("\n{}\n", escape(line)));
    }
    out
}

fn markdown_in_full(cause: &Cause) -> String {
    let mut out: String = cause.details.iter().map(|d| format!("  - {}\n", escape(d))).collect();
    for missing in &cause.missing {
        out.push_str(&format!("  - to collect it: {}\n", escape(&missing.remedy)));
    }
    for advice in &cause.advice {
        let parts: Vec<String> = parts_of(advice).iter().map(|(name, part)| format!("{name}: {part}")).collect();
        out.push_str(&format!("  - → {}: {}\n", escape(&advice.change), escape(&parts.join("; "))));
    }
    out.push_str(&rests_on(cause).map(|r| format!("  - {}\n", escape(&r))).unwrap_or_default());
    out
}

/// An explanation as one JSON document of schema `holdup.explain/1`; `name` is the bundle's.
pub fn explain_json(explanation: &Explanation, name: &str) -> String {
    crate::formats::json::pretty(&json!({
        "schema": "holdup.explain/1",
        "bundle": name,
        "verdict": explanation.verdict(),
        "caution": explanation.caution,
        "arms": explanation.arms,
        "differences": explanation.differences,
        "notes": explanation.notes,
    }))
}

/// A cause as it stands on the page.
pub(crate) struct CauseOnPage {
    pub(crate) mark: &'static str,
    pub(crate) cause: Cause,
    pub(crate) missing: Vec<String>,
    pub(crate) advice: Vec<(String, String)>,
    pub(crate) rests: String,
}

/// An arm as it stands on the page.
pub(crate) struct Section {
    pub(crate) label: String,
    pub(crate) answer: String,
    pub(crate) looked: String,
    pub(crate) causes: Vec<CauseOnPage>,
}

/// The page's section on causes: those that are found or undecided in full, those that are ruled out in a line each.
pub(crate) fn page(explanation: &Explanation) -> Vec<Section> {
    let arms = explanation.arms.iter().map(|arm| Section {
        label: clean(&arm.label),
        answer: clean(&arm.answer),
        looked: clean(&format!("{} {}", looked_at(arm), arm.cost)),
        causes: PARTS.iter().flat_map(|(_, mark, verdict)| shown(arm, *verdict).map(|c| on_page(mark, c))).collect(),
    });
    arms.collect()
}

fn on_page(mark: &'static str, cause: &Cause) -> CauseOnPage {
    let is_there = cause.verdict != FindingVerdict::Refuted;
    let mut shown = cause.clone();
    shown.sentence = clean(&cause.sentence);
    shown.details = if is_there { cause.details.iter().map(|d| clean(d)).collect() } else { Vec::new() };
    let advice = |a: &Advice| {
        let parts: Vec<String> = parts_of(a).iter().map(|(name, part)| format!("{name}: {part}")).collect();
        (clean(&a.change), clean(&parts.join("; ")))
    };
    CauseOnPage {
        mark,
        missing: cause.missing.iter().map(|m| clean(&format!("to collect it: {}", m.remedy))).collect(),
        advice: cause.advice.iter().filter(|_| is_there).map(advice).collect(),
        rests: rests_on(cause).map(|r| clean(&r)).unwrap_or_default(),
        cause: shown,
    }
}
