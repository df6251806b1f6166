//! `holdup explain`: what delayed a system, in sentences.

use crate::cli::MemoryLimit;
use crate::output;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{BundleData, Explanation, Problem};
use std::path::{Path, PathBuf};

/// Explain what delayed a system, with the evidence and the remedy
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Exit codes:
  0  no known cause
  1  a cause was found
  2  wrong command line
  3  undecided")]
pub(crate) struct Args {
    /// A bundle of `record`, or of `run` with collectors
    #[arg(value_name = "FILE.holdup")]
    bundle: PathBuf,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Explain this arm only, by number, label or part of it
    #[arg(long, value_name = "ARM")]
    arm: Option<String>,
    /// Print everything instead of one screen
    #[arg(long)]
    details: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut bundle = holdup_bundle::read_without_events(&args.bundle, &args.memory.budget())?;
    if let Some(wanted) = &args.arm {
        keep_arm(&mut bundle, wanted)?;
    }
    let explanation = holdup_analysis::explain(&bundle);
    print(&explanation, &args.bundle, args.json, args.details)?;
    Ok(match explanation.verdict() {
        FindingVerdict::Supported => 1,
        FindingVerdict::Refuted => 0,
        FindingVerdict::Undecided | FindingVerdict::Skipped => 3,
    })
}

pub(super) fn print(explanation: &Explanation, path: &Path, as_json: bool, details: bool) -> Result<(), Problem> {
    let name = path.display().to_string();
    output::data(&match as_json {
        true => holdup_report::explain_json(explanation, &name),
        false => holdup_report::explain_terminal(explanation, &name, &output::terminal(details)),
    })
}

/// Drops all arms but the one with this number, label or part of a label.
fn keep_arm(bundle: &mut BundleData, wanted: &str) -> Result<(), Problem> {
    let arms = &bundle.schedule.arms;
    let exact = arms.iter().filter(|a| a.label == wanted || a.id.to_string() == wanted).collect::<Vec<_>>();
    let part = || arms.iter().filter(|a| a.label.contains(wanted)).collect::<Vec<_>>();
    let found = if exact.is_empty() { part() } else { exact };
    let [one] = found.as_slice() else {
        let (why, listed) = match found.len() {
            0 => ("no arm has this name".to_owned(), arms.iter().collect()),
            n => (format!("{n} arms match"), found),
        };
        let labels: Vec<&str> = listed.iter().take(10).map(|a| a.label.as_str()).collect();
        return Err(Problem::usage(format!("--arm {wanted}"), why)
            .hint(format!("`holdup list arms FILE.holdup` lists them: {}", labels.join("; "))));
    };
    let id = one.id;
    bundle.schedule.arms.retain(|a| a.id == id);
    Ok(())
}
