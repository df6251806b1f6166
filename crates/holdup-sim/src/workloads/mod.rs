//! Workloads as programs: one file each.

pub mod lock_contention;
