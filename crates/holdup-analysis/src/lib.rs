//! Evidence to findings, one file per analysis.
//!
//! Pure: a bundle goes in, an [`Analysis`] comes out, the same one every time; so does an
//! [`Explanation`](holdup_model::Explanation), which compares nothing and says what held an arm up. An analysis looks
//! for something, and its findings say whether that was seen: `supported` means that there is
//! something to see (an effect, a drift, a violated law), `refuted` that it was looked for and is
//! not there, `undecided` that the data do not tell, `skipped` that what it needs was not measured.
#![forbid(unsafe_code)]

pub mod analyses;
mod arms;
pub mod cases;
mod check;
mod compare;
mod condition;
mod explain;
pub mod explanations;
mod history;
mod index;
mod named;
mod shifts;
mod sweeps;
mod watched;
mod words;

pub use arms::arm_summaries;
pub use cases::advice_without_effect::impossible;
pub use check::{check, overall};
pub use compare::{DEFAULT_MARGIN, is_decided};
pub use condition::Condition;
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
    let explanation = explain::is_told(bundle).then(|| explain(bundle));
    Analysis { caution, findings, comparisons, arms: arms::summaries(&index), shifts, explanation }
}

/// Runs every analysis and puts the findings in order: verdicts first, then notes, those that
/// found something first.
fn findings(index: &Index<'_>, comparisons: &[Comparison], shifts: &[LatencyShift]) -> Vec<Finding> {
    let context = analyses::Context::new(index, comparisons, shifts);
    let is_imported = index.bundle.head.is_imported();
    let asked = analyses::ALL.iter().filter(|analysis| !is_imported || analysis.is_of_imports());
    let mut findings: Vec<Finding> = asked.flat_map(|analysis| analysis.run(&context)).collect();
    findings.sort_by_key(|f| (!f.headline, if f.headline { 0 } else { words::rank(f.verdict) }));
    findings
}
