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
pub mod latency_shift;
pub mod littles_law;
pub mod negative_control;
pub mod noise_floor;
pub mod observer_cost;
pub mod scaling;
pub mod thin_tails;
pub mod treatment;
pub mod virtualisation;
pub mod void_trials;

/// Every analysis, in the order of its findings.
pub static ALL: &[&dyn Analysis] = &[
    // First, because an arm that was something else stands above every verdict.
    &treatment::Treatment,
    &environment::Environment,
    &virtualisation::Virtualisation,
    &effect::Effect,
    &captures::Captures,
    &cliff::Cliff,
    &negative_control::NegativeControl,
    &noise_floor::NoiseFloor,
    &latency_shift::LatencyShift,
    &littles_law::LittlesLaw,
    &direction::Direction,
    &scaling::Scaling,
    &drift::Drift,
    &change_points::ChangePoints,
    &void_trials::VoidTrials,
    &observer_cost::ObserverCost,
    &completeness::Completeness,
    &thin_tails::ThinTails,
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

    /// The bundle.
    pub fn bundle(&self) -> &'a BundleData {
        self.index.bundle
    }
}

/// One analysis: it looks for something in a bundle.
pub trait Analysis: Sync {
    /// What it says about itself.
    fn meta(&self) -> &'static Meta;
    /// Whether it says something of bundles that were imported, in which nothing was run.
    fn is_of_imports(&self) -> bool {
        false
    }
    /// What it found. `supported` means that what it looks for is there.
    fn run(&self, context: &Context<'_>) -> Vec<Finding>;
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
