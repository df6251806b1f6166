//! What `ping` is made of.
//!
//! [`setup`] reads the parameters and [`playback`] the recorded times, [`sockets`] makes the two ends, [`message`] is
//! what goes between them and [`order`] finds what came twice or late, [`region`] is the memory in which both count,
//! [`client`] is the end that sends and [`server`] the one that receives and answers, [`inbox`], [`outbox`] and [`schedule`]
//! are their parts, [`trial`] coordinates, [`results`] turns counts into metrics. [`apart`] is a trial between two hosts.

pub(crate) mod apart;
mod client;
mod inbox;
mod message;
mod order;
mod outbox;
mod playback;
mod reference_tool;
mod region;
pub(crate) mod results;
mod schedule;
mod server;
pub mod setup;
pub(crate) mod sockets;
pub(crate) mod trial;

pub(crate) use reference_tool::REFERENCE_TOOLS;
