//! Captures of packets, their TCP connections, and what went wrong in them, under Wireshark's names.
//!
//! Data flows one way: [`capture`] turns bytes into frames, [`decode`] frames into a [`segment`], [`wireshark`] judges segments
//! and gives marks, [`flows`] and [`spans`] hold the counts, [`analyse`] runs it all, [`summary`] describes one capture and
//! [`compare`] compares several by rates. [`rfc`] is our own judgement beside Wireshark's, [`live`] and [`trace`] follow single
//! connections over time.
//!
//! The crate opens no file, reads no clock and prints nothing. Start at `analyse/mod.rs`; docs/packets.md has the rules. Frames
//! for tests are built by `tests/made`.

#![forbid(unsafe_code)]

pub mod analyse;
pub mod capture;
pub mod compare;
pub mod decode;
pub mod evidence;
pub mod expert;
pub mod flows;
pub mod kinds;
pub mod live;
pub mod rfc;
pub mod segment;
mod sequence;
pub mod spans;
pub mod spread;
pub mod summary;
pub mod trace;
pub mod wireshark;
mod words;
