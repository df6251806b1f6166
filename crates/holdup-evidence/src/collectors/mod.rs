//! The catalogue of collectors: one file each, and this list.

use crate::Collector;

/// Every collector, in the order shown to users.
pub const ALL: &[&dyn Collector] = &[];
