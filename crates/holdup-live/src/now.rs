//! What a screen shows: the last windows, against those before them.

use crate::{Bar, Memory};
use holdup_analysis::account::TimeByState;
use holdup_analysis::{explain, time_moved};
use holdup_model::BundleData;
use holdup_model::explanation::ArmExplanation;

/// The last windows of a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct Now {
    /// They as a bundle of one arm.
    pub bundle: BundleData,
    /// What delays the system in them; `None` where none of them counts.
    pub explanation: Option<ArmExplanation>,
    /// How they differ from the windows before them, each in words, the largest difference first. Empty where nothing
    /// differs, or where too few windows say so.
    pub changed: Vec<String>,
}

impl Now {
    /// The last windows, compared with at most as many as `before` before them. `None` before a watch has begun.
    pub fn of(memory: &Memory, last: usize, before: usize) -> Option<Self> {
        let all = memory.windows().len();
        let from = all.saturating_sub(last);
        let bundle = memory.bundle_of(memory.windows().skip(from))?;
        let of = memory.bars().rev().find(|bar| !bar.of.is_empty()).map_or("", |bar| &bar.of);
        let side = |from: usize, to: usize| -> Vec<TimeByState<'_>> {
            memory.bars().take(to).skip(from).filter(|bar| bar.of == of).map(times_s).collect()
        };
        let changed = time_moved(&side(from.saturating_sub(before), from), &side(from, all));
        let explanation = explain(&bundle).arms.into_iter().next();
        Some(Now { bundle, explanation, changed })
    }
}

fn times_s(bar: &Bar) -> TimeByState<'_> {
    bar.states.iter().map(|(name, _, seconds)| (name.as_str().into(), *seconds)).collect()
}
