//! `holdup compare`: the arms of a bundle, two of its arms, two bundles, or the history of many.

use crate::cli::MemoryLimit;
use crate::output;
use holdup_analysis::analyses::captures;
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::{Analysis, Problem, Verdict};
use std::path::PathBuf;

/// Compare the arms of a bundle, two bundles, or many over time
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  holdup compare a.holdup                        each arm with the baseline
  holdup compare a.holdup --arms clients=8 64    two arms
  holdup compare before.holdup after.holdup      two bundles
  holdup compare mon.holdup tue.holdup wed.holdup   when results changed

Exit codes:
  0  equivalent
  1  a primary metric differs or changed over time
  2  wrong command line
  3  undecided")]
pub(crate) struct Args {
    /// The bundle, or the baseline of several
    #[arg(value_name = "FILE.holdup")]
    a: PathBuf,
    /// Bundles to compare with it; two or more are a history
    #[arg(value_name = "FILE.holdup")]
    others: Vec<PathBuf>,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Compare two arms, by number, label or part of it
    #[arg(long, value_names = ["A", "B"], num_args = 2, conflicts_with = "others")]
    arms: Vec<String>,
    /// Print everything instead of one screen
    #[arg(long)]
    details: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    if args.others.len() > 1 {
        return history(args);
    }
    let budget = args.memory.budget();
    let a = holdup_bundle::read_without_events(&args.a, &budget)?;
    let name = args.a.display().to_string();
    let (analysis, names) = match (args.others.as_slice(), args.arms.as_slice()) {
        ([other, ..], _) => {
            let b = holdup_bundle::read_without_events(other, &budget)?;
            (holdup_analysis::compare_bundles(&a, &b)?, (name, other.display().to_string()))
        }
        ([], [first, second]) => (holdup_analysis::compare_arms(&a, first, second)?, (first.clone(), second.clone())),
        _ => (holdup_analysis::analyse(&a), (name, String::new())),
    };
    let text = if args.json {
        holdup_report::compare_json(&analysis, (&names.0, &names.1))
    } else {
        holdup_report::compare_terminal(&analysis, (&names.0, &names.1), &output::terminal(args.details))
    };
    output::data(&text)?;
    Ok(exit_code(&analysis))
}

/// Where results changed from one run to the next: 1 when something changed, 3 when no series could be tested.
fn history(args: &Args) -> anyhow::Result<u8> {
    let (paths, budget) = (std::iter::once(&args.a).chain(&args.others), args.memory.budget());
    let bundles: Vec<_> = paths
        .map(|path| Ok((path.display().to_string(), holdup_bundle::read_without_events(path, &budget)?)))
        .collect::<Result<_, Problem>>()?;
    let history = holdup_analysis::history(&bundles)?;
    let text = match args.json {
        true => holdup_report::history_json(&history),
        false => holdup_report::history_terminal(&history, &output::terminal(args.details)),
    };
    output::data(&text)?;
    Ok(if history.series.iter().any(|s| !s.changes.is_empty()) {
        1
    } else if history.series.iter().all(|s| s.absent.is_some()) {
        3
    } else {
        0
    })
}

/// 1 when a primary comparison is different or an imported capture got worse, 3 when one is undecided, else 0. A/A and axes
/// do not count: an axis is expected to differ, and findings report an A/A that differs.
fn exit_code(analysis: &Analysis) -> u8 {
    let asked = analysis
        .comparisons
        .iter()
        .filter(|c| c.primary && matches!(c.contrast, Contrast::Factor { .. } | Contrast::Named { .. }));
    let captures = analysis.findings.iter().filter(|f| f.analysis == captures::META.id).map(|f| f.verdict);
    let captures: Vec<FindingVerdict> = captures.collect();
    let headline: Vec<&Verdict> = asked.filter(|c| c.pooled || c.cell.is_empty()).map(|c| &c.verdict).collect();
    if headline.iter().any(|v| **v == Verdict::Different) || captures.contains(&FindingVerdict::Supported) {
        1
    } else if headline.iter().any(|v| matches!(v, Verdict::Undecided { .. }))
        || captures.contains(&FindingVerdict::Undecided)
    {
        3
    } else {
        0
    }
}
