//! `holdup import`: what other programs captured, as a bundle.

use super::packets::{PICTURES, TOP, comparisons, input, options, summary, warn};
use crate::{bundles, output};
use clap::ArgMatches;
use holdup_model::captures::{CaptureComparison, CaptureKept, CaptureTrace, Parts};
use holdup_model::text::count;
use holdup_model::{Collected, Coverage, Problem};
use holdup_packets::evidence;
use holdup_target::{Imported, import};
use input::{Given, Read};
use std::path::{Path, PathBuf};

/// The most connections that a bundle keeps of a capture.
const MOST_FLOWS: usize = 10_000;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("pcap", matches)) => pcap(matches),
        _ => anyhow::bail!("clap let an import of nothing through"),
    }
}

fn pcap(matches: &ArgMatches) -> anyhow::Result<u8> {
    let paths: Vec<&PathBuf> = matches.get_many("captures").map(Iterator::collect).unwrap_or_default();
    let out = matches.get_one::<PathBuf>("out").cloned().unwrap_or_else(|| bundles::free_name_of("import"));
    refuse(&out)?;
    let options = options(matches)?;
    let read = match input::read_all(&paths, matches)? {
        Given::Captures(read) => read,
        Given::Counts(counts) => {
            let name = counts.first().map_or("counts", |(name, _)| name.as_str());
            return Err(Problem::usage(name, "it is a list of counts, which has no connections")
                .hint("import the captures that they are of; `holdup packets` compares counts")
                .into());
        }
    };
    warn(&read);
    // The first is compared with nothing.
    let comparisons = std::iter::once(None).chain(comparisons(&read, &options).into_iter().map(Some));
    let mut captures = Vec::with_capacity(read.len());
    let traces = input::traces(&paths, &read, PICTURES, matches)?;
    for ((one, traces), comparison) in read.iter().zip(traces).zip(comparisons) {
        captures.push(imported(one, comparison, traces));
    }
    import(captures, &std::env::args().collect::<Vec<_>>(), &out)?;
    output::say(&format!("bundle: {} ({})", out.display(), count(read.len(), "capture")));
    Ok(0)
}

/// Before the captures are read, which may take long: a bundle is written in place, and never over a file.
fn refuse(out: &Path) -> Result<(), Problem> {
    if input::is_stdin(out) {
        return Err(Problem::usage("--out -", "a bundle is a file, and no stream").hint("name a file"));
    }
    if out.exists() {
        return Err(holdup_store::taken(out));
    }
    Ok(())
}

fn imported(read: &Read, comparison: Option<CaptureComparison>, traces: Option<Vec<CaptureTrace>>) -> Imported {
    let analysis = &read.analysis;
    let capture = summary(read, Parts::Flow, TOP);
    let mut notes: Vec<String> = read.warnings.iter().chain(&capture.notes).cloned().collect();
    if traces.is_none() {
        notes.push("standard input can be read once, so that no connection is kept over time".to_owned());
    }
    let (flows, flows_beyond) = evidence::worst_flows(&analysis.flows, MOST_FLOWS);
    Imported {
        name: read.name.clone(),
        times_unix_ns: (analysis.first_ns, analysis.last_ns),
        evidence: Collected {
            collector: "capture".to_owned(),
            items: evidence::items(&analysis.flows),
            coverage: Coverage { seen: analysis.frames, lost: 0, notes: notes.clone() },
            histograms: evidence::histograms(&analysis.ack_rtt_ns, &analysis.rto_ns),
            capture: Some(CaptureKept {
                capture: Some(capture),
                comparison,
                flows,
                flows_beyond,
                traces: traces.unwrap_or_default(),
            }),
            ..Collected::default()
        },
        notes,
    }
}
