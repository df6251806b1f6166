//! The preemption models: one file each, and this list. What they differ in is `__sched_dynamic_update()` and the table
//! above it (kernel/sched/core.c, v7.2.12).

mod full;
mod lazy;
mod none;
mod rt;
mod voluntary;

/// The points at which a task that should be rescheduled is. Every model reschedules at the return
/// to user mode (`exit_to_user_mode_loop()`, kernel/entry/common.c).
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// Its word on the kernel's command line ([`holdup_model::PreemptModel`]).
    pub id: &'static str,
    /// True if kernel code is preempted when an interrupt returns into it (`irqentry_exit_cond_resched`) and where it
    /// switches preemption on again (`preempt_schedule`).
    pub preempts_kernel: bool,
    /// True if `cond_resched()` reschedules.
    pub cond_resched: bool,
    /// True if `might_resched()` reschedules: where kernel code may sleep.
    pub might_resched: bool,
    /// True if the fair class asks with the lazy bit, which no interrupt carries to another CPU and the next tick
    /// promotes (`resched_curr_lazy()`).
    pub lazy: bool,
    /// True if locks of the kernel that others spin on are mutexes, so that code under them can be preempted.
    pub sleeping_locks: bool,
}

impl Model {
    /// User code only.
    const NEVER: Model = Model {
        id: "",
        preempts_kernel: false,
        cond_resched: false,
        might_resched: false,
        lazy: false,
        sleeping_locks: false,
    };
}

/// Every model, in the order shown to users.
pub const ALL: &[&Model] = &[&none::MODEL, &voluntary::MODEL, &full::MODEL, &lazy::MODEL, &rt::MODEL];

pub fn find(id: &str) -> Option<&'static Model> {
    ALL.iter().copied().find(|m| m.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::PreemptModel;

    #[test]
    fn every_model_of_a_kernel_is_simulated_and_none_else() {
        let words = PreemptModel::WORDS.iter().copied().chain([PreemptModel::Rt.word()]);
        assert!(words.clone().all(|word| find(word).is_some()));
        assert!(ALL.iter().all(|model| words.clone().any(|word| word == model.id)));
    }
}
