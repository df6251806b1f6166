//! Captures of packets, for a terminal and as JSON.

mod counts;
pub(crate) mod kept;
mod one;
pub(crate) mod page;
mod two;

pub use kept::{flow_line, flows};
pub use page::packets_html;

use crate::formats::terminal::TerminalOptions;
use crate::screen::cut;
use crate::text::{self, wrap};
use holdup_model::captures::{Capture, CaptureComparison, CountsComparison, Mark, MarkClass};
use holdup_model::outcome::FindingVerdict;
use serde_json::json;

/// What stands before an answer.
fn verdict_sign(verdict: FindingVerdict) -> &'static str {
    match verdict {
        FindingVerdict::Supported => "▲ ",
        FindingVerdict::Refuted => "= ",
        FindingVerdict::Undecided | FindingVerdict::Skipped => "~ ",
    }
}

/// Captures, and what was compared of them, for a terminal: one capture in full, of several the comparisons.
pub fn packets_terminal(captures: &[Capture], comparisons: &[CaptureComparison], options: &TerminalOptions) -> String {
    let mut out = String::new();
    for (i, comparison) in comparisons.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out.push_str(&two::comparison(comparison, options));
    }
    for (i, capture) in captures.iter().enumerate() {
        if i > 0 || !comparisons.is_empty() {
            out.push('\n');
        }
        out.push_str(&match comparisons.is_empty() {
            true => one::capture(capture, options),
            false => one::beside(capture, options),
        });
    }
    if options.details { out } else { cut(out) }
}

/// Counts without totals, for a terminal.
pub fn counts_terminal(comparison: &CountsComparison, options: &TerminalOptions) -> String {
    let text = counts::comparison(comparison, options);
    if options.details { text } else { cut(text) }
}

/// Captures and comparisons as one JSON document of schema `holdup.packets/1`.
pub fn packets_json(
    captures: &[Capture],
    comparisons: &[CaptureComparison],
    counts: Option<&CountsComparison>,
) -> String {
    crate::formats::json::pretty(&json!({
        "schema": "holdup.packets/1",
        "captures": captures,
        "comparisons": comparisons,
        "counts": counts,
    }))
}

/// The parts of a table of marks, in their order, with what stands above each.
const GROUPS: [(MarkClass, &str); 3] = [
    (MarkClass::Trouble, "trouble"),
    (MarkClass::Normal, "normal events"),
    (MarkClass::CaptureArtefact, "capture artefacts"),
];

/// A mark's title in a table.
fn title(mark: &Mark) -> String {
    text::clean(mark.plain_title())
}

/// A value of a distribution, by the unit at the end of its name.
fn value(name: &str, x: f64) -> String {
    match name {
        _ if name.ends_with("_ns") => text::latency(x),
        _ if name.ends_with("_bytes") => format!("{} bytes", text::grouped(&format!("{x:.0}"))),
        _ => text::number(x),
    }
}

/// A rate: whole numbers from 100 on, else two significant digits.
fn rate(x: Option<f64>) -> String {
    match x {
        None => "–".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(x) if x >= 100.0 => text::grouped(&format!("{x:.0}")),
        Some(x) if x >= 10.0 => format!("{x:.1}"),
        Some(x) if x >= 0.01 => format!("{x:.2}"),
        Some(x) => format!("{x:.1e}"),
    }
}

/// `2.94 Gbit/s`, from bytes each second.
fn speed(bytes_per_s: f64) -> String {
    match bytes_per_s * 8.0 {
        bits if bits >= 1e9 => format!("{} Gbit/s", text::number(bits / 1e9)),
        bits if bits >= 1e6 => format!("{} Mbit/s", text::number(bits / 1e6)),
        bits => format!("{} kbit/s", text::number(bits / 1e3)),
    }
}

/// A quantile's name.
fn quantile(q: f64) -> String {
    if (q - 0.5).abs() < 1e-9 { "median".to_owned() } else { format!("{:.0} %", q * 100.0) }
}

fn count(n: u64) -> String {
    text::grouped(&n.to_string())
}

fn notes(notes: &[String], options: &TerminalOptions) -> String {
    let lines: String = notes.iter().map(|n| wrap(n, options.columns(), "– ", "  ")).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}
