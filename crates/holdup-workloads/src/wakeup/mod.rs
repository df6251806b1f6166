//! What `wakeup` is made of: [`setup`] reads its parameters, [`worker`] is the measured loop, [`trial`] coordinates,
//! [`results`] turns counts into metrics.

pub(crate) mod results;
pub(crate) mod setup;
pub(crate) mod trial;
mod worker;
