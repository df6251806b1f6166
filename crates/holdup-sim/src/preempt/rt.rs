//! PREEMPT_RT: even locks of the kernel sleep.

use super::Model;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "rt",
    summary: "as full, and locks of the kernel do not switch preemption off",
    docs: "As full. Spin locks of the kernel are mutexes with priority inheritance, so what runs under them can be preempted.",
    references: &["Linux: kernel/sched/core.c __sched_dynamic_update(), v6.18 and v7.2.12"],
};

pub(super) const MODEL: Model = Model {
    meta: &META,
    preempts_kernel: true,
    cond_resched: false,
    might_resched: false,
    lazy: false,
    sleeping_locks: true,
};
