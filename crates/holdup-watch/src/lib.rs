//! Collectors over windows: those of a trial, records of systems that run already, and live watching without an end.
//!
//! [`window`] starts collectors, cuts them into windows and stops them. [`watching`] finds the processes to be watched,
//! [`record()`] writes a bundle of windows, [`live()`] hands them on
//! one by one. Nothing here starts a load, changes the host or prints.

mod live;
mod observed;
mod record;
mod watching;
pub mod window;
mod windows;
mod write;

pub use live::{Find, Live, LiveRequest, live};
pub use record::{DEFAULT_WINDOWS, RecordOutcome, RecordRequest, default_collectors, record};
pub use watching::Watching;
pub use window::unix_ns;
pub use write::{write, write_private};
