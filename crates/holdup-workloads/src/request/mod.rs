//! The engine of `request`: messengers that wake workers, which do a piece of work each time.
//!
//! [`setup`] reads the parameters, [`idle_workers`] is where workers wait and are woken, [`cpu_lock`] is the lock of each CPU,
//! [`messenger`] posts, [`worker`] works, [`trial`] leads them, [`results`] turns counts into measurements.

mod cpu_lock;
mod idle_workers;
mod messenger;
mod reference_tool;
mod results;
pub mod setup;
mod trial;
mod worker;

pub(crate) use reference_tool::REFERENCE_TOOLS;
pub(crate) use results::metrics;
pub(crate) use trial::run;
