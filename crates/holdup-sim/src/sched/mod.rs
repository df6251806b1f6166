//! Who runs next.

mod bandwidth;
pub mod cfs;
pub mod eevdf;
pub(crate) mod entity_queue;
pub(crate) mod fair;
pub mod group;
pub(crate) mod rt;
pub(crate) mod rules;
pub mod single_queue;
pub mod weight;

/// A switch of the fair class: its name in `/sys/kernel/debug/sched/features`, and where it is.
pub(crate) type Switch<F> = (&'static str, fn(&mut F) -> &mut bool);
