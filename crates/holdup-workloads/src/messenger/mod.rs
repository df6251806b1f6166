//! The engine of `messenger`: groups of senders and receivers.
//!
//! [`setup`] reads the parameters, [`wires`] makes what messages go through, [`message`] is what is sent, [`worker`]
//! sends and receives, [`trial`] leads them, [`results`] turns counts into measurements. [`apart`] is a trial between two
//! hosts.

pub(crate) mod apart;
mod message;
mod reference_tool;
mod results;
pub mod setup;
mod trial;
mod wires;
mod worker;

pub(crate) use reference_tool::REFERENCE_TOOLS;
pub(crate) use results::metrics;
pub(crate) use trial::run;
