//! Kernel code is preempted wherever it may be.

use super::Model;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "full",
    summary: "kernel code is preempted immediately, unless preemption is off there",
    docs: "An interrupt that returns into kernel code preempts it, and so does the end of a stretch with preemption off.",
    references: &["Linux: kernel/sched/core.c __sched_dynamic_update(), v6.18 and v7.2.12"],
};

pub(super) const MODEL: Model = Model {
    meta: &META,
    preempts_kernel: true,
    cond_resched: false,
    might_resched: false,
    lazy: false,
    sleeping_locks: false,
};
