//! Counts of two captures, where nobody knows out of how many.
//!
//! A ratio of counts is no ratio of rates: with half of the traffic, the same rate gives half of the count. What can be said
//! is how much traffic the other side may have had before a row turns, and, when its traffic is known from and to, which
//! rows are higher or lower for all of it. How marks come in bunches cannot be known from counts, so that a row says up to
//! which size of a bunch it holds.

use super::marks::mark;
use crate::expert::Expert;
use crate::kinds::{Kind, MarkClass};
use holdup_model::captures::{CountRow, CountsComparison, CountsSay, Mark};
use holdup_model::outcome::FindingVerdict;
use holdup_model::text::count;
use holdup_model::text::{factor, list};
use holdup_stats::{ALPHA, students_t};

/// Degrees of freedom at which t is normal.
const NORMAL: f64 = 1e9;

/// Compares two lists of counts. `traffic` is B's number of segments by A's, from and to, where something is known of it.
pub fn compare_counts(
    baseline: (&str, &Expert),
    other: (&str, &Expert),
    traffic: Option<(f64, f64)>,
) -> CountsComparison {
    let (a, b) = (baseline.1, other.1);
    let mut pairs: Vec<(Mark, u64, u64)> =
        Kind::ALL.iter().map(|kind| (mark(*kind), a.get(*kind), b.get(*kind))).filter(|(_, a, b)| a + b > 0).collect();
    pairs.extend(others(a, b));
    // Every row may be wrong by chance, so that each has its part of the level.
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

/// What Wireshark found in TCP beside our kinds.
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

/// What a row says for all traffic from and to, and how far events may come in bunches before it says nothing.
fn said((a, b): (f64, f64), (least, most): (f64, f64), level: f64) -> (CountsSay, Option<f64>) {
    let higher = bunches((a, b), most, level);
    let lower = bunches((b, a), 1.0 / least, level);
    match (higher, lower) {
        (Some(n), _) => (CountsSay::Higher, Some(n)),
        (None, Some(n)) => (CountsSay::Lower, Some(n)),
        (None, None) => (CountsSay::Depends, None),
    }
}

/// The largest bunches with which `many` out of `work` times the work is still too many to be chance beside `few`; `None`
/// when it is not even with events that come one by one.
fn bunches((few, many): (f64, f64), work: f64, level: f64) -> Option<f64> {
    let largest = if many <= 0.0 {
        0.0
    } else if few <= 0.0 {
        // All of them on one side, by chance: the conditional test of holdup_stats::rate_bound, solved for the bunches.
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
                "Undecided: these are counts, and nobody says out of how many segments. {} has a higher rate unless {b} carried \
                 more than {} of {a}'s segments; the other rows turn earlier.",
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

/// The least that a rate grew by.
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
            "These rows measure what the capture missed or how it merged segments, and move with it: {}.",
            list(&capture)
        ));
    }
    notes.push(match traffic {
        None => "Say what is known of the traffic: --traffic 0.25..1 when the second capture has from a quarter to all of the \
                 first's segments. The captures themselves decide it: `holdup packets A.pcap B.pcap`."
            .to_owned(),
        Some(_) => "A row holds as long as its marks do not come in larger bunches than the last column says. How they do come \
                    is in the captures, not in their counts: `holdup packets A.pcap B.pcap`."
            .to_owned(),
    });
    notes
}
