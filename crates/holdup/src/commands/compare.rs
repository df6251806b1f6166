//! `holdup compare`: the arms of a bundle, two arms of it, two bundles, or the history of many.

use crate::{bundles, output};
use clap::ArgMatches;
use holdup_analysis::analyses::captures;
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::{Analysis, Problem, Verdict};
use holdup_report::TerminalOptions;
use std::path::PathBuf;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let path = |name| matches.get_one::<PathBuf>(name);
    let a_path = path("a").ok_or_else(|| anyhow::anyhow!("clap let a missing bundle through"))?;
    let others: Vec<&PathBuf> = matches.get_many("others").map(Iterator::collect).unwrap_or_default();
    if others.len() > 1 {
        return history(matches, std::iter::once(a_path).chain(others));
    }
    let a = bundles::read(a_path)?;
    let arms: Vec<&String> = matches.get_many("arms").map(Iterator::collect).unwrap_or_default();
    let (analysis, names) = match (others.first(), arms.as_slice()) {
        (Some(b_path), _) => {
            let b = bundles::read(b_path)?;
            (holdup_analysis::compare_bundles(&a, &b)?, (a_path.display().to_string(), b_path.display().to_string()))
        }
        (None, [first, second]) => {
            (holdup_analysis::compare_arms(&a, first, second)?, ((*first).clone(), (*second).clone()))
        }
        _ => (holdup_analysis::analyse(&a), (a_path.display().to_string(), String::new())),
    };
    let text = if matches.get_flag("json") {
        holdup_report::compare_json(&analysis, (&names.0, &names.1))
    } else {
        let options = TerminalOptions { width: output::width(), color: output::wants_color() };
        holdup_report::compare_terminal(&analysis, (&names.0, &names.1), &options)
    };
    output::data(&text)?;
    Ok(exit_code(&analysis))
}

/// Where results changed from one run to the next. 1 when something changed, 3 when nothing could be looked for.
fn history<'a>(matches: &ArgMatches, paths: impl Iterator<Item = &'a PathBuf>) -> anyhow::Result<u8> {
    let bundles: Vec<_> =
        paths.map(|path| Ok((path.display().to_string(), bundles::read(path)?))).collect::<Result<_, Problem>>()?;
    let history = holdup_analysis::history(&bundles)?;
    let text = if matches.get_flag("json") {
        holdup_report::history_json(&history)
    } else {
        let options = TerminalOptions { width: output::width(), color: output::wants_color() };
        holdup_report::history_terminal(&history, &options)
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

/// 1 when a primary comparison is different or an imported capture got worse, 3 when that is undecided of one, else 0. A/A and axes are not
/// asked: an axis is expected to differ, and an A/A that differs makes the others doubtful, which findings say.
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
