//! The catalogue of targets: one file each, and this list.

mod local;
mod qemu;
mod sim;

use crate::Target;

/// Every target, in the order shown to users.
pub const ALL: &[&dyn Target] = &[&local::Local, &qemu::Qemu, &sim::Sim];
