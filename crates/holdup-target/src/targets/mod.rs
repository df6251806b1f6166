//! The catalogue of targets: one file each, and this list.

mod local;

use crate::Target;

/// Every target, in the order shown to users.
pub const ALL: &[&dyn Target] = &[&local::Local];
