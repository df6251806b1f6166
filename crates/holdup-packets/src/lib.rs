//! Captures of packets, the TCP connections in them, and what went wrong in each.
//!
//! Data flows one way: a file's bytes become frames ([`capture`]), a frame becomes a [`segment`] of TCP ([`decode`]), each connection's
//! segments are judged as they come ([`wireshark`]: the same marks under the same names), and what was judged is counted
//! ([`flows`]). Two captures are then compared by rates (`compare`). [`analyse`] goes the way from bytes to counts.
//!
//! The crate opens no file, asks no clock and prints nothing; it reads from what it is given. [`made`] makes
//! frames and captures from numbers, for tests.

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
pub mod made;
pub mod rfc;
pub mod segment;
mod sequence;
pub mod spans;
pub mod spread;
pub mod summary;
pub mod trace;
pub mod wireshark;
mod words;
