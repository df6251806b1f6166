//! The factors of a plan that a simulated machine has: the same names and levels as the knobs of a real host.

use crate::machine::Machine;
use crate::preempt;
use crate::sched::eevdf::Features;
use holdup_model::{Problem, Value};

/// A factor that changes the simulated kernel.
pub struct Factor {
    /// Its name in plans.
    pub id: &'static str,
    /// What it changes, in words.
    pub changes: &'static str,
    set: fn(&mut Machine, &Value) -> Result<(), String>,
}

/// Every factor, in the order shown to users.
pub const ALL: &[Factor] = &[
    Factor { id: "preempt", changes: "the preemption model of the simulated kernel", set: preempt },
    Factor { id: "base-slice", changes: "base_slice_ns of the simulated fair class", set: base_slice },
    Factor { id: "migration-cost", changes: "how long a task is hot on its CPU", set: migration_cost },
    Factor { id: "rseq-slice-length", changes: "how long a slice extension lasts", set: slice_extension },
];

/// What the names of scheduler features begin with.
const FEATURE: &str = "sched-feature.";

/// What a factor changes, in words; `None` when a simulated machine does not have it.
pub fn changes(name: &str) -> Option<String> {
    if let Some(feature) = name.strip_prefix(FEATURE) {
        let mut features = Features::NONE;
        return feature_of(&mut features, feature).map(|_| format!("the feature {feature} of the simulated scheduler"));
    }
    ALL.iter().find(|f| f.id == name).map(|f| f.changes.to_owned())
}

/// Sets a level on a machine.
///
/// # Errors
/// When the simulated machine does not have the factor, or not the level.
pub fn set(machine: &mut Machine, name: &str, value: &Value) -> Result<(), Problem> {
    let what = || format!("factor {name} = {value} on a simulated machine");
    if let Some(feature) = name.strip_prefix(FEATURE) {
        let Some(place) = feature_of(&mut machine.kernel.fair, feature) else { return Err(missing(name)) };
        *place = truth(value).map_err(|why| Problem::usage(what(), why))?;
        return Ok(());
    }
    let factor = ALL.iter().find(|f| f.id == name).ok_or_else(|| missing(name))?;
    (factor.set)(machine, value).map_err(|why| Problem::usage(what(), why))
}

fn missing(name: &str) -> Problem {
    let known: Vec<&str> = ALL.iter().map(|f| f.id).collect();
    Problem::host(format!("factor {name}"), "the simulated machine does not have it").hint(format!(
        "it has {}, {FEATURE}NAME and what its workloads offer; leave the factor out or set optional = true",
        known.join(", ")
    ))
}

fn truth(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(is) => Ok(*is),
        Value::Text(text) if text == "on" => Ok(true),
        Value::Text(text) if text == "off" => Ok(false),
        _ => Err("on or off was expected".to_owned()),
    }
}

fn duration_ns(value: &Value) -> Result<u64, String> {
    match value {
        Value::Integer(ns) => u64::try_from(*ns).map_err(|_| "it is negative".to_owned()),
        _ => Err("a duration was expected".to_owned()),
    }
}

fn preempt(machine: &mut Machine, value: &Value) -> Result<(), String> {
    let known: Vec<&str> = preempt::ALL.iter().map(|m| m.meta.id).collect();
    let Value::Text(name) = value else { return Err(format!("models are {}", known.join(", "))) };
    machine.kernel.preempt = preempt::find(name).ok_or_else(|| format!("models are {}", known.join(", ")))?;
    Ok(())
}

/// `base_slice_ns` can be 0.1 to 100 ms (`kernel/sched/debug.c`).
fn base_slice(machine: &mut Machine, value: &Value) -> Result<(), String> {
    let ns = duration_ns(value)?;
    if !(100_000..=100_000_000).contains(&ns) {
        return Err("a slice is between 100 us and 100 ms".to_owned());
    }
    machine.kernel.fair.base_slice_ns = ns;
    Ok(())
}

fn migration_cost(machine: &mut Machine, value: &Value) -> Result<(), String> {
    machine.kernel.migration_cost_ns = duration_ns(value)?;
    Ok(())
}

fn slice_extension(machine: &mut Machine, value: &Value) -> Result<(), String> {
    let ns = duration_ns(value)?;
    if !(5_000..=50_000).contains(&ns) {
        return Err("a slice extension is between 5 and 50 us".to_owned());
    }
    machine.kernel.slice_extension_ns = ns;
    Ok(())
}

fn feature_of<'a>(features: &'a mut Features, name: &str) -> Option<&'a mut bool> {
    Some(match name {
        "PLACE_LAG" => &mut features.place_lag,
        "PLACE_DEADLINE_INITIAL" => &mut features.place_deadline_initial,
        "RUN_TO_PARITY" => &mut features.run_to_parity,
        "PLACE_REL_DEADLINE" => &mut features.place_rel_deadline,
        "PREEMPT_SHORT" => &mut features.preempt_short,
        "DELAY_DEQUEUE" => &mut features.delay_dequeue,
        "DELAY_ZERO" => &mut features.delay_zero,
        "WAKEUP_PREEMPTION" => &mut features.wakeup_preemption,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::known;

    #[test]
    fn levels_are_set_or_refused_with_the_reason() {
        let mut machine = known::find("server-8").expect("it is there").machine;
        let mut shown = |name: &str, value: Value| {
            set(&mut machine, name, &value).map_err(|p| format!("{}: {}", p.what, p.why)).err()
        };
        assert_eq!(shown("preempt", "none".into()), None);
        assert_eq!(shown("base-slice", 6_000_000.into()), None);
        assert_eq!(shown("sched-feature.RUN_TO_PARITY", false.into()), None);
        insta::assert_debug_snapshot!([
            shown("preempt", "soft".into()),
            shown("base-slice", 3.into()),
            shown("sched-feature.NO_SUCH", true.into()),
            shown("cpu-governor", "performance".into()),
            shown("rseq-slice-length", 4_999.into()),
        ]);
        assert_eq!(machine.kernel.preempt.meta.id, "none");
        assert_eq!(machine.kernel.fair.base_slice_ns, 6_000_000);
        assert!(!machine.kernel.fair.run_to_parity);
    }
}
