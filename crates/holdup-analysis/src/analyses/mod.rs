//! The catalogue of analyses: one file each, and its line in [`ALL`].

use crate::index::Index;
use holdup_model::outcome::{FindingVerdict, LatencyShift};
use holdup_model::{BundleData, Comparison, Finding, Meta};

pub mod captures;
pub mod change_points;
pub mod cliff;
pub mod completeness;
pub mod direction;
pub mod drift;
pub mod effect;
pub mod environment;
pub mod imported;
pub mod latency_shift;
pub mod littles_law;
pub mod negative_control;
pub mod nodes;
pub mod noise_floor;
pub mod observer_cost;
pub mod scaling;
pub mod slow_trials;
pub mod thin_tails;
pub mod time_shift;
pub mod treatment;
pub mod virtualisation;
pub mod void_trials;

/// Every analysis, in the order of its findings.
pub static ALL: &[Analysis] = &[
    // First, because an arm that was something else stands above every verdict.
    of_runs(&treatment::META, treatment::run),
    of_runs(&environment::META, environment::run),
    of_runs(&nodes::META, nodes::run),
    of_runs(&virtualisation::META, virtualisation::run),
    of_results(&effect::META, effect::run),
    Analysis { of: &[Source::Run, Source::Captures], ..of_runs(&captures::META, captures::run) },
    Analysis { of: &[Source::Results], ..of_runs(&imported::META, imported::run) },
    of_results(&cliff::META, cliff::run),
    of_runs(&negative_control::META, negative_control::run),
    of_runs(&noise_floor::META, noise_floor::run),
    of_results(&latency_shift::META, latency_shift::run),
    Analysis { of: &[Source::Run, Source::Traces], ..of_runs(&time_shift::META, time_shift::run) },
    of_runs(&littles_law::META, littles_law::run),
    of_runs(&direction::META, direction::run),
    of_results(&scaling::META, scaling::run),
    of_runs(&slow_trials::META, slow_trials::run),
    of_runs(&drift::META, drift::run),
    of_runs(&change_points::META, change_points::run),
    of_results(&void_trials::META, void_trials::run),
    of_runs(&observer_cost::META, observer_cost::run),
    of_runs(&completeness::META, completeness::run),
    of_results(&thin_tails::META, thin_tails::run),
];

/// What an analysis looks at.
pub struct Context<'a> {
    pub(crate) index: &'a Index<'a>,
    /// Every comparison that was made.
    pub comparisons: &'a [Comparison],
    /// Every latency distribution against that of its baseline.
    pub shifts: &'a [LatencyShift],
}

impl<'a> Context<'a> {
    pub(crate) fn new(index: &'a Index<'a>, comparisons: &'a [Comparison], shifts: &'a [LatencyShift]) -> Self {
        Context { index, comparisons, shifts }
    }

    pub fn bundle(&self) -> &'a BundleData {
        self.index.bundle
    }
}

/// One analysis: it looks for something in a bundle.
pub struct Analysis {
    /// What it says about itself.
    pub meta: &'static Meta,
    /// Of which bundles it says something.
    pub of: &'static [Source],
    /// What it found. `supported` means that what it looks for is there.
    pub run: fn(&Context<'_>) -> Vec<Finding>,
}

const fn of_runs(meta: &'static Meta, run: fn(&Context<'_>) -> Vec<Finding>) -> Analysis {
    Analysis { meta, of: &[Source::Run], run }
}

/// One that says something of results of other tools too.
const fn of_results(meta: &'static Meta, run: fn(&Context<'_>) -> Vec<Finding>) -> Analysis {
    Analysis { meta, of: &[Source::Run, Source::Results], run }
}

/// Where the trials of a bundle come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// holdup ran or watched them.
    Run,
    /// Other programs captured packets.
    Captures,
    /// Other benchmarks printed results.
    Results,
    /// Other tools traced the scheduler.
    Traces,
}

impl Source {
    pub(crate) fn of(bundle: &BundleData) -> Source {
        match bundle.head.is_imported() {
            false => Source::Run,
            true if bundle.is_of_captures() => Source::Captures,
            true if bundle.is_of_traces() => Source::Traces,
            true => Source::Results,
        }
    }
}

/// A note with neither details nor trials.
pub(crate) fn note(meta: &Meta, verdict: FindingVerdict, sentence: String) -> Finding {
    Finding {
        analysis: meta.id.to_owned(),
        verdict,
        sentence,
        details: Vec::new(),
        trials: Vec::new(),
        headline: false,
    }
}
