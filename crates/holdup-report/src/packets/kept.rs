//! The captures of a bundle: what was imported, and what the collector `capture` kept.

use super::{page, two};
use crate::formats::terminal::TerminalOptions;
use crate::text::{clean, wrap};
use holdup_model::captures::{Capture, CaptureComparison, CaptureFlow, CaptureRecord, CaptureTrace};
use holdup_model::foreign::markdown as escape;
use holdup_model::{BundleData, Problem};
use serde_json::json;

/// The connections that are drawn of an arm.
const MOST_OF_ARM: usize = 3;

/// What one trial kept.
struct TrialCapture<'a> {
    arm: &'a str,
    trial: u32,
    kept: &'a CaptureRecord,
}

/// What the trials that count kept, in their order.
fn seen(bundle: &BundleData) -> Vec<TrialCapture<'_>> {
    let done = bundle.trials.iter().filter(|t| t.is_done());
    let all = done.flat_map(|t| t.evidence.iter().filter_map(move |c| Some((t, c.capture.as_ref()?))));
    all.map(|(t, kept)| {
        let arm = bundle.schedule.arms.iter().find(|a| a.id == t.arm).map_or("", |a| a.label.as_str());
        TrialCapture { arm, trial: t.seq, kept }
    })
    .collect()
}

/// A connection with the name that it has beside those of other arms and trials.
struct Named<'a> {
    name: String,
    trace: &'a CaptureTrace,
}

/// The worst connections of each arm, all of its trials together.
fn worst<'a>(bundle: &'a BundleData, seen: &[TrialCapture<'a>]) -> Vec<Named<'a>> {
    let mut all = Vec::new();
    for arm in &bundle.schedule.arms {
        let of_arm = seen.iter().filter(|s| s.arm == arm.label);
        let mut traces: Vec<(u32, &CaptureTrace)> =
            of_arm.flat_map(|s| s.kept.traces.iter().map(move |trace| (s.trial, trace))).collect();
        traces.sort_by_key(|(_, trace)| std::cmp::Reverse(trace.trouble));
        all.extend(traces.into_iter().take(MOST_OF_ARM).map(|(trial, trace)| {
            let trial = if bundle.head.is_imported() { String::new() } else { format!(", trial {trial}") };
            Named { name: clean(&format!("{}{trial}: {}", arm.label, page::title_of(trace))), trace }
        }));
    }
    all
}

fn comparisons<'a>(seen: &[TrialCapture<'a>]) -> Vec<&'a CaptureComparison> {
    seen.iter().filter_map(|s| s.kept.comparison.as_ref()).collect()
}

fn captures<'a>(seen: &[TrialCapture<'a>]) -> Vec<&'a Capture> {
    seen.iter().filter_map(|s| s.kept.capture.as_ref()).collect()
}

/// The section of a terminal's report, below the verdicts; nothing where no capture is in the bundle.
pub(crate) fn terminal(bundle: &BundleData, options: &TerminalOptions) -> String {
    let seen = seen(bundle);
    let (captures, comparisons) = (captures(&seen), comparisons(&seen));
    let mut out = String::new();
    for comparison in &comparisons {
        out.push('\n');
        out.push_str(&two::tables(comparison, options));
    }
    for capture in captures {
        out.push('\n');
        out.push_str(&match comparisons.is_empty() {
            true => super::one::capture(capture, options),
            false => super::one::beside(capture, options),
        });
    }
    let worst = worst(bundle, &seen);
    if !worst.is_empty() {
        out.push_str(&format!("\n{}", options.bold_lines("The worst connections, drawn over time on the page")));
        worst.iter().for_each(|w| out.push_str(&wrap(&w.name, options.columns(), "  ", "    ")));
    }
    out
}

/// The first screen of an imported bundle: what `holdup packets` answers of the same files.
pub(crate) fn screen(bundle: &BundleData, options: &TerminalOptions) -> String {
    let seen = seen(bundle);
    let captures: Vec<Capture> = captures(&seen).into_iter().cloned().collect();
    let comparisons: Vec<CaptureComparison> = comparisons(&seen).into_iter().cloned().collect();
    super::packets_terminal(&captures, &comparisons, options)
}

/// The section of a report in Markdown; nothing where no capture is in the bundle.
pub(crate) fn markdown(bundle: &BundleData) -> String {
    let seen = seen(bundle);
    let mut out = String::new();
    for comparison in comparisons(&seen) {
        out.push_str(&format!("\n## {}\n\n", escape(&page::against(comparison))));
        out.push_str("|  | A | B | B / A |\n|---|--:|--:|:--|\n");
        for row in two::total_rows(&comparison.totals) {
            out.push_str(&format!("| {} |\n", row.iter().map(|c| escape(c.trim())).collect::<Vec<_>>().join(" | ")));
        }
        out.push_str("\n| mark | A per million segments | B per million segments | B / A |\n|---|--:|--:|:--|\n");
        for row in page::mark_rows(comparison) {
            let cells = [0, 3, 4, 5].map(|i| escape(&row[i]));
            out.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        out.push_str(&format!("\n{}\n", escape(two::LEGEND)));
    }
    for capture in captures(&seen) {
        out.push_str(&format!("\n## {}\n\n{}\n", escape(&capture.name), escape(&capture.answer)));
    }
    let worst = worst(bundle, &seen);
    if !worst.is_empty() {
        out.push_str("\n## The worst connections\n\n");
        worst.iter().for_each(|w| out.push_str(&format!("- {}\n", escape(&w.name))));
    }
    out
}

/// What the page shows of captures.
#[derive(Default)]
pub(crate) struct OnPage {
    pub(crate) compared: Vec<page::Compared>,
    pub(crate) captures: Vec<page::Shown>,
    /// Of collectors: the connections of all arms.
    pub(crate) traces: Vec<page::Picture>,
}

impl OnPage {
    /// True if there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.compared.is_empty() && self.captures.is_empty() && self.traces.is_empty()
    }
}

/// The captures of a bundle, for its page.
pub(crate) fn on_page(bundle: &BundleData) -> OnPage {
    let seen = seen(bundle);
    let pictures = worst(bundle, &seen).into_iter();
    OnPage {
        // The answers stand with the verdicts.
        compared: comparisons(&seen).into_iter().map(page::compared).map(page::Compared::without_answer).collect(),
        captures: captures(&seen).into_iter().map(|capture| page::shown(capture, &[])).collect(),
        traces: pictures.map(|w| page::picture(w.name, w.trace)).collect(),
    }
}

/// A connection as a line of JSON of schema `holdup.flow/1`; its capture is a file, or an arm with its trial.
pub fn flow_line(capture: &str, trial: Option<u32>, flow: &CaptureFlow) -> String {
    let mut line = json!({"schema": "holdup.flow/1", "capture": capture, "flow": flow});
    if let Some(trial) = trial {
        line["trial"] = trial.into();
    }
    format!("{line}\n")
}

/// The connections that a bundle keeps, each as a line of JSON of schema `holdup.flow/1`.
pub fn flows(bundle: &BundleData) -> Result<String, Problem> {
    let seen = seen(bundle);
    if seen.is_empty() {
        return Err(Problem::usage("--format flows", "no connection of TCP is in this bundle")
            .hint("run the plan with --collect capture, or import captures with `holdup import pcap`"));
    }
    let mut out = String::new();
    for s in seen {
        let capture = s.kept.capture.as_ref().map_or(s.arm, |c| c.name.as_str());
        for flow in &s.kept.flows {
            let trial = (!bundle.head.is_imported()).then_some(s.trial);
            out.push_str(&flow_line(capture, trial, flow));
        }
    }
    Ok(out)
}
