//! `holdup packets`: what is in captures, and what got worse from the first to the others.

pub(super) mod input;
mod together;

use super::report::write_file;
use crate::output;
use clap::ArgMatches;
use holdup_model::captures::{Capture, CaptureComparison, CountsComparison, Parts};
use holdup_model::outcome::FindingVerdict;
use holdup_model::text::count;
use holdup_model::{Problem, ProblemKind};
use holdup_packets::analyse::Analysis;
use holdup_packets::compare::{Options, compare, compare_counts};
use holdup_packets::expert::Expert;
use holdup_packets::summary::{all_flows, judgement, summarise};
use holdup_report::TerminalOptions;
use input::{Given, Read};
use std::path::{Path, PathBuf};

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let paths: Vec<&PathBuf> = matches.get_many("captures").map(Iterator::collect).unwrap_or_default();
    if matches.contains_id("html") && paths.iter().any(|path| input::is_stdin(path)) {
        return Err(Problem::usage(
            "--html",
            "its pictures are from a second way through the captures, and standard input can be read once",
        )
        .hint("write the capture into a file first")
        .into());
    }
    let given = input::read_all(&paths, matches)?;
    match given {
        Given::Captures(read) => captures(&paths, &read, matches),
        Given::Counts(counts) => counted(&counts, matches),
    }
}

/// The captures alone, or each against the first.
fn captures(paths: &[&PathBuf], read: &[Read], matches: &ArgMatches) -> anyhow::Result<u8> {
    warn(read);
    if matches.contains_id("traffic") {
        return Err(Problem::usage("--traffic", "captures say themselves how much traffic they have")
            .hint("leave it out; it is for counts without totals")
            .into());
    }
    if let Some(out) = matches.get_one::<PathBuf>("flows") {
        write_flows(out, read)?;
    }
    let comparisons = comparisons(read, &options(matches)?);
    let by = match matches.get_one::<String>("by").map(String::as_str) {
        Some("host") => Parts::Host,
        Some("time") => Parts::Time,
        _ => Parts::Flow,
    };
    let most = matches.get_one::<usize>("top").copied().unwrap_or(TOP);
    let summaries: Vec<_> = read.iter().map(|one| summary(one, by, most)).collect();
    if let Some(out) = matches.get_one::<PathBuf>("html") {
        let traces: Vec<_> = input::traces(paths, read, PICTURES, matches)?.into_iter().flatten().flatten().collect();
        write_file(out, &holdup_report::packets_html(&summaries, &comparisons, &traces))?;
    }
    // Beside a comparison the parts are shown when they were asked for.
    let is_asked = comparisons.is_empty() || matches.contains_id("by") || input::with_own(matches);
    output::data(&match matches.get_flag("json") {
        true => holdup_report::packets_json(&summaries, &comparisons, None),
        false => {
            let shown = if is_asked { summaries.as_slice() } else { &[] };
            holdup_report::packets_terminal(shown, &comparisons, &terminal())
        }
    })?;
    Ok(exit_code(&comparisons))
}

/// MarkClass what is wrong with captures that were read nevertheless.
pub(super) fn warn(read: &[Read]) {
    for one in read {
        one.warnings.iter().for_each(|warning| output::say(&format!("warning: {}: {warning}", one.name)));
    }
}

/// Each capture against the first.
pub(super) fn comparisons(read: &[Read], options: &Options) -> Vec<CaptureComparison> {
    let named: Vec<(&str, &Analysis)> = read.iter().map(|one| (one.name.as_str(), &one.analysis)).collect();
    match named.split_first() {
        Some((first, others)) => compare(*first, others, options),
        None => Vec::new(),
    }
}

/// What a capture holds, with its own judgement where that was asked for.
pub(super) fn summary(read: &Read, by: Parts, most: usize) -> Capture {
    Capture { judgement: read.own.as_ref().map(judgement), ..summarise(&read.name, &read.analysis, by, most) }
}

/// The connections of each capture that are drawn.
pub(super) const PICTURES: usize = 3;

/// The worst parts that are shown.
pub(super) const TOP: usize = 5;

/// Counts of tshark, the others each against the first.
fn counted(counts: &[(String, Expert)], matches: &ArgMatches) -> anyhow::Result<u8> {
    for option in ["by", "flows", "html", "max-flows", "top"] {
        if matches.contains_id(option) {
            return Err(Problem::usage(format!("--{option}"), "counts of tshark have no connections").into());
        }
    }
    let [(a_name, a), (b_name, b)] = counts else {
        return Err(Problem::usage("holdup packets", format!("{} of counts", count(counts.len(), "list")))
            .hint("give two, or the captures that they are of: rates need totals")
            .into());
    };
    let comparison = compare_counts((a_name, a), (b_name, b), traffic(matches)?);
    output::data(&match matches.get_flag("json") {
        true => holdup_report::packets_json(&[], &[], Some(&comparison)),
        false => holdup_report::counts_terminal(&comparison, &terminal()),
    })?;
    Ok(code_of(&comparison))
}

fn terminal() -> TerminalOptions {
    TerminalOptions { width: output::width(), color: output::wants_color() }
}

/// 1 when something got worse in one of them, 3 when that is undecided, else 0.
fn exit_code(comparisons: &[CaptureComparison]) -> u8 {
    let any = |verdict| comparisons.iter().any(|c| c.verdict == verdict);
    match (any(FindingVerdict::Supported), any(FindingVerdict::Undecided)) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    }
}

fn code_of(comparison: &CountsComparison) -> u8 {
    match comparison.verdict {
        FindingVerdict::Supported => 1,
        FindingVerdict::Refuted => 0,
        FindingVerdict::Undecided | FindingVerdict::Skipped => 3,
    }
}

/// One JSON document on each line.
fn write_flows(out: &Path, read: &[Read]) -> Result<(), Problem> {
    let mut lines = String::new();
    for one in read {
        all_flows(&one.analysis).for_each(|flow| lines.push_str(&holdup_report::flow_line(&one.name, None, &flow)));
    }
    write_file(out, &lines)
}

/// How captures are compared. The margin is `2%` or `0.02`.
pub(super) fn options(matches: &ArgMatches) -> Result<Options, Problem> {
    let Some(text) = matches.get_one::<String>("margin") else { return Ok(Options::default()) };
    let (number, by) = text.strip_suffix('%').map_or((text.as_str(), 1.0), |percent| (percent, 100.0));
    match number.trim().parse::<f64>().map(|x| x / by) {
        Ok(margin) if margin > 0.0 && margin < 10.0 => Ok(Options { margin }),
        _ => {
            Err(Problem::usage(format!("--margin {text}"), "it is no share above 0").hint("write it as in --margin 5%"))
        }
    }
}

/// `0.25..1`, or one number.
fn traffic(matches: &ArgMatches) -> Result<Option<(f64, f64)>, Problem> {
    let Some(text) = matches.get_one::<String>("traffic") else { return Ok(None) };
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    match (least.trim().parse::<f64>(), most.trim().parse::<f64>()) {
        (Ok(least), Ok(most)) if least > 0.0 && least <= most && most.is_finite() => Ok(Some((least, most))),
        _ => Err(Problem::new(ProblemKind::Usage, format!("--traffic {text}"), "it is no range of numbers above 0")
            .hint("write it as in --traffic 0.25..1: the second capture's segments by the first's")),
    }
}
