//! Kernel code runs until it waits, returns or asks.

use super::Model;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "none",
    summary: "kernel code makes room only at cond_resched()",
    docs: "User code is preempted at every return to user mode, by an interrupt from another CPU immediately. Kernel code continues to the next cond_resched() or to its end.",
    references: &["Linux: kernel/sched/core.c __sched_dynamic_update(), v6.18 and v7.2.12"],
};

pub(super) const MODEL: Model = Model {
    meta: &META,
    preempts_kernel: false,
    cond_resched: true,
    might_resched: false,
    lazy: false,
    sleeping_locks: false,
};
