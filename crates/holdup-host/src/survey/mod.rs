//! What `holdup check` finds, read only.

pub mod postgres;
