//! The parameter `by`: which program measures, where an original tool can.

use holdup_model::{Parameter, ParameterKind};

/// The parameter.
pub const BY: &str = "by";
/// The level that means holdup's own engine.
pub const OWN: &str = "holdup";

/// The parameter `by` of a workload that these reference tools measure too; the first word is [`OWN`].
pub const fn parameter(words: &'static [&'static str]) -> Parameter {
    Parameter {
        name: BY,
        kind: ParameterKind::Choice(words),
        default: Some(OWN),
        required: false,
        summary: "the program that measures: holdup, or a reference tool that is installed",
        simulated: true,
    }
}
