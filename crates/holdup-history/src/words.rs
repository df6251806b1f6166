//! Findings and sentences.

use holdup_model::Finding;
use holdup_model::kept::{ChangedSeries, GateAnswer, GateCheck, KeptChange, KeptHistory, KeptRun, SeriesKey};
use holdup_model::outcome::FindingVerdict;
use holdup_model::text::{self, count};

/// What findings of a history are filed under.
const ANALYSIS: &str = "history";

/// The id of a run, as far as people need it.
pub(crate) fn short(run: &KeptRun) -> &str {
    run.run_id.get(..8).unwrap_or(&run.run_id)
}

fn finding(verdict: FindingVerdict, sentence: String) -> Finding {
    Finding {
        analysis: ANALYSIS.to_owned(),
        verdict,
        sentence,
        details: Vec::new(),
        trials: Vec::new(),
        headline: true,
    }
}

/// What a series is called: its arm, with the host where there are several.
pub(crate) fn name(key: &SeriesKey, several_hosts: bool) -> String {
    let mut parts = Vec::new();
    if several_hosts {
        parts.push(key.host.clone().unwrap_or_else(|| "an unknown host".to_owned()));
    }
    parts.extend(key.kernel.iter().map(|kernel| format!("kernel {kernel}")));
    parts.extend(key.server.iter().map(|server| format!("PostgreSQL {server}")));
    if parts.is_empty() { key.arm.clone() } else { format!("{} on {}", key.arm, parts.join(", ")) }
}

/// True if the series are of several hosts.
pub(crate) fn has_several_hosts(series: &[ChangedSeries]) -> bool {
    series.windows(2).any(|pair| pair[0].key.host != pair[1].key.host)
}

/// What was found: open regressions first, then all changes, newest first, then what was not looked at.
pub(crate) fn findings(history: &KeptHistory) -> Vec<Finding> {
    let several = has_several_hosts(&history.series);
    let mut open = Vec::new();
    let mut changes: Vec<(usize, Finding)> = Vec::new();
    for series in &history.series {
        let name = name(&series.key, several);
        for (i, change) in series.changes.iter().enumerate() {
            let run = series.runs[change.at];
            let first = &history.runs[run];
            let is_open = series.open.as_ref().filter(|o| o.change == i);
            let mut finding = finding(FindingVerdict::Supported, sentence(&name, series, change, first));
            finding.details = details(series, change, &history.runs);
            match is_open {
                Some(o) => {
                    finding.sentence = format!("Open regression, {} now. {}", text::factor(o.ratio), finding.sentence);
                    open.push(finding);
                }
                None => changes.push((run, finding)),
            }
        }
    }
    changes.sort_by_key(|(run, _)| std::cmp::Reverse(*run));
    let mut all: Vec<Finding> = open.into_iter().chain(changes.into_iter().map(|(_, finding)| finding)).collect();
    let looked = history.series.iter().filter(|s| s.absent.is_none()).count();
    if all.is_empty() && looked > 0 {
        let sentence = format!("No change in {} over {}.", series_count(looked), count(history.runs.len(), "run"));
        all.push(finding(FindingVerdict::Refuted, sentence));
    }
    if let Some(why) = history.series.iter().find_map(|s| s.absent.as_ref()) {
        let missed = history.series.len() - looked;
        let sentence =
            format!("Changes were not looked for in {missed} of {}: {why}.", series_count(history.series.len()));
        all.push(finding(FindingVerdict::Skipped, sentence));
    }
    all.extend(split_designs(&history.series));
    all
}

fn series_count(n: usize) -> String {
    if n == 1 { "1 series".to_owned() } else { format!("{n} series") }
}

fn sentence(name: &str, series: &ChangedSeries, change: &KeptChange, first: &KeptRun) -> String {
    let size = change.ratio.as_ref().map_or_else(
        || "changed".to_owned(),
        |r| {
            let [value, low, high] = text::ratio_parts(r);
            format!("×{value} (95 % interval {low} to {high})")
        },
    );
    let way = match change.is_worse {
        Some(true) => ", worse",
        Some(false) => ", better",
        None => "",
    };
    let since = text::day(first.created_unix_ns);
    format!("{name}: {} {size}{way} since {since} (run {}).", series.metric.id, short(first))
}

fn details(series: &ChangedSeries, change: &KeptChange, runs: &[KeptRun]) -> Vec<String> {
    let run = |at: usize| &runs[series.runs[at]];
    let mut details = Vec::new();
    if change.at_low != change.at_high {
        let (low, high) = (run(change.at_low), run(change.at_high.min(series.runs.len() - 1)));
        details.push(format!(
            "It may have begun between {} (run {}) and {} (run {}), with 95 %; p {:.4}.",
            text::day(low.created_unix_ns),
            short(low),
            text::day(high.created_unix_ns),
            short(high),
            change.p
        ));
    }
    match change.environment.as_slice() {
        [] => details.push("No fact about the host that was recorded changed with it.".to_owned()),
        facts => details.extend(facts.iter().map(|fact| format!("Changed with it: {fact}."))),
    }
    details
}

/// A note on arms whose parameters changed, which begin a new series.
fn split_designs(series: &[ChangedSeries]) -> Option<Finding> {
    let bare = |key: &SeriesKey| SeriesKey { design: String::new(), ..key.clone() };
    let split = series.windows(2).filter(|pair| bare(&pair[0].key) == bare(&pair[1].key)).count();
    (split > 0).then(|| Finding {
        headline: false,
        ..finding(
            FindingVerdict::Supported,
            format!(
                "{} in which parameters, settings or durations changed: {} a new series there.",
                if split == 1 { "There is 1 arm".to_owned() } else { format!("There are {split} arms") },
                if split == 1 { "it begins" } else { "they begin" },
            ),
        )
    })
}

pub(crate) fn gate_sentence(plan: &str, checks: &[GateCheck], answer: GateAnswer) -> String {
    let of = |answer: GateAnswer| checks.iter().filter(|c| c.answer == answer).count();
    let all = checks.len();
    match answer {
        GateAnswer::Regression => {
            let worst = checks.first().map_or_else(String::new, |c| {
                let ratio = c.ratio.as_ref().map_or_else(|| "worse".to_owned(), text::ratio);
                format!(", {}: {} {ratio}", c.key.arm, c.metric.id)
            });
            format!("Regression in {} of {} of {plan}{worst}.", of(GateAnswer::Regression), count(all, "arm"))
        }
        GateAnswer::NoRegression => {
            format!("No regression in {} of {plan}, within the margin.", count(all, "arm"))
        }
        GateAnswer::Undecided if all == 0 => format!("Undecided: the run of {plan} has no value of a primary metric."),
        GateAnswer::Undecided => {
            let reason = checks.iter().find_map(|c| c.reason.clone()).unwrap_or_default();
            format!("Undecided in {} of {} of {plan}: {reason}.", of(GateAnswer::Undecided), count(all, "arm"))
        }
    }
}
