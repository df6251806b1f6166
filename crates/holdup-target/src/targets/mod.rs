//! The catalogue of targets: one file each, and this list.

mod local;
mod qemu;
mod sim;
mod ssh;

use crate::Target;

/// Every target, in the order shown to users.
pub const ALL: &[&dyn Target] = &[&local::Local, &qemu::Qemu, &ssh::SshHosts, &sim::Sim];
