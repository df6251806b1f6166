//! What each boot of a schedule is: a kernel, its command line, a PostgreSQL, and the part of the plan that runs in it.

use holdup_model::guest::{BOOT_DEFAULT, BOOT_PREFIX, KERNEL, POSTGRES_SERVER, is_chosen_at_boot};
use holdup_model::plan::Level;
use holdup_model::wire::Work;
use holdup_model::{Arm, Plan, Problem, Schedule};
use std::collections::BTreeSet;

/// The level of `postgres-server` that means the programs of this host.
const HOST_SERVER: &str = "host";

/// What is chosen when a guest boots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    /// Which kernel, as the plan names it.
    pub(super) kernel: String,
    /// What stands on the command line, as (name, value).
    pub(super) parameters: Vec<(String, String)>,
    /// Which PostgreSQL, as the plan names it; `None` leaves it to the host.
    pub(super) postgres: Option<String>,
}

impl Choice {
    /// What an arm asks for.
    pub(super) fn of(plan: &Plan, arm: &Arm) -> Result<Self, Problem> {
        let chosen = plan.chosen_at_boot(arm);
        let text = |name: &str| chosen.get(name).map(|level| level.value.to_string());
        let kernel = text(KERNEL).ok_or_else(|| {
            Problem::usage("the plan", "it names no kernel").hint("for example kernel = \"debian:7.0\" in [set]")
        })?;
        let parameters = chosen
            .iter()
            .filter_map(|(name, level)| Some((name.strip_prefix(BOOT_PREFIX)?.to_owned(), level.value.to_string())))
            .filter(|(_, value)| value != BOOT_DEFAULT)
            .collect();
        Ok(Choice { kernel, parameters, postgres: text(POSTGRES_SERVER).filter(|named| named != HOST_SERVER) })
    }

    /// For people: `debian:7.0 preempt=lazy`.
    pub(super) fn label(&self) -> String {
        let mut label = self.kernel.clone();
        for (name, value) in &self.parameters {
            label.push_str(&format!(" {name}={value}"));
        }
        if let Some(postgres) = &self.postgres {
            label.push_str(&format!(" postgres-server={postgres}"));
        }
        label
    }
}

/// The choices of a schedule, each once, in order.
pub(super) fn choices(plan: &Plan, schedule: &Schedule) -> Result<Vec<Choice>, Problem> {
    let mut all = BTreeSet::new();
    for arm in &schedule.arms {
        all.insert(Choice::of(plan, arm)?);
    }
    Ok(all.into_iter().collect())
}

/// What a guest with this choice is to do for these arms.
pub(super) fn work(plan: &Plan, arms: Vec<Arm>, postgres_bin: Option<String>) -> Work {
    let mut plan = plan.clone();
    plan.exclude.clear();
    plan.settings.retain(|(name, _)| !is_chosen_at_boot(name));
    plan.factors.retain(|f| !is_chosen_at_boot(&f.name));
    plan.workloads.retain(|w| arms.iter().any(|arm| arm.workload == w.name));
    for factor in &mut plan.factors {
        // A level that no arm of this boot has would be asked of a kernel that may not offer it.
        factor.levels.retain(|level| occurs(&arms, &factor.name, level));
    }
    plan.factors.retain(|f| !f.levels.is_empty());
    Work { plan, schedule: Schedule { arms, trials: Vec::new() }, postgres_bin }
}

fn occurs(arms: &[Arm], factor: &str, level: &Level) -> bool {
    arms.iter().any(|arm| arm.factors.get(factor) == Some(level))
}

/// The arms that have this choice.
pub(super) fn arms_with(plan: &Plan, schedule: &Schedule, choice: &Choice) -> Vec<Arm> {
    let has = |arm: &&Arm| Choice::of(plan, arm).is_ok_and(|of_arm| of_arm == *choice);
    schedule.arms.iter().filter(has).cloned().collect()
}

/// The arms of one boot.
pub(super) fn arms_of(schedule: &Schedule, boot: u32) -> Vec<Arm> {
    let numbers: BTreeSet<u32> = schedule.trials.iter().filter(|t| t.boot == boot).map(|t| t.arm).collect();
    schedule.arms.iter().filter(|arm| numbers.contains(&arm.id)).cloned().collect()
}
