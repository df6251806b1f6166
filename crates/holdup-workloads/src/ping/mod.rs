//! What `ping` is made of.
//!
//! [`setup`] reads the parameters and [`playback`] the recorded times, [`sockets`] makes the two ends, [`message`] is
//! what goes between them and [`order`] finds what came twice or late, [`region`] is the memory in which both count,
//! [`near`] is the end that sends and [`far`] the one that receives and answers, [`inbox`], [`outbox`] and [`schedule`]
//! are their parts, [`trial`] coordinates, [`results`] turns counts into metrics.

mod far;
mod inbox;
mod message;
mod near;
mod order;
mod outbox;
mod playback;
mod region;
pub(crate) mod results;
mod schedule;
pub mod setup;
pub(crate) mod sockets;
mod stand_in;
pub(crate) mod trial;

pub(crate) use stand_in::STAND_INS;
