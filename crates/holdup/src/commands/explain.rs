//! `holdup explain`: what held a system up, in sentences.

use crate::{bundles, output};
use clap::ArgMatches;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{BundleData, Explanation, Problem};
use holdup_report::TerminalOptions;
use std::path::{Path, PathBuf};

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let path =
        matches.get_one::<PathBuf>("bundle").ok_or_else(|| anyhow::anyhow!("clap let a missing bundle through"))?;
    let mut bundle = bundles::read(path)?;
    if let Some(wanted) = matches.get_one::<String>("arm") {
        keep_arm(&mut bundle, wanted)?;
    }
    let explanation = holdup_analysis::explain(&bundle);
    tell(&explanation, path, matches.get_flag("json"))?;
    Ok(match explanation.verdict() {
        FindingVerdict::Supported => 1,
        FindingVerdict::Refuted => 0,
        FindingVerdict::Undecided | FindingVerdict::Skipped => 3,
    })
}

/// Prints an explanation.
///
/// # Errors
/// When stdout cannot be written.
pub(super) fn tell(explanation: &Explanation, path: &Path, as_json: bool) -> Result<(), Problem> {
    let name = path.display().to_string();
    let options = TerminalOptions { width: output::width(), color: output::wants_color() };
    output::data(&match as_json {
        true => holdup_report::explain_json(explanation, &name),
        false => holdup_report::explain_terminal(explanation, &name, &options),
    })
}

/// Leaves only the arm that is named by its number, its label or a part of it.
fn keep_arm(bundle: &mut BundleData, wanted: &str) -> Result<(), Problem> {
    let arms = &bundle.schedule.arms;
    let exact = arms.iter().filter(|a| a.label == wanted || a.id.to_string() == wanted).collect::<Vec<_>>();
    let part = || arms.iter().filter(|a| a.label.contains(wanted)).collect::<Vec<_>>();
    let found = if exact.is_empty() { part() } else { exact };
    let [one] = found.as_slice() else {
        let (why, listed) = match found.len() {
            0 => ("no arm is called so".to_owned(), arms.iter().collect()),
            n => (format!("{n} arms are called so"), found),
        };
        let labels: Vec<&str> = listed.iter().take(10).map(|a| a.label.as_str()).collect();
        return Err(Problem::usage(format!("--arm {wanted}"), why)
            .hint(format!("`holdup list arms FILE.holdup` lists them: {}", labels.join("; "))));
    };
    let id = one.id;
    bundle.schedule.arms.retain(|a| a.id == id);
    Ok(())
}
