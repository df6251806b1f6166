//! `stream` between two machines: each runs one end, with its own board.
//!
//! The client leads. Over the connection to the server's service ([`holdup_load::service`]) it says what to make, connects, and
//! reads the server's counts at the edges of the window. After the last transfer both sides' counts stand on the client
//! board, and are reckoned with as those of one machine. Times of transfers are not known: each machine has its clock.

mod client;
mod messages;
mod server;

pub use client::{check, peer_of, run};
pub use server::ServerSide;

/// The most connections: all of them wait in the queue of one listener.
pub const MOST_CONNECTIONS: usize = 1000;

#[cfg(test)]
mod tests;
