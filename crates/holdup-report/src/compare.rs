//! A comparison of arms or bundles, for a terminal and as JSON.

use crate::formats::terminal::{TerminalOptions, body, caution, one_screen};
use crate::text::clean;
use holdup_model::Analysis;
use serde_json::json;

/// A comparison for a terminal. `names` are the baseline and the other side; the second is empty when all arms of
/// one bundle are compared.
pub fn compare_terminal(analysis: &Analysis, names: (&str, &str), options: &TerminalOptions) -> String {
    let title = match names {
        (a, "") => clean(a),
        (a, b) => clean(&format!("{b} against {a}")),
    };
    if !options.details {
        return one_screen(None, analysis, &options.bold_lines(&title), options);
    }
    format!("{}{title}\n{}", caution(analysis.caution.as_deref(), options), body(analysis, options))
}

/// A comparison as one JSON document of schema `holdup.compare/1`.
pub fn compare_json(analysis: &Analysis, names: (&str, &str)) -> String {
    crate::formats::json::pretty(&json!({
        "schema": "holdup.compare/1",
        "baseline": names.0,
        "level": if names.1.is_empty() { None } else { Some(names.1) },
        "caution": analysis.caution,
        "findings": analysis.findings,
        "comparisons": analysis.comparisons,
    }))
}
