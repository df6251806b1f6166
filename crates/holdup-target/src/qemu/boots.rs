//! What each boot of a schedule is: a kernel, its command line, a PostgreSQL.

use holdup_model::guest::{BOOT_DEFAULT, BOOT_PREFIX, KERNEL, OF_HOST, POSTGRES_SERVER};
use holdup_model::{Arm, Plan, Problem, Schedule};
use std::collections::BTreeMap;

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
        Ok(Choice { kernel, parameters, postgres: text(POSTGRES_SERVER).filter(|named| named != OF_HOST) })
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

/// The choices of a schedule, each with its arms.
pub(super) fn choices(plan: &Plan, schedule: &Schedule) -> Result<BTreeMap<Choice, Vec<Arm>>, Problem> {
    let mut all: BTreeMap<Choice, Vec<Arm>> = BTreeMap::new();
    for arm in &schedule.arms {
        all.entry(Choice::of(plan, arm)?).or_default().push(arm.clone());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking::{arms_of, work};
    use holdup_model::wire::Work;
    use std::collections::BTreeSet;

    const PLAN: &str = r#"
        target = "qemu"
        [[workload]]
        kind = "lock-contention"
        threads = [2, 4]
        [factors]
        kernel = ["file:/a", "file:/b"]
        preempt = ["lazy", "none"]
        "boot.nosmt" = ["default", "force"]
        [[exclude]]
        kernel = "file:/b"
        preempt = "none"
        [set]
        "boot.quiet" = "default"
    "#;

    fn plan() -> (Plan, Schedule) {
        crate::checked(PLAN, holdup_model::Machine { cpus: 2, memory_bytes: 8 << 30 })
    }

    fn words(work: &Work, factor: &str) -> Vec<String> {
        let found = work.plan.factors.iter().find(|f| f.name == factor);
        found.map(|f| f.levels.iter().map(|l| l.label.clone()).collect()).unwrap_or_default()
    }

    #[test]
    fn each_kind_of_guest_is_a_choice() {
        let (plan, schedule) = plan();
        let labels: Vec<String> = choices(&plan, &schedule).expect("choices").keys().map(Choice::label).collect();
        assert_eq!(labels, ["file:/a", "file:/a nosmt=force", "file:/b", "file:/b nosmt=force"]);
    }

    #[test]
    fn a_guest_is_asked_only_for_what_its_arms_do() {
        let (plan, schedule) = plan();
        for (choice, arms) in choices(&plan, &schedule).expect("choices") {
            let work = work(&plan, arms, None, BTreeMap::new());
            let excluded = choice.kernel == "file:/b";
            assert_eq!(words(&work, "preempt"), if excluded { vec!["lazy"] } else { vec!["lazy", "none"] });
            assert_eq!(words(&work, KERNEL), Vec::<String>::new());
            assert!(work.plan.settings.is_empty() && work.plan.exclude.is_empty());
        }
    }

    #[test]
    fn a_boot_has_the_arms_of_its_trials_and_one_choice() {
        let (plan, schedule) = plan();
        for boot in schedule.trials.iter().map(|t| t.boot).collect::<BTreeSet<_>>() {
            let arms = arms_of(&schedule, boot);
            let kinds: BTreeSet<Choice> = arms.iter().map(|arm| Choice::of(&plan, arm).expect("a choice")).collect();
            assert_eq!(kinds.len(), 1, "boot {boot}");
            let replicas: BTreeSet<bool> = arms.iter().map(|arm| arm.replica.is_some()).collect();
            assert_eq!(replicas.len(), 1, "the A/A arm of boot {boot} has its own boot");
        }
    }
}
