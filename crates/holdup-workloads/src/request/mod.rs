//! The engine of `request`: messengers that wake workers, who do a piece of work each time.
//!
//! [`setup`] reads the parameters, [`desk`] is where workers ask and are called, [`cpu_lock`] is the lock of each CPU,
//! [`messenger`] posts, [`worker`] works, [`trial`] leads them, [`results`] turns counts into measurements.

mod cpu_lock;
mod desk;
mod messenger;
mod results;
pub mod setup;
mod stand_in;
mod trial;
mod worker;

pub(crate) use results::metrics;
pub(crate) use stand_in::STAND_INS;
pub(crate) use trial::run;
