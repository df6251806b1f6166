//! The parameter `by`: who measures, where an original tool can.

use holdup_model::{Parameter, ParameterKind};

/// The parameter.
pub const BY: &str = "by";
/// The level that means holdup's own engine.
pub const OWN: &str = "holdup";

/// The parameter `by` of a workload that these tools can stand in for; the first word is [`OWN`].
pub const fn parameter(words: &'static [&'static str]) -> Parameter {
    Parameter {
        name: BY,
        kind: ParameterKind::Choice(words),
        default: Some(OWN),
        required: false,
        summary: "who measures: holdup, or an original tool that is installed",
        simulated: true,
    }
}
