//! Numbers as tools print them.

use crate::Input;
use holdup_model::{Direction, Measurement, Metric, Problem};

/// A number of the line that was read last.
///
/// # Errors
/// When it is none. A decimal comma is named: with some of them a thousand is a million.
pub(crate) fn number(input: &Input<'_>, text: &str) -> Result<f64, Problem> {
    parse(text, |why| input.problem(why))
}

/// A number; `problem` knows its place.
pub(crate) fn parse(text: &str, problem: impl Fn(String) -> Problem) -> Result<f64, Problem> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ if text.contains(',') && text.bytes().all(|b| b.is_ascii_digit() || b",.".contains(&b)) => {
            Err(problem(format!("{text:?} has a comma, so it is not known where its fraction begins"))
                .hint("the tool ran under a locale; run it with LC_ALL=C"))
        }
        _ => Err(problem(format!("{text:?} is no number"))),
    }
}

/// The number at the begin of a text, its unit left out: `12.5ms,` is 12.5.
pub(crate) fn leading(input: &Input<'_>, text: &str) -> Result<f64, Problem> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.,".contains(c)).unwrap_or(text.len());
    let end = match text[end..].strip_prefix(['e', 'E']) {
        Some(rest) if rest.starts_with(['+', '-']) || rest.starts_with(|c: char| c.is_ascii_digit()) => {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && !"+-".contains(c)).unwrap_or(rest.len());
            end + 1 + digits
        }
        _ => end,
    };
    let word = text[..end].trim_end_matches([',', '.']);
    number(input, if word.is_empty() { text } else { word })
}

/// A number of the line that was read last, as a whole one that is not negative.
pub(crate) fn count(input: &Input<'_>, text: &str) -> Result<u64, Problem> {
    match number(input, text)? {
        value if value >= 0.0 => Ok(value as u64),
        value => Err(input.problem(format!("{value} is less than 0"))),
    }
}

/// How many samples a bucket of a histogram has.
pub(crate) fn samples(value: f64, problem: impl Fn(String) -> Problem) -> Result<u64, Problem> {
    // The sum of the buckets has to stay below 2^64, as that of a whole document with such buckets does.
    match value {
        value if (0.0..=1e11).contains(&value) => Ok(value as u64),
        value => Err(problem(format!("{value} is no number of samples"))),
    }
}

/// A time at the begin of a text, whose unit is `unit_ns` long.
pub(crate) fn leading_ns(input: &Input<'_>, text: &str, unit_ns: f64) -> Result<u64, Problem> {
    length_ns(leading(input, text)?, unit_ns, |why| input.problem(why))
}

/// A time whose unit is `unit_ns` long. Bundles have 63 bits for one.
pub(crate) fn length_ns(value: f64, unit_ns: f64, problem: impl Fn(String) -> Problem) -> Result<u64, Problem> {
    match value * unit_ns {
        ns if (0.0..i64::MAX as f64).contains(&ns) => Ok(ns as u64),
        ns if ns < 0.0 => Err(problem(format!("{ns:?} ns: a time is not less than 0"))),
        _ => Err(problem(format!("{value}: no time is as long"))),
    }
}

/// The number after some words of a line, up to the next space.
pub(crate) fn after<'t>(line: &'t str, words: &str) -> Option<&'t str> {
    line.split_once(words)?.1.split_whitespace().next()
}

/// A number by the words before it: those words, metric, unit, which is better, meaning.
pub(crate) type Row = (&'static str, &'static str, &'static str, Direction, &'static str);

/// The metrics of rows, each once.
pub(crate) fn metrics_of(rows: &[Row]) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for (_, id, unit, better, summary) in rows {
        if !metrics.iter().any(|metric| metric.id == *id) {
            metrics.push(crate::kinds::metric(id, unit, *better, summary));
        }
    }
    metrics
}

/// The measurement of a line that begins as one of the rows, spaces before it left out.
pub(crate) fn measured(input: &Input<'_>, line: &str, rows: &[Row]) -> Result<Option<Measurement>, Problem> {
    let line = line.trim_start();
    let Some((begin, id, ..)) = rows.iter().find(|(begin, ..)| line.starts_with(begin)) else { return Ok(None) };
    Ok(Some(Measurement::new(*id, leading(input, &line[begin.len()..])?)))
}

/// How many numbers there are, the smallest and the largest of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ValueRange {
    pub(crate) count: u64,
    ends: Option<(f64, f64)>,
}

impl ValueRange {
    /// The smallest and the largest.
    pub(crate) fn ends(&self) -> Option<(f64, f64)> {
        self.ends
    }
}

impl Extend<f64> for ValueRange {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, values: T) {
        for value in values {
            let (least, most) = self.ends.unwrap_or((value, value));
            (self.count, self.ends) = (self.count + 1, Some((least.min(value), most.max(value))));
        }
    }
}
