//! Per-CPU kernel workers behind a task that stays in the kernel: the virtual switch.

use super::{About, Case};
use crate::condition::{self, Condition};
use holdup_model::survey::{Advice, Survey, Weight};
use holdup_model::{KernelVersion, Meta, PreemptModel};

static META: Meta = Meta {
    id: "kworker-hog",
    summary: "per-CPU kernel workers wait for a tick behind a virtual switch",
    docs: "Under the lazy model a worker of the kernel that is bound to a CPU waits for the next tick when that CPU is \
           busy in the kernel, as vhost is when it moves packets. On s390 with KVM and a virtual switch, interrupts of \
           guests went through such workers: 13 Gb/s under lazy against 50 Gb/s under full, with the worker's \
           run-queue latency at 0.72 ms against 0.002 ms, and 8 times the duplicate acknowledgements. 7.2 took the \
           interrupts of s390 off the workers; on other architectures the way through workers is left only for \
           interrupts that cannot be given directly.",
    references: &[
        "virt/kvm/eventfd.c:irqfd_wakeup (v7.3), arch/s390/kvm/interrupt.c:kvm_arch_set_irq_inatomic (v7.2)",
        "linux-s390: C. Bennett, 2026-02-24 and 2026-06-05",
    ],
};

pub static CASE: Case = Case {
    meta: &META,
    weight: Weight::High,
    report: Some("uperf-lazy-2026"),
    about: About::Host { conditions, advice },
};

fn conditions(survey: &Survey) -> Vec<Condition> {
    vec![model(survey), switch(survey), way_through_workers(survey)]
}

fn advice(survey: &Survey) -> Vec<Advice> {
    let mut all = Vec::new();
    if survey.preempt.choices.get().is_some_and(|c| c.contains(&PreemptModel::Full) && c.len() > 1) {
        all.push(Advice {
            action: condition::how_to_switch(survey, "full"),
            evidence: "50 Gb/s under full against 13 Gb/s under lazy (s390, two guests, 50 streams, June 2026)"
                .to_owned(),
            undo: "write lazy, or take preempt= away".to_owned(),
        });
    }
    all.push(Advice {
        action: "use kernel 7.2 or later, or mrg_rxbuf=off on the guests' network devices".to_owned(),
        evidence: "with 7.2's change the difference went away; mrg_rxbuf=off gave 60 Gb/s instead of 40 (s390, \
                   February 2026)"
            .to_owned(),
        undo: "boot the former kernel, or mrg_rxbuf=on".to_owned(),
    });
    all
}

fn model(survey: &Survey) -> Condition {
    match condition::model(survey) {
        Err(unknown) => unknown,
        Ok((PreemptModel::Lazy, source)) => Condition::new(
            Some(true),
            format!(
                "The preemption model is {source}: a worker waits for the tick behind a task that is in the kernel."
            ),
            "the full model",
        ),
        Ok((_, source)) => Condition::new(
            Some(false),
            format!("The preemption model is {source}, under which the case was not seen."),
            "the lazy model",
        ),
    }
}

fn switch(survey: &Survey) -> Condition {
    let known = &survey.machine.virtual_switch;
    match known.get().map(Vec::as_slice) {
        None => Condition::unknown("Whether a virtual switch or guests run here", known),
        Some([]) => Condition::new(
            Some(false),
            format!("No virtual switch and no guests run here ({}).", known.source),
            "openvswitch, vhost_net or kvm in use",
        ),
        Some(modules) => Condition::new(
            Some(true),
            format!("In use in this kernel: {}.", modules.join(", ")),
            "no guests and no virtual switch",
        ),
    }
}

fn way_through_workers(survey: &Survey) -> Condition {
    const MEASURE: &str = "measure the run-queue latency of kworker threads under load";
    let kernel = &survey.kernel;
    match (kernel.architecture.get().map(String::as_str), kernel.version.value()) {
        (Some("s390x"), Some(version)) if !kernel.has_backports && version < KernelVersion::new(7, 2) => {
            Condition::new(
                Some(true),
                format!("Kernel {version} of s390 sends guests' interrupts through per-CPU workers."),
                "kernel 7.2 or later",
            )
        }
        (Some(architecture), _) => Condition::new(
            None,
            format!(
                "On {architecture} this kernel gives most interrupts to guests directly; whether other work for \
                 per-CPU workers waits here is not known."
            ),
            MEASURE,
        ),
        (None, _) => Condition::unknown("The architecture", &kernel.architecture),
    }
}
