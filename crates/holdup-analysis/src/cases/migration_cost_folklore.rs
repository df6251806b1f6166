//! A migration cost that somebody set.

use super::{About, Case};
use crate::condition::Condition;
use holdup_model::Meta;
use holdup_model::survey::{Advice, Survey, Weight};

static META: Meta = Meta {
    id: "migration-cost-folklore",
    summary: "a migration cost set from folklore",
    docs: "How long a task counts as hot in its CPU's cache is 0.5 ms by default. Slides of 2013 recommend to raise it to 5 \
           ms for database servers. What is published contradicts itself: from one change of it, on one machine of 128 \
           CPUs, select-only pgbench gained 21 % with 256 clients and lost 15 % with 144. The value that helps depends \
           on the number of running clients, so a value from elsewhere is a bet.",
    references: &[
        "kernel/sched/fair.c:task_hot, sched_balance_newidle (v7.2)",
        "Y. Yang, RFC, linux-kernel, 2021-09-14",
        "pgsql-performance, S. Thomas, January 2013",
    ],
};

pub static CASE: Case =
    Case { meta: &META, weight: Weight::Low, report: Some("tweaks-2013"), about: About::Host { conditions, advice } };

fn conditions(survey: &Survey) -> Vec<Condition> {
    let Some(setting) = survey.settings.iter().find(|s| s.name == "migration-cost") else {
        return vec![Condition::new(None, "The migration cost is not known.", "run holdup as root")];
    };
    let known = &setting.value;
    vec![match (known.get(), &setting.default, setting.is_default()) {
        (None, ..) => Condition::unknown("The migration cost", known),
        (Some(ns), _, Some(true)) => Condition::new(
            Some(false),
            format!("The migration cost is {ns} ns, the kernel's default ({}).", known.source),
            "another value",
        ),
        (Some(ns), Some(default), _) => Condition::new(
            Some(true),
            format!("The migration cost is {ns} ns instead of the kernel's {default} ns ({}).", known.source),
            "the kernel's default",
        ),
        (Some(ns), None, _) => Condition::new(
            None,
            format!("The migration cost is {ns} ns ({}); the default of this kernel is not known.", known.source),
            "compare with the default of this kernel's source",
        ),
    }]
}

fn advice(survey: &Survey) -> Vec<Advice> {
    let setting = survey.settings.iter().find(|s| s.name == "migration-cost");
    let (value, default) =
        setting.and_then(|s| Some((s.value.get()?.as_str(), s.default.as_deref()?))).unwrap_or(("5000000", "500000"));
    let path = setting.map_or("/sys/kernel/debug/sched/migration_cost_ns", |s| s.value.source.as_str());
    vec![Advice {
        action: format!(
            "measure whether it pays here: holdup run pgbench --clients 8,64,256 --vary \
             migration-cost={default}ns,{value}ns; if not, `echo {default} > {path}`"
        ),
        evidence: "+21 % at 256 clients and -15 % at 144 from the same change (PostgreSQL, select-only, 128 CPUs, \
                   2021)"
            .to_owned(),
        undo: format!("`echo {value} > {path}`"),
    }]
}
