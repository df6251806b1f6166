//! A bundle to comparisons, findings and explanations; a survey of a host to exposures.
//!
//! Start at [`analyse`]. `index` sorts the trials of a bundle by arm and block, `compare` makes all comparisons of its plan,
//! `named` those that the user names; `analyses` (a catalogue) makes findings of them. `watched` sorts the evidence of an
//! arm, `explanations` (a catalogue) judges causes from it, `explain` puts them in order. `condition` is what `cases` (a
//! catalogue) are made of, `check` applies them to a survey. `rates` makes metrics of evidence.
//!
//! Pure, and without statistics: estimates and verdicts are in `holdup-stats`, texts of whole reports in `holdup-report`.
//! A finding is `supported` when what an analysis looks for is there (an effect, a drift, a violated law), `refuted` when it
//! is not, `undecided` when the data do not decide, `skipped` when what it needs was not measured.
#![forbid(unsafe_code)]

pub mod account;
pub mod analyses;
mod arms;
pub mod cases;
mod check;
mod compare;
mod condition;
mod differing;
mod explain;
pub mod explanations;
mod history;
mod index;
mod named;
pub mod rates;
mod shifts;
mod sweeps;
mod waits;
mod wakers;
mod watched;
mod words;

pub use cases::advice_without_effect::impossible;
pub use check::{check, overall};
pub use compare::{DEFAULT_MARGIN, is_decided};
pub use condition::Condition;
pub use differing::differing_facts;
pub use explain::explain;
pub use history::history;
pub use named::{compare_arms, compare_bundles};

use holdup_model::outcome::LatencyShift;
use holdup_model::{Analysis, BundleData, Comparison, Finding};
use index::Index;

/// Everything that can be said about a bundle.
pub fn analyse(bundle: &BundleData) -> Analysis {
    let index = Index::new(bundle);
    let comparisons = compare::all(&index);
    let shifts = shifts::all(&index);
    let findings = findings(&index, &comparisons, &shifts);
    let caution = words::caution(&bundle.head);
    let explanation = explain::is_explained(bundle).then(|| explain(bundle));
    Analysis { caution, findings, comparisons, arms: arms::summaries(&index), shifts, explanation }
}

/// What changed between the windows of two records of the same thing: the states whose share of the time of sessions differs, each in words
/// (`Lock:transactionid 4 % → 62 % (+55 to +61 points)`), the largest difference first.
pub fn time_moved(before: &[account::TimeByState<'_>], now: &[account::TimeByState<'_>]) -> Vec<String> {
    analyses::time_shift::moved(before, now)
}

/// Runs every analysis and puts the findings in order: verdicts first, then notes, those that
/// found something first.
fn findings(index: &Index<'_>, comparisons: &[Comparison], shifts: &[LatencyShift]) -> Vec<Finding> {
    let context = analyses::Context::new(index, comparisons, shifts);
    let source = analyses::Source::of(index.bundle);
    let asked = analyses::ALL.iter().filter(|analysis| analysis.of.contains(&source));
    let mut findings: Vec<Finding> = asked.flat_map(|analysis| (analysis.run)(&context)).collect();
    findings.sort_by_key(|f| (!f.headline, if f.headline { 0 } else { words::rank(f.verdict) }));
    findings
}
