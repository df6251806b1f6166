#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

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

pub use holdup_model::Problem;
