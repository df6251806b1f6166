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

/// What is looked at of a file to see which tool wrote it, bytes.
const HEAD_BYTES: usize = 16 << 10;

/// The kinds that a file looks like, by its begin.
pub fn looks_like(head: &str) -> Vec<&'static str> {
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
    let mut results = with_hint((kind.read)(input), kind)?;
    results.drop_unused_metrics();
    match results.samples.is_empty() {
        true => with_hint(Err(Problem::usage(input.name(), NOTHING)), kind),
        false => Ok(results),
    }
}

/// For what is wrong in a file that is of its tool.
fn with_hint(read: Result<Results, Problem>, kind: &Kind) -> Result<Results, Problem> {
    let hint = || format!("is the file whole? `holdup list importers {}` says what is read", kind.meta.id);
    read.map_err(|problem| Problem { hint: problem.hint.or_else(|| Some(hint())), ..problem })
}

const NOTHING: &str = "no result is in it: the run was cut, or printed nothing";

/// Reads the files of a folder that a kind holds ([`Kind::holds`]). What one looks like decides how it is read; one that looks
/// like nothing of the kind is left out, and the results say so.
///
/// # Errors
/// As of [`read`], for any of them.
pub fn read_folder(kind: &Kind, name: &str, files: &mut dyn Iterator<Item = FolderFile>) -> Result<Results, Problem> {
    let Some(folder) = &kind.folder else { return Err(Problem::usage(name, "a folder")) };
    let (mut parts, mut left_out) = (Vec::new(), 0_u32);
    for file in files {
        let (path, mut input) = file?;
        input.place(&path);
        let head = input.head(HEAD_BYTES)?;
        let part = std::iter::once(kind).chain(folder.parts.iter().filter_map(|id| find(id)));
        match part.into_iter().find(|part| (part.looks_like)(&head)) {
            Some(part) => parts.push((path, with_hint((part.read)(&mut input), kind)?)),
            None => left_out += 1,
        }
    }
    let mut results = (folder.join)(parts);
    results.drop_unused_metrics();
    if results.samples.is_empty() {
        let why = format!("no file of it has a result of {}", kind.meta.id);
        return Err(Problem::usage(name, why).hint(format!("holdup list importers {}", kind.meta.id)));
    }
    if left_out > 0 {
        results.cautions.push(format!("{left_out} files of {name} look like no results and were left out."));
    }
    Ok(results)
}

/// A file of a folder: its path there, and what is in it.
pub type FolderFile = Result<(String, Input<'static>), Problem>;

fn ids() -> String {
    KINDS.iter().map(|kind| kind.meta.id).collect::<Vec<_>>().join(", ")
}
