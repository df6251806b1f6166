//! Numbers as tools print them.

use crate::Input;
use holdup_model::Problem;

/// A number of the line that was read last.
///
/// # Errors
/// When it is none. A decimal comma is named: with some of them a thousand is a million.
pub(crate) fn number(input: &Input<'_>, text: &str) -> Result<f64, Problem> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ if text.contains(',') && text.bytes().all(|b| b.is_ascii_digit() || b",.".contains(&b)) => Err(input
            .problem(format!("{text:?} has a comma, so it is not known where its fraction begins"))
            .hint("the tool ran under a locale; run it with LC_ALL=C")),
        _ => Err(input.problem(format!("{text:?} is no number"))),
    }
}

/// The number after some words of a line, up to the next space.
pub(crate) fn after<'t>(line: &'t str, words: &str) -> Option<&'t str> {
    line.split_once(words)?.1.split_whitespace().next()
}
