//! The engine of `messenger`: groups of senders and receivers.
//!
//! [`setup`] reads the parameters, [`wires`] makes what messages go through, [`message`] is what is sent, [`worker`]
//! sends and receives, [`trial`] leads them, [`results`] turns counts into measurements.

mod message;
mod results;
pub mod setup;
mod stand_in;
mod trial;
mod wires;
mod worker;

pub(crate) use results::metrics;
pub(crate) use stand_in::STAND_INS;
pub(crate) use trial::run;
