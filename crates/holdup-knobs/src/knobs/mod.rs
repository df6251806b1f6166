//! The catalogue of knobs: one file each, and this list.

use crate::Knob;

/// Every knob, in the order shown to users.
pub const ALL: &[&dyn Knob] = &[];
