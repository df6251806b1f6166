//! The factors of a plan that a simulated machine has: the same names and levels as the knobs of a real host.

use crate::machine::{MOST_CPUS, Machine};
use crate::preempt;
use crate::sched::{Switch, cfs, eevdf};
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
    Factor {
        id: "base-slice",
        changes: "base_slice_ns of the simulated fair class, min_granularity_ns before 6.6",
        set: base_slice,
    },
    Factor {
        id: "migration-cost",
        changes: "how long a task is hot on its CPU",
        set: |machine, value| {
            machine.kernel.migration_cost_ns = duration_ns(value)?;
            Ok(())
        },
    },
    Factor { id: "rseq-slice-length", changes: "how long a slice extension lasts", set: slice_extension },
    Factor {
        id: "autogroup",
        changes: "whether each session of the simulated tasks is a group",
        set: |machine, value| {
            machine.kernel.autogroup = truth(value)?;
            Ok(())
        },
    },
    Factor { id: "nr-migrate", changes: "how many tasks one simulated balancing considers", set: nr_migrate },
    Factor {
        id: "hrtick",
        changes: "whether a timer ends simulated slices",
        set: |machine, value| {
            machine.kernel.hrtick = truth(value)?;
            Ok(())
        },
    },
];

/// A mechanism of the model that can be switched off alone: a factor that no real host has.
pub struct Mechanism {
    /// Its name in plans.
    pub id: &'static str,
    /// What is without it, in words.
    pub off: &'static str,
    switch_off: fn(&mut Machine),
}

/// Every mechanism, in the order shown to users.
pub const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        id: "mechanism.lazy-needs-tick",
        off: "a lazy request sends an interrupt to the CPU that it is for, as an earnest one does",
        switch_off: |machine| machine.kernel.mechanisms.lazy_needs_tick = false,
    },
    Mechanism {
        id: "mechanism.fault-under-lock",
        off: "the first touch of a page by the holder of a lock is no fault",
        switch_off: |machine| machine.kernel.mechanisms.fault_under_lock = false,
    },
    Mechanism {
        id: "mechanism.exchanging-turns",
        off: "s_lock on arm64 looks before it exchanges, as PostgreSQL does from 18 on",
        switch_off: |machine| machine.kernel.mechanisms.exchanging_turns = false,
    },
    Mechanism {
        id: "mechanism.line-transfer",
        off: "a cache line is wherever it is wanted, however many want it",
        switch_off: |machine| (machine.costs.transfer_ns, machine.costs.contender_ns) = ([0; 5], 0),
    },
    Mechanism {
        id: "mechanism.migration-hot",
        off: "no task is hot on its CPU",
        switch_off: |machine| machine.kernel.migration_cost_ns = 0,
    },
    Mechanism {
        id: "mechanism.wakeup-preemption",
        off: "a fair task that wakes up preempts none",
        switch_off: |machine| {
            machine.kernel.fair.wakeup_preemption = false;
            machine.kernel.cfs = machine.kernel.cfs.map(|cfs| cfs::Features { wakeup_preemption: false, ..cfs });
        },
    },
];

/// The number of CPUs: a factor that no real host has, set before all others, because defaults depend on it.
pub const CPUS: &str = "simulated.cpus";

/// What the names of scheduler features begin with.
const FEATURE: &str = "sched-feature.";

/// What a factor changes, in words; `None` when a simulated machine does not have it.
pub fn changes(name: &str) -> Option<String> {
    if let Some(feature) = name.strip_prefix(FEATURE) {
        let is_known = names(eevdf::SWITCHES).contains(&feature) || names(cfs::SWITCHES).contains(&feature);
        return is_known.then(|| format!("the feature {feature} of the simulated scheduler"));
    }
    if name == CPUS {
        return Some("the number of CPUs of the simulated machine".to_owned());
    }
    let mechanism = || MECHANISMS.iter().find(|m| m.id == name).map(|m| format!("off: {}", m.off));
    ALL.iter().find(|f| f.id == name).map(|f| f.changes.to_owned()).or_else(mechanism)
}

/// Sets the levels of some factors on a machine: the number of CPUs first, mechanisms last, so that one that is off stays so.
///
/// # Errors
/// When the simulated machine does not have the factor, or not the level.
pub fn set_all<'a>(
    machine: &mut Machine,
    levels: impl Iterator<Item = (&'a str, &'a Value)> + Clone,
) -> Result<(), Problem> {
    let place = |name: &str| match name {
        CPUS => 0,
        name if MECHANISMS.iter().any(|m| m.id == name) => 2,
        _ => 1,
    };
    (0..=2).try_for_each(|turn| {
        let mut of_turn = levels.clone().filter(|(name, _)| place(name) == turn);
        of_turn.try_for_each(|(name, value)| set(machine, name, value))
    })
}

/// Sets a level on a machine.
///
/// # Errors
/// When the simulated machine does not have the factor, or not the level.
pub fn set(machine: &mut Machine, name: &str, value: &Value) -> Result<(), Problem> {
    let wrong = |why: String| Problem::usage(format!("factor {name} = {value} on a simulated machine"), why);
    if let Some(feature) = name.strip_prefix(FEATURE) {
        *feature_of(machine, feature)? = truth(value).map_err(wrong)?;
        return Ok(());
    }
    if name == CPUS {
        return cpus(machine, value).map_err(wrong);
    }
    if let Some(mechanism) = MECHANISMS.iter().find(|m| m.id == name) {
        if !truth(value).map_err(wrong)? {
            (mechanism.switch_off)(machine);
        }
        return Ok(());
    }
    let factor = ALL.iter().find(|f| f.id == name).ok_or_else(|| missing(name))?;
    (factor.set)(machine, value).map_err(wrong)
}

fn missing(name: &str) -> Problem {
    let known: Vec<&str> = ALL.iter().map(|f| f.id).chain([CPUS]).chain(MECHANISMS.iter().map(|m| m.id)).collect();
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
    let known: Vec<&str> = preempt::ALL.iter().map(|m| m.id).collect();
    let Value::Text(name) = value else { return Err(format!("models are {}", known.join(", "))) };
    machine.kernel.preempt = preempt::find(name).ok_or_else(|| format!("models are {}", known.join(", ")))?;
    Ok(())
}

/// `base_slice_ns` can be 0.1 to 100 ms; the kernel's own bounds of `min_granularity_ns` were 0.1 ms and 1 s
/// (kernel/sysctl.c, v5.10).
fn base_slice(machine: &mut Machine, value: &Value) -> Result<(), String> {
    let ns = duration_ns(value)?;
    if let Some(cfs) = &mut machine.kernel.cfs {
        if !(100_000..=1_000_000_000).contains(&ns) {
            return Err("a granularity is between 100 us and 1 s".to_owned());
        }
        cfs.min_granularity_ns = ns;
        return Ok(());
    }
    if !(100_000..=100_000_000).contains(&ns) {
        return Err("a slice is between 100 us and 100 ms".to_owned());
    }
    machine.kernel.fair.base_slice_ns = ns;
    Ok(())
}

fn cpus(machine: &mut Machine, value: &Value) -> Result<(), String> {
    let known = if let Value::Integer(cpus) = value { *cpus } else { 0 };
    let cpus = u32::try_from(known).ok().filter(|cpus| (1..=MOST_CPUS).contains(&u64::from(*cpus)));
    let cpus = cpus.ok_or_else(|| format!("a number from 1 to {MOST_CPUS} was expected"))?;
    let before = machine.topology.cpus();
    machine.topology = machine.topology.with_cpus(cpus)?;
    machine.kernel.rescale(before, cpus);
    Ok(())
}

fn nr_migrate(machine: &mut Machine, value: &Value) -> Result<(), String> {
    let Value::Integer(tasks) = value else { return Err("a number of tasks was expected".to_owned()) };
    machine.kernel.nr_migrate = u32::try_from(*tasks).map_err(|_| "it is negative or too large".to_owned())?;
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

/// A feature of the fair class that the machine's kernel has.
fn feature_of<'a>(machine: &'a mut Machine, name: &str) -> Result<&'a mut bool, Problem> {
    let (class, known, found) = match &mut machine.kernel.cfs {
        Some(cfs) => ("CFS", names(cfs::SWITCHES), switch(cfs::SWITCHES, cfs, name)),
        None => ("EEVDF", names(eevdf::SWITCHES), switch(eevdf::SWITCHES, &mut machine.kernel.fair, name)),
    };
    found.ok_or_else(|| {
        let why = format!("the fair class of the simulated kernel is {class}, which has no such feature");
        Problem::host(format!("factor {FEATURE}{name}"), why)
            .hint(format!("it has {}; HRTICK is the factor hrtick", known.join(", ")))
    })
}

fn names<T>(switches: &[(&'static str, T)]) -> Vec<&'static str> {
    switches.iter().map(|(name, _)| *name).collect()
}

fn switch<'a, F>(switches: &[Switch<F>], of: &'a mut F, name: &str) -> Option<&'a mut bool> {
    switches.iter().find(|(known, _)| *known == name).map(|(_, get)| get(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::catalogue;

    #[test]
    fn levels_are_set_or_refused_with_the_reason() {
        let mut machine = catalogue::find("server-8").expect("it is there").machine;
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
        assert_eq!(machine.kernel.preempt.id, "none");
        assert_eq!(machine.kernel.fair.base_slice_ns, 6_000_000);
        assert!(!machine.kernel.fair.run_to_parity);
    }

    #[test]
    fn every_feature_and_mechanism_that_is_named_can_be_set() {
        let machine = |version: &str| {
            let mut machine = catalogue::find("server-8").expect("it is there").machine;
            machine.kernel = crate::machine::Kernel::of_version(version, 8, 250).expect("known");
            machine
        };
        for (version, features) in [("6.1", names(cfs::SWITCHES)), ("6.18", names(eevdf::SWITCHES))] {
            for feature in features {
                let name = format!("{FEATURE}{feature}");
                set(&mut machine(version), &name, &false.into()).expect("it has it");
                assert!(changes(&name).is_some(), "{name}");
            }
        }
        for mechanism in MECHANISMS {
            let (mut on, mut off) = (machine("6.18"), machine("6.18"));
            set(&mut on, mechanism.id, &true.into()).expect("a level");
            set(&mut off, mechanism.id, &false.into()).expect("a level");
            assert_eq!(format!("{on:?}"), format!("{:?}", machine("6.18")), "{}", mechanism.id);
            assert_ne!(format!("{off:?}"), format!("{on:?}"), "{}", mechanism.id);
        }
    }

    #[test]
    fn what_the_kernel_of_the_machine_does_not_have_is_refused() {
        let mut machine = catalogue::find("server-8").expect("it is there").machine;
        machine.kernel = crate::machine::Kernel::of_version("6.1", 8, 250).expect("known");
        set(&mut machine, "base-slice", &1_000_000.into()).expect("a granularity");
        assert_eq!(machine.kernel.cfs.expect("CFS").min_granularity_ns, 1_000_000);
        let refused = set(&mut machine, "sched-feature.DELAY_DEQUEUE", &false.into()).expect_err("6.1 has CFS");
        insta::assert_snapshot!(format!("{refused}\n{}", refused.hint.as_deref().unwrap_or_default()));
    }

    #[test]
    fn the_number_of_cpus_is_set_first_and_scales_what_depends_on_it() {
        let eight = catalogue::find("server-8").expect("it is there").machine;
        let with = |levels: &[(&str, Value)]| {
            let mut machine = eight.clone();
            set_all(&mut machine, levels.iter().map(|(name, value)| (*name, value))).expect("levels");
            (machine.topology.cpus(), machine.kernel.fair.base_slice_ns)
        };
        assert_eq!(with(&[]), (8, 2_800_000));
        assert_eq!(with(&[(CPUS, 2.into())]), (2, 1_400_000));
        assert_eq!(with(&[(CPUS, 16.into())]), (16, 2_800_000));
        assert_eq!(with(&[("base-slice", 3_000_000.into()), (CPUS, 1.into())]), (1, 3_000_000));
        for wrong in [0, -1, 100_000_000] {
            assert!(set(&mut eight.clone(), CPUS, &wrong.into()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mechanism_that_is_off_stays_off_beside_all_others() {
        let mut machine = catalogue::find("server-8").expect("it is there").machine;
        let levels = [("mechanism.migration-hot", Value::Bool(false)), ("migration-cost", Value::Integer(5_000_000))];
        set_all(&mut machine, levels.iter().map(|(name, value)| (*name, value))).expect("levels");
        assert_eq!(machine.kernel.migration_cost_ns, 0);
    }
}
