//! Where sessions spend their time in one arm, and where in another.

use super::{Context, note};
use crate::account::{self, TimeByState};
use crate::shifts::partner;
use crate::watched::Watched;
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Arm, BundleData, Estimate, Finding, Meta};
use std::collections::BTreeSet;

pub static META: Meta = Meta {
    id: "time-shift",
    summary: "where the time of sessions went, compared with the baseline",
    docs: "The share that each state has in the time of sessions at work (collector account), in an arm and in its baseline, \
           and the difference in percentage points. Its interval is made of the intervals of both shares, which are taken \
           to be independent, and those of all states hold together at 95 %; a difference counts if its interval lies on \
           one side of zero and it is a point at least.",
    references: &["Zou and Donner, Statistics in Medicine 27 (2008): 1693-1702"],
};

/// A smaller difference of two shares is left out.
const LEAST: f64 = 0.01;
/// The states that the sentence names.
const SHOWN: usize = 3;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let bundle = context.bundle();
    let pairs = context.index.arms().filter_map(|arm| Some((partner(context.index, arm)?, arm)));
    pairs.filter(|(_, arm)| arm.replica.is_none()).filter_map(|(a, b)| between((bundle, a), (bundle, b))).collect()
}

/// One state in both.
struct Shift {
    name: String,
    /// The shares in the baseline and in the other.
    shares: [f64; 2],
    /// Their difference.
    by: f64,
    low: f64,
    high: f64,
}

impl Shift {
    /// The interval of a difference by the recovered variances of both sides.
    fn of(name: &str, a: &Estimate, b: &Estimate) -> Self {
        let by = b.value - a.value;
        let low = by - (b.value - b.low).hypot(a.high - a.value);
        let high = by + (b.high - b.value).hypot(a.value - a.low);
        Shift { name: name.to_owned(), shares: [a.value, b.value], by, low, high }
    }

    fn is_apart(&self) -> bool {
        (self.low > 0.0 || self.high < 0.0) && self.by.abs() >= LEAST
    }

    /// `Lock:transactionid 4 % → 62 % (+55 to +61 points)`.
    fn in_words(&self) -> String {
        let [a, b] = self.shares.map(words::percent);
        format!("{} {a} → {b} ({:+.0} to {:+.0} points)", self.name, self.low * 100.0, self.high * 100.0)
    }
}

/// The states whose share of the time of sessions is another one now than before, each in words, the largest difference first.
pub(crate) fn moved(before: &[TimeByState<'_>], now: &[TimeByState<'_>]) -> Vec<String> {
    shifts([before, now]).iter().filter(|s| s.is_apart()).map(Shift::in_words).collect()
}

/// All states of both, the largest difference first.
fn shifts(windows: [&[TimeByState<'_>]; 2]) -> Vec<Shift> {
    let names: BTreeSet<&str> = windows.into_iter().flatten().flat_map(|w| w.keys()).map(AsRef::as_ref).collect();
    let [a, b] = windows.map(|side| account::shares(side, &names));
    let mut shifts: Vec<Shift> =
        names.iter().filter_map(|name| Some(Shift::of(name, a.get(name)?, b.get(name)?))).collect();
    shifts.sort_by(|x, y| y.by.abs().total_cmp(&x.by.abs()));
    shifts
}

/// How the account of one arm differs from that of its baseline; `None` where one has no account, or only one window.
pub(crate) fn between(baseline: (&BundleData, &Arm), level: (&BundleData, &Arm)) -> Option<Finding> {
    let watched = [baseline, level].map(|(bundle, arm)| Watched::new(bundle, arm));
    let windows =
        watched.each_ref().map(|side| account::by_state(side).map(|(_, windows)| windows).unwrap_or_default());
    let shifts = shifts([&windows[0], &windows[1]]);
    if shifts.is_empty() {
        return None;
    }
    let moved: Vec<String> = shifts.iter().filter(|s| s.is_apart()).take(SHOWN).map(Shift::in_words).collect();
    let sessions = account::sessions(&watched[1]);
    let against = if baseline.1.label == level.1.label { "the first run" } else { baseline.1.label.as_str() };
    let trials = watched[1].trials.iter().map(|t| t.seq).collect();
    let details = shifts.iter().filter(|s| s.shares.iter().any(|share| *share >= LEAST)).map(Shift::in_words).collect();
    let finding = |verdict, sentence| Finding { details, trials, ..note(&META, verdict, sentence) };
    Some(if moved.is_empty() {
        let sentence = format!("{}: where time goes is the same as in {against}, within the intervals.", level.1.label);
        finding(FindingVerdict::Refuted, sentence)
    } else {
        let sentence =
            format!("{}: where {sessions} spend their time, against {against}: {}.", level.1.label, moved.join("; "));
        finding(FindingVerdict::Supported, sentence)
    })
}
