//! `holdup import`: results and captures of other programs, as a bundle.

mod results;
mod traces;

use super::packets::input::Captures;
use super::packets::{PICTURES, TOP, comparisons, input, options, summary, warn};
use crate::{bundles, output};
use holdup_model::captures::{CaptureComparison, CaptureRecord, CaptureTrace, Parts};
use holdup_model::text::count;
use holdup_model::{BundleData, Collected, Coverage, Problem, ProblemKind};
use holdup_packets::evidence;
use holdup_target::{Imported, import};
use input::{Given, Read};
use std::path::{Path, PathBuf};

/// The most connections that a bundle keeps of a capture.
const MOST_FLOWS: usize = 10_000;

/// Import results of other benchmarks, captures or traces into a bundle
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "\
Examples:
  holdup import pgbench old=old-*.txt new=new-*.txt
  holdup import hyperfine times.json --out times.holdup
  holdup list importers"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    results: results::Results,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Import packet captures: an arm for each, compared with the first
    #[command(after_long_help = "\
The bundle keeps the result of `holdup packets`: `holdup report` prints it
again and draws the worst connections on its page without the capture; `holdup
export --format flows` writes the connections. It keeps no packet. Captures
are pcap or pcapng, plain, gzip or zstd; `-` is standard input, of which no
connection can be drawn.")]
    Pcap {
        #[command(flatten)]
        captures: Captures,
        /// Write this bundle [default: import-N.holdup]
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Import traces of the scheduler, as a record of what they watched
    #[command(after_long_help = "\
Reads perf.data of `perf sched record` or `perf record -e 'sched:*'`, trace.dat
of trace-cmd, Perfetto, SchedViz, and the text of `perf script`, `trace-cmd
report` and `perf sched timehist --state`, plain or gzip, xz, zstd; `-` is
standard input. `holdup explain`, `compare`, `report` and `export --format
perfetto` then work as with a bundle of `holdup record`; what a trace does not
show stays undecided.

Examples:
  perf sched record -a sleep 10; holdup import trace perf.data --comm postgres
  holdup import trace before=a.data after=b.data")]
    Trace(traces::Traces),
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let (captures, wanted) = match &args.what {
        None => return results::run(&args.results),
        Some(What::Trace(traces)) => return traces::run(traces),
        Some(What::Pcap { captures, out }) => (captures, out),
    };
    let out = out(wanted.as_ref())?;
    let options = options(captures);
    let read = match input::read_all(captures, true)? {
        Given::Captures(read) => read,
        Given::Counts(counts) => {
            let name = counts.first().map_or("counts", |(name, _)| name.as_str());
            return Err(Problem::usage(name, "a list of counts has no connections")
                .hint("import the captures themselves; `holdup packets` compares counts")
                .into());
        }
    };
    warn(&read);
    // The first is compared with nothing.
    let comparisons = std::iter::once(None).chain(comparisons(&read, &options).into_iter().map(Some));
    let mut imports = Vec::with_capacity(read.len());
    let traces = input::traces(captures, &read, PICTURES)?;
    for ((one, traces), comparison) in read.iter().zip(traces).zip(comparisons) {
        imports.push(imported(one, comparison, traces));
    }
    import(imports, &std::env::args().collect::<Vec<_>>(), &out).map_err(refused)?;
    output::say(&format!("bundle: {} ({})", out.display(), count(read.len(), "capture")));
    Ok(0)
}

/// Where the bundle goes. It is checked before anything is read, which may take long: a bundle is never written over a file.
fn out(wanted: Option<&PathBuf>) -> Result<PathBuf, Problem> {
    let out = wanted.cloned().unwrap_or_else(|| bundles::free_name("import"));
    if input::is_stdin(&out) {
        return Err(
            Problem::usage("--out -", "a bundle is a file and cannot be written to a stream").hint("name a file")
        );
    }
    if bundles::is_taken(&out) {
        return Err(holdup_bundle::taken(&out));
    }
    Ok(out)
}

/// Writes the bundle of an import.
fn write(bundle: &BundleData, out: &Path) -> Result<(), Problem> {
    holdup_watch::write(bundle, out).map_err(refused)
}

/// Refused by the writer of bundles: all content of an import is of its files, so that they are at fault.
fn refused(problem: Problem) -> Problem {
    match problem.kind {
        ProblemKind::Internal => problem.of_kind(ProblemKind::Usage).hint("the files have what no bundle can hold"),
        _ => problem,
    }
}

fn imported(read: &Read, comparison: Option<CaptureComparison>, traces: Option<Vec<CaptureTrace>>) -> Imported {
    let analysis = &read.analysis;
    let capture = summary(read, Parts::Flow, TOP);
    let mut notes: Vec<String> = read.warnings.iter().chain(&capture.notes).cloned().collect();
    if traces.is_none() {
        notes.push("standard input can be read once, so no connection is kept over time".to_owned());
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
            capture: Some(CaptureRecord {
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
