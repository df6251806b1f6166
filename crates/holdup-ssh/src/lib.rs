//! Hosts over OpenSSH: the copy of holdup on them, and the line to the agent there.
//!
//! The user's own `ssh` program connects ([`Ssh`]), with the user's configuration, keys, jump hosts and control sockets; none
//! of these is read here. On the host runs a copy of this program, which is made once for each build of it (`copy.rs`).
//! [`Line`] carries whole messages to and from its agent over the streams of `ssh`.
//!
//! Not here: what the messages mean (`holdup_model::wire`) and the agent (`holdup-target`). Start with `client.rs`.

mod address;
mod client;
mod copy;
mod known;
mod line;
mod trouble;

pub use address::{Address, hosts};
pub use client::{CommandLimits, Output, Remote, Ssh, SshOptions};
pub use known::{forget, known, remember};
pub use line::{Line, Lost};
