//! The catalogue of knobs: one file each, and this list.

mod autogroup;
mod base_slice;
mod hrtick;
mod huge_pages_reserved;
mod migration_cost;
mod nr_migrate;
mod postgres_setting;
mod preempt;
mod rseq_slice_length;
mod sched_feature;
mod sched_policy;

use crate::Knob;

/// Every knob, in the order shown to users.
pub const ALL: &[&dyn Knob] = &[
    &postgres_setting::PostgresSetting,
    &sched_policy::SchedPolicy,
    &preempt::Preempt,
    &autogroup::Autogroup,
    &migration_cost::KNOB,
    &base_slice::KNOB,
    &nr_migrate::KNOB,
    &sched_feature::SchedFeature,
    &hrtick::Hrtick,
    &rseq_slice_length::KNOB,
    &huge_pages_reserved::HugePagesReserved,
];
