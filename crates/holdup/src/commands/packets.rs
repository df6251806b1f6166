//! `holdup packets`: the contents of captures, and what got worse from the first to the others.

pub(super) mod input;
mod together;

use super::report::write_file;
use crate::output;
use holdup_model::Problem;
use holdup_model::captures::{Capture, CaptureComparison, CountsComparison, Parts};
use holdup_model::outcome::FindingVerdict;
use holdup_model::text::count;
use holdup_packets::analyse::Analysis;
use holdup_packets::compare::{Options, compare, compare_counts};
use holdup_packets::expert::Expert;
use holdup_packets::summary::{all_flows, judgement, summarise};
use input::{Captures, Given, Read};
use std::path::{Path, PathBuf};

/// Analyse packet captures, or compare two
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Captures are pcap or pcapng, plain, gzip or zstd; `-` is standard input.
Instead of two captures, two outputs of `tshark -q -z expert` can be compared,
as far as counts without totals allow. docs/packets.md

Exit codes:
  0  nothing got worse
  1  a mark of trouble got more frequent
  2  wrong command line
  3  undecided")]
pub(crate) struct Args {
    #[command(flatten)]
    captures: Captures,
    /// Show the worst flows, hosts or all spans of time
    /// [default: flow]
    #[arg(long, value_enum, value_name = "PART")]
    by: Option<By>,
    /// Show the N worst [default: 5]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Write each connection as a line of JSON (- for stdout)
    #[arg(long, value_name = "OUT")]
    flows: Option<PathBuf>,
    /// Write a page with the worst connections (- for stdout)
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Print everything instead of one screen
    #[arg(long)]
    details: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// For counts: segments of the second by those of the first
    #[arg(long, value_name = "FROM..TO", value_parser = traffic, hide_short_help = true)]
    traffic: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum By {
    Flow,
    Host,
    Time,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    if args.html.is_some() && args.captures.paths.iter().any(|path| input::is_stdin(path)) {
        return Err(Problem::usage("--html", "it reads captures twice, and standard input can be read once")
            .hint("write the capture to a file first")
            .into());
    }
    match input::read_all(&args.captures, args.html.is_some())? {
        Given::Captures(read) => captures(&read, args),
        Given::Counts(counts) => counted(&counts, args),
    }
}

/// The captures alone, or each against the first.
fn captures(read: &[Read], args: &Args) -> anyhow::Result<u8> {
    warn(read);
    if args.traffic.is_some() {
        return Err(Problem::usage("--traffic", "captures have totals themselves")
            .hint("leave it out; it is for counts of tshark")
            .into());
    }
    if let Some(out) = &args.flows {
        write_flows(out, read)?;
    }
    let comparisons = comparisons(read, &options(&args.captures));
    let by = match args.by {
        Some(By::Host) => Parts::Host,
        Some(By::Time) => Parts::Time,
        Some(By::Flow) | None => Parts::Flow,
    };
    let most = args.top.unwrap_or(TOP);
    let summaries: Vec<_> = read.iter().map(|one| summary(one, by, most)).collect();
    if let Some(out) = &args.html {
        let traces: Vec<_> = input::traces(&args.captures, read, PICTURES)?.into_iter().flatten().flatten().collect();
        write_file(out, &holdup_report::packets_html(&summaries, &comparisons, &traces))?;
    }
    // A comparison comes without the parts unless an option asks for them.
    let is_asked = comparisons.is_empty() || args.by.is_some() || args.captures.with_own();
    output::data(&match args.json {
        true => holdup_report::packets_json(&summaries, &comparisons, None),
        false => {
            let shown = if is_asked { summaries.as_slice() } else { &[] };
            holdup_report::packets_terminal(shown, &comparisons, &output::terminal(args.details))
        }
    })?;
    Ok(exit_code(&comparisons))
}

/// Prints what is wrong with captures that were read nevertheless.
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

/// The contents of a capture, with our judgement if requested.
pub(super) fn summary(read: &Read, by: Parts, most: usize) -> Capture {
    Capture { judgement: read.own.as_ref().map(judgement), ..summarise(&read.name, &read.analysis, by, most) }
}

/// The connections of each capture that are drawn.
pub(super) const PICTURES: usize = 3;

/// The worst parts that are shown.
pub(super) const TOP: usize = 5;

/// Counts of tshark, the others each against the first.
fn counted(counts: &[(String, Expert)], args: &Args) -> anyhow::Result<u8> {
    let of_connections = [
        ("--by", args.by.is_some()),
        ("--flows", args.flows.is_some()),
        ("--html", args.html.is_some()),
        ("--max-flows", args.captures.max_flows.is_some()),
        ("--top", args.top.is_some()),
    ];
    if let Some((option, _)) = of_connections.iter().find(|(_, given)| *given) {
        return Err(Problem::usage(*option, "counts of tshark have no connections").into());
    }
    let [(a_name, a), (b_name, b)] = counts else {
        return Err(Problem::usage("holdup packets", format!("{} of counts", count(counts.len(), "list")))
            .hint("give two, or the captures themselves: rates need totals")
            .into());
    };
    let comparison = compare_counts((a_name, a), (b_name, b), args.traffic);
    output::data(&match args.json {
        true => holdup_report::packets_json(&[], &[], Some(&comparison)),
        false => holdup_report::counts_terminal(&comparison, &output::terminal(args.details)),
    })?;
    Ok(code_of(&comparison))
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

/// How captures are compared.
pub(super) fn options(captures: &Captures) -> Options {
    captures.margin.map_or_else(Options::default, |margin| Options { margin })
}

/// `0.25..1`, or one number.
fn traffic(text: &str) -> Result<(f64, f64), String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    match (least.trim().parse::<f64>(), most.trim().parse::<f64>()) {
        (Ok(least), Ok(most)) if least > 0.0 && least <= most && most.is_finite() => Ok((least, most)),
        _ => Err("no range of numbers above 0, such as 0.25..1".to_owned()),
    }
}
