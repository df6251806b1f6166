//! Advice that was followed and has no effect on this kernel.

use super::{About, Case};
use crate::condition::Condition;
use holdup_model::survey::{Advice, Survey, Weight};
use holdup_model::{KernelVersion, Meta, PreemptModel};

static META: Meta = Meta {
    id: "advice-without-effect",
    summary: "an option of the kernel that was set and has no effect",
    docs: "Guides recommend to boot 7.0 with preempt=none, or to build it with CONFIG_PREEMPT_NONE, or to use the time slice \
           extension. Kernels from 7.0 on refuse the first (the boot continues with the default model), do not offer the \
           second on the architectures with lazy preemption, and the third needs an option that distributions leave \
           off, an architecture other than arm64, and a C library from 2.41 on. `holdup check` says which of these \
           cannot work here. It is no harm by itself and does not count for the exit code.",
    references: &[
        "kernel/sched/core.c:sched_dynamic_mode (v7.0, v7.2)",
        "kernel/Kconfig.preempt (v7.0)",
        "init/Kconfig: RSEQ_SLICE_EXTENSION (v7.2), kernel/rseq.c:rseq_register (v7.0.10)",
    ],
};

pub static CASE: Case =
    Case { meta: &META, weight: Weight::None, report: None, about: About::Host { conditions, advice } };

fn conditions(survey: &Survey) -> Vec<Condition> {
    let preempt = &survey.preempt;
    vec![match (&preempt.asked, &preempt.refused) {
        (Some(word), Some(why)) => Condition::new(
            Some(true),
            format!("preempt={word} on the kernel's command line has no effect: {why}."),
            "a kernel that takes it",
        ),
        (Some(word), None) if preempt.choices.get().is_none() => {
            let why = preempt.choices.why_unknown.as_deref().unwrap_or("no source names them");
            Condition::new(
                None,
                format!("Whether preempt={word} on the kernel's command line has an effect is not known: {why}."),
                preempt.choices.remedy.clone().unwrap_or_default(),
            )
        }
        (Some(word), None) => {
            Condition::new(Some(false), format!("preempt={word} on the kernel's command line is taken."), "")
        }
        (None, _) if survey.kernel.command_line.get().is_none() => {
            Condition::unknown("The kernel's command line", &survey.kernel.command_line)
        }
        (None, _) => Condition::new(Some(false), "No preempt= is on the kernel's command line.", ""),
    }]
}

fn advice(survey: &Survey) -> Vec<Advice> {
    let choices: Vec<&str> =
        survey.preempt.choices.get().into_iter().flatten().map(|model: &PreemptModel| model.word()).collect();
    vec![Advice {
        action: match choices.as_slice() {
            [] => "take preempt= off the command line".to_owned(),
            [_] => "take preempt= off the command line; this kernel has one model".to_owned(),
            several => format!("take preempt= off the command line, or ask for one of {}", several.join(", ")),
        },
        evidence: "read in kernel/sched/core.c:sched_dynamic_mode".to_owned(),
        undo: "put it back".to_owned(),
    }]
}

/// Advice that is given elsewhere and cannot work on this kernel, one sentence each with the reason.
pub fn impossible(survey: &Survey) -> Vec<String> {
    let mut all = Vec::new();
    let choices = survey.preempt.choices.get();
    if let Some(choices) = choices
        && !choices.contains(&PreemptModel::None)
    {
        let words: Vec<&str> = choices.iter().map(|m| m.word()).collect();
        let offers = if words.len() == 1 { "has one model," } else { "can be switched between" };
        all.push(format!("Booting with preempt=none: this kernel {offers} {}.", words.join(" and ")));
    }
    let has_lazy = choices.is_some_and(|c| c.contains(&PreemptModel::Lazy));
    if survey.kernel.version.value().is_some_and(|v| v >= KernelVersion::new(7, 0) && v.is_read()) && has_lazy {
        all.push(
            "Building this kernel with CONFIG_PREEMPT_NONE=y: from 7.0 on it is not offered on architectures with lazy \
             preemption; the restriction must be patched out."
                .to_owned(),
        );
    }
    let extension = &survey.slice_extension;
    if extension.usable.get() == Some(&false) {
        let why = extension.reasons.iter().find_map(|r| r.strip_prefix("not available: ")).unwrap_or_default();
        all.push(format!("The time slice extension of rseq: {why}."));
    }
    let version = survey.kernel.version.value();
    let is_debugfs = survey.kernel.version.value().is_some_and(|v| v >= KernelVersion::new(5, 13));
    if is_debugfs && !survey.kernel.has_backports {
        all.push(
            if version.is_some_and(|v| v >= KernelVersion::new(6, 6)) {
                "sysctl kernel.sched_migration_cost_ns and kernel.sched_min_granularity_ns: from 5.13 on the first is a \
                 file in debugfs (sched/), and the second is gone since 6.6."
            } else {
                "sysctl kernel.sched_migration_cost_ns and kernel.sched_min_granularity_ns: from 5.13 on they are files \
                 in debugfs (sched/)."
            }
            .to_owned(),
        );
    }
    all
}
