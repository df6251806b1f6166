//! The parameters of `mixed`: the workloads that take part. Each has its own parameters, as `KIND.parameter`.

use crate::parameters::parameters;

/// The parameter that names the workload that is measured.
pub const FOREGROUND: &str = "foreground";
/// The parameter that names the workloads behind it.
pub const BACKGROUND: &str = "background";
/// No workload.
pub const NONE: &str = "none";

parameters! {
    /// What a plan sets of `mixed` itself.
    "mixed"

    /// the kind of the workload that is measured
    foreground: String,
    /// the kinds of those behind it, with + between, or none
    background: String = "none",
}

impl Parameters {
    /// The kinds of the workloads behind the one that is measured.
    pub fn backgrounds(&self) -> impl Iterator<Item = &str> {
        named(&self.background)
    }
}

/// The kinds in a value of `background`.
pub fn named(background: &str) -> impl Iterator<Item = &str> {
    background.split('+').map(str::trim).filter(|kind| *kind != NONE)
}

/// A member's own values among those of an arm.
pub fn own(kind: &str, values: &holdup_model::Parameters) -> holdup_model::Parameters {
    let mut own = holdup_model::Parameters::default();
    for (name, value) in &values.0 {
        if let Some(name) = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')) {
            own.set(name, value.clone());
        }
    }
    own
}
