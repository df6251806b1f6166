//! As none, with more points.

use super::Model;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "voluntary",
    summary: "kernel code makes room at cond_resched() and where it might sleep",
    docs: "As none; might_sleep() is a point as well.",
    references: &["Linux: kernel/sched/core.c __sched_dynamic_update(), v6.18 and v7.2.12"],
};

pub(super) const MODEL: Model = Model {
    meta: &META,
    preempts_kernel: false,
    cond_resched: true,
    might_resched: true,
    lazy: false,
    sleeping_locks: false,
};
