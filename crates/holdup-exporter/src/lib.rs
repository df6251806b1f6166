//! What is watched live, served to Prometheus or written for node_exporter, and the flight recorder.
//!
//! A [`Target`] takes the windows of one watch: it keeps them in memory, adds them up and looks at the triggers of its
//! [`Flights`]. [`serve`] answers scrapes from all targets over HTTP, [`textfile::write`] writes the same into a file.
//! Nothing here prints; lines for the system's log go through [`syslog`].
#![forbid(unsafe_code)]

mod exposed;
mod flights;
mod http;
mod own;
pub mod syslog;
mod target;
pub mod textfile;

pub use exposed::Exposed;
pub use flights::{FlightOptions, Flights};
pub use http::{Listen, Listener, serve};
pub use target::Target;
