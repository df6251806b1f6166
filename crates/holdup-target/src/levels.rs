//! What a plan sets in its arms: levels of factors, settings, parameters.

use holdup_model::plan::Level;
use holdup_model::profile;
use holdup_model::{Arm, Parameters, Plan, WorkloadUse};
use std::collections::{BTreeMap, BTreeSet};

/// The names of all settings and factors of a plan, settings first, then what profiles set.
pub(crate) fn names(plan: &Plan) -> impl Iterator<Item = &str> {
    let own = plan.settings.iter().map(|(name, _)| name.as_str()).chain(plan.factors.iter().map(|f| f.name.as_str()));
    own.filter(|name| *name != profile::FACTOR).chain(of_profiles(plan))
}

/// The knobs that profiles of a plan set, each once.
pub(crate) fn of_profiles(plan: &Plan) -> BTreeSet<&str> {
    plan.profiles.iter().flat_map(|p| &p.settings).map(|setting| setting.knob.as_str()).collect()
}

/// Every level that a plan gives to a name.
pub(crate) fn levels<'a>(plan: &'a Plan, name: &'a str) -> impl Iterator<Item = &'a Level> {
    let fixed = plan.settings.iter().filter(move |(setting, _)| setting == name).map(|(_, level)| level);
    let varied = plan.factors.iter().filter(move |factor| factor.name == name).flat_map(|factor| &factor.levels);
    let of_profiles = plan.profiles.iter().flat_map(|p| &p.settings).filter(move |s| s.knob == name).map(|s| &s.level);
    fixed.chain(varied).chain(of_profiles)
}

/// The fixed settings, either those of servers or those of the host.
pub(crate) fn settings(plan: &Plan, of_server: bool) -> BTreeMap<String, Level> {
    let is_server = |name: &str| holdup_knobs::find(name).is_some_and(|(knob, _)| knob.is_of_server());
    plan.settings.iter().filter(|(name, _)| is_server(name) == of_server).cloned().collect()
}

/// The level of everything for an arm: fixed settings, its own levels, what its profile sets, and the baseline of the
/// factors that do not hold for its workload, so that no level of an earlier trial stays.
pub(crate) fn levels_of(plan: &Plan, arm: &Arm) -> BTreeMap<String, Level> {
    let mut levels: BTreeMap<String, Level> = plan.settings.iter().cloned().collect();
    for factor in &plan.factors {
        if let Some(baseline) = factor.levels.first() {
            levels.insert(factor.name.clone(), baseline.clone());
        }
    }
    levels.extend(arm.factors.iter().map(|(name, level)| (name.clone(), level.clone())));
    if let Some(chosen) = levels.remove(profile::FACTOR)
        && let Some(profile) = plan.profiles.iter().find(|p| p.name == chosen.label)
    {
        levels.extend(profile.settings.iter().map(|s| (s.knob.clone(), s.level.clone())));
    }
    levels
}

/// The parameters of an arm: those of its workload, and its place on the axes.
pub(crate) fn parameters_of(used: &WorkloadUse, arm: &Arm) -> Parameters {
    let mut parameters = used.parameters.clone();
    for (axis, level) in &arm.axes {
        parameters.set(axis, level.value.clone());
    }
    parameters
}
