//! Results that other benchmarks printed → runs with metrics and distributions.
//!
//! Start at [`KINDS`], the catalogue: one file per tool. [`read`] reads a file as one of them. What a file does not say is
//! never made up: a metric that is missing is absent with the reason, and what is wrong with the tool's own reckoning is a
//! caution of the result.
//!
//! Pure: bytes come in through [`std::io::BufRead`], nothing is opened here.

#![forbid(unsafe_code)]

mod bundle;
mod input;
mod json;
mod kinds;
mod number;
mod results;

pub use bundle::{Named, bundle};
pub use input::Input;
pub use kinds::{KINDS, Kind, find};
pub use results::{Results, Sample};

use holdup_model::Problem;
use std::collections::BTreeSet;

/// What is looked at of a file to see which tool wrote it, bytes.
const HEAD_BYTES: usize = 16 << 10;

/// The kinds that a file looks like, by its begin.
fn looks_like(head: &str) -> Vec<&'static str> {
    KINDS.iter().filter(|kind| (kind.looks_like)(head)).map(|kind| kind.meta.id).collect()
}

/// Reads a file as the results of a tool.
///
/// # Errors
/// When it cannot be read, is not of that tool (the hint names the one that it looks like), or is damaged: the place is the
/// line and the byte.
pub fn read(kind: &Kind, input: &mut Input<'_>) -> Result<Results, Problem> {
    let head = input.head(HEAD_BYTES)?;
    if !(kind.looks_like)(&head) {
        let others = looks_like(&head);
        let problem = Problem::usage(input.name(), format!("it does not look like results of {}", kind.meta.id));
        return Err(match others.as_slice() {
            [] => problem.hint(format!("holdup import knows {}", ids())),
            [one] => problem.hint(format!("it looks like {one}: holdup import {one} {}", input.name())),
            [one, ..] => {
                let all = others.join(" or ");
                problem.hint(format!("it looks like {all}: holdup import {one} {}", input.name()))
            }
        });
    }
    let mut results = (kind.read)(input)?;
    if results.samples.is_empty() {
        return Err(Problem::usage(input.name(), "no result is in it: the run was cut, or printed nothing"));
    }
    // A kind names all that its tool may print; a file has a part of it.
    let measured: BTreeSet<_> =
        results.samples.iter().flat_map(|sample| &sample.measurements).map(|m| m.metric.clone()).collect();
    results.metrics.retain(|metric| measured.is_empty() || measured.contains(&metric.id));
    Ok(results)
}

fn ids() -> String {
    KINDS.iter().map(|kind| kind.meta.id).collect::<Vec<_>>().join(", ")
}
