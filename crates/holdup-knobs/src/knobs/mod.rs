//! The catalogue of knobs: one file each, and this list.

mod affinity;
mod autogroup;
mod base_slice;
mod cgroup_cpu_max;
mod cgroup_cpu_weight;
mod cpu_dma_latency;
mod cpu_governor;
mod dirty_background;
mod dirty_memory;
mod hrtick;
mod huge_pages_reserved;
mod irq_affinity;
mod migration_cost;
mod nr_migrate;
mod numa_balancing;
mod postgres_setting;
mod preempt;
mod rseq_slice_length;
mod sched_feature;
mod sched_policy;
mod swappiness;
mod transparent_huge_pages;

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
    &transparent_huge_pages::TransparentHugePages,
    &numa_balancing::NumaBalancing,
    &dirty_memory::KNOB,
    &dirty_background::KNOB,
    &swappiness::KNOB,
    &cpu_governor::CpuGovernor,
    &cgroup_cpu_weight::CgroupCpuWeight,
    &cgroup_cpu_max::CgroupCpuMax,
    &affinity::Affinity,
    &irq_affinity::IrqAffinity,
    &cpu_dma_latency::CpuDmaLatency,
];
