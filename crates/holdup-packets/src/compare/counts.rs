//! Compares counts of two captures without totals.
//!
//! A ratio of counts is not a ratio of rates: with half of the traffic, the same rate gives half of the count. A row therefore
//! states the traffic at which it reverses and, for a known range of traffic, whether it is higher or lower for all of it.
//! Counts do not show how marks cluster, so a row also states up to which cluster size it holds.

use super::marks::mark;
use crate::expert::Expert;
use crate::kinds::{Kind, MarkClass};
use holdup_model::captures::{CountRow, CountsComparison, CountsSay, Mark};
use holdup_model::outcome::FindingVerdict;
use holdup_model::text::count;
use holdup_model::text::{factor, list};
use holdup_stats::{ALPHA, students_t};

const NORMAL: f64 = 1e9;

/// Compares two lists of counts. `traffic` is the range of B's segments by A's, if known.
pub fn compare_counts(
    baseline: (&str, &Expert),
    other: (&str, &Expert),
    traffic: Option<(f64, f64)>,
) -> CountsComparison {
    let (a, b) = (baseline.1, other.1);
    let mut pairs: Vec<(Mark, u64, u64)> =
        Kind::ALL.iter().map(|kind| (mark(*kind), a.get(*kind), b.get(*kind))).filter(|(_, a, b)| a + b > 0).collect();
    pairs.extend(others(a, b));
    // Bonferroni.
    let level = ALPHA / pairs.len().max(1) as f64;
    let rows: Vec<CountRow> =
        pairs.into_iter().map(|(mark, in_a, in_b)| row(mark, in_a, in_b, traffic, level)).collect();
    let worse = rows.iter().any(|r| r.mark.class == MarkClass::Trouble && r.says == CountsSay::Higher);
    let open = rows.iter().any(|r| r.mark.class == MarkClass::Trouble && r.says == CountsSay::Depends);
    let verdict = match (worse, open) {
        (true, _) => FindingVerdict::Supported,
        (false, true) => FindingVerdict::Undecided,
        (false, false) => FindingVerdict::Refuted,
    };
    CountsComparison {
        baseline: baseline.0.to_owned(),
        other: other.0.to_owned(),
        answer: answer(&rows, (baseline.0, other.0), traffic),
        verdict,
        traffic,
        notes: notes(&rows, traffic),
        rows,
    }
}

fn others(a: &Expert, b: &Expert) -> Vec<(Mark, u64, u64)> {
    let find = |of: &Expert, words: &str| of.others.iter().find(|(w, _)| w == words).map_or(0, |(_, n)| *n);
    let mut words: Vec<&String> = a.others.iter().map(|(w, _)| w).collect();
    words.extend(b.others.iter().map(|(w, _)| w).filter(|w| find(a, w) == 0));
    let mark = |words: &str| Mark { field: String::new(), title: words.to_owned(), class: MarkClass::Normal };
    words.into_iter().map(|w| (mark(w), find(a, w), find(b, w))).collect()
}

fn row(mark: Mark, a: u64, b: u64, traffic: Option<(f64, f64)>, level: f64) -> CountRow {
    let ratio_of_counts = (a > 0).then(|| b as f64 / a as f64);
    let (says, bunches_of_at_most) = match traffic {
        Some((least, most)) => said((a as f64, b as f64), (least, most), level),
        None => (CountsSay::Depends, None),
    };
    CountRow {
        mark,
        baseline: a,
        other: b,
        ratio_of_counts,
        ratio_of_rates: ratio_of_counts.zip(traffic).map(|(r, (least, most))| (r / most, r / least)),
        says,
        bunches_of_at_most,
    }
}

/// The verdict of a row for a range of traffic, and the largest cluster size for which it holds.
fn said((a, b): (f64, f64), (least, most): (f64, f64), level: f64) -> (CountsSay, Option<f64>) {
    let higher = clusters((a, b), most, level);
    let lower = clusters((b, a), 1.0 / least, level);
    match (higher, lower) {
        (Some(n), _) => (CountsSay::Higher, Some(n)),
        (None, Some(n)) => (CountsSay::Lower, Some(n)),
        (None, None) => (CountsSay::Depends, None),
    }
}

/// The largest clusters for which `many` events in `work` times the work are significantly more than `few`.
fn clusters((few, many): (f64, f64), work: f64, level: f64) -> Option<f64> {
    let largest = if many <= 0.0 {
        0.0
    } else if few <= 0.0 {
        // All on one side: the conditional test of holdup_stats::rate_bound, solved for the cluster size.
        many * (work / (1.0 + work)).ln() / (level / 2.0).ln()
    } else {
        let z = students_t::quantile(1.0 - level / 2.0, NORMAL)?;
        let distance = (many / few / work).ln().max(0.0) / z;
        distance * distance / (1.0 / few + 1.0 / many)
    };
    (largest >= 1.0).then_some(largest)
}

fn answer(rows: &[CountRow], (a, b): (&str, &str), traffic: Option<(f64, f64)>) -> String {
    let of = |says: CountsSay| -> Vec<&CountRow> {
        rows.iter().filter(|r| r.mark.class == MarkClass::Trouble && r.says == says).collect()
    };
    let Some((least, most)) = traffic else {
        let mut turning: Vec<&CountRow> =
            rows.iter().filter(|r| r.mark.class == MarkClass::Trouble && r.ratio_of_counts.is_some()).collect();
        turning.sort_by(|x, y| y.ratio_of_counts.unwrap_or(0.0).total_cmp(&x.ratio_of_counts.unwrap_or(0.0)));
        return match turning.first() {
            Some(first) => format!(
                "Undecided: these are counts without totals. {} has a higher rate unless {b} carried \
                 more than {} of {a}'s segments; the other rows reverse earlier.",
                holdup_model::text::capital(first.mark.plain_title()),
                factor(first.ratio_of_counts.unwrap_or(0.0))
            ),
            None => "Undecided: no mark of trouble that both have.".to_owned(),
        };
    };
    let range = if least < most { format!("from {} to {}", factor(least), factor(most)) } else { factor(least) };
    let mut higher = of(CountsSay::Higher);
    higher.sort_by(|x, y| least_rate(y).total_cmp(&least_rate(x)));
    let depends = of(CountsSay::Depends);
    match higher.split_first() {
        Some((first, rest)) => {
            let rates = match first.ratio_of_rates {
                Some((low, high)) if low < high => format!(" ({} to {})", factor(low), factor(high)),
                Some((low, _)) => format!(" ({})", factor(low)),
                None => " (none before)".to_owned(),
            };
            let also: Vec<String> = rest.iter().map(|r| r.mark.plain_title().to_owned()).collect();
            let also = if also.is_empty() { String::new() } else { format!(" Also worse: {}.", list(&also)) };
            format!(
                "With traffic {range} of {a}'s, {b} got worse the most in: {}{rates} for each segment.{also}",
                first.mark.plain_title()
            )
        }
        None if depends.is_empty() => format!("With traffic {range} of {a}'s, no mark of trouble got more frequent."),
        None => format!(
            "Undecided: with traffic {range} of {a}'s, {} of trouble could be higher or lower.",
            count(depends.len(), "mark")
        ),
    }
}

fn least_rate(row: &CountRow) -> f64 {
    row.ratio_of_rates.map_or(f64::INFINITY, |(low, _)| low)
}

fn notes(rows: &[CountRow], traffic: Option<(f64, f64)>) -> Vec<String> {
    let mut notes = Vec::new();
    let capture: Vec<String> = rows
        .iter()
        .filter(|r| r.mark.class == MarkClass::CaptureArtefact)
        .map(|r| r.mark.plain_title().to_owned())
        .collect();
    if !capture.is_empty() {
        notes.push(format!(
            "These rows are capture artefacts (missed, merged or reordered segments): {}.",
            list(&capture)
        ));
    }
    notes.push(match traffic {
        None => "Give the known range of traffic: --traffic 0.25..1 if the second capture has a quarter to all of the first's \
                 segments. The captures themselves decide it: `holdup packets A.pcap B.pcap`."
            .to_owned(),
        Some(_) => "A row holds unless its marks come in larger clusters than the last column. Counts do not show clusters, captures \
                    do: `holdup packets A.pcap B.pcap`."
            .to_owned(),
    });
    notes
}
