//! Fair tasks of the kernel wait for the user boundary, but for no longer than a tick.

use super::Model;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "lazy",
    summary: "kernel code makes room for fair tasks at the return to user mode, or after the next tick",
    docs: "The fair class sets its own bit, TIF_NEED_RESCHED_LAZY: it is checked on the return to user mode only, no interrupt carries it to another CPU, and a tick that finds it set asks in earnest (sched_tick()). Real-time tasks preempt as under full.",
    references: &["Linux: kernel/sched/core.c __sched_dynamic_update(), v6.18 and v7.2.12"],
};

pub(super) const MODEL: Model = Model {
    meta: &META,
    preempts_kernel: true,
    cond_resched: false,
    might_resched: false,
    lazy: true,
    sleeping_locks: false,
};
