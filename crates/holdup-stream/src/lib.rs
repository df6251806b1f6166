//! What `stream` is made of: N connections that carry data for a while, both ends by holdup.
//!
//! [`setup`] reads parameters, [`connect`] makes all connections, [`trial`] leads the workers of both ends through a
//! trial, [`worker`] and [`many`] are what they do, [`flow`] is one connection as they see it, [`counts`] is where they
//! count, [`results`] makes metrics of it. [`profile`] reads profiles of uperf, and [`strand`]
//! runs them. [`apart`] is a trial of which two machines run one end each.

pub mod apart;
pub mod connect;
pub(crate) mod counts;
pub(crate) mod flow;
pub(crate) mod limit;
pub(crate) mod many;
pub mod profile;
pub mod results;
pub mod setup;
pub mod sockets;
pub mod strand;
pub mod trial;
pub(crate) mod worker;

pub use strand::pass::without_profile;
