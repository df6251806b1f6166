//! The catalogue of knobs: one file each, and this list.

mod affinity;
mod autogroup;
mod cgroup_cpu_max;
mod cgroup_cpu_weight;
mod cpu_dma_latency;
mod cpu_governor;
mod huge_pages_reserved;
mod irq_affinity;
mod migration_cost;
mod numa_balancing;
mod postgres_setting;
mod sched_policy;
mod transparent_huge_pages;

use crate::Knob;

/// Every knob, in the order shown to users.
pub const ALL: &[&dyn Knob] = &[
    &postgres_setting::PostgresSetting,
    &sched_policy::SchedPolicy,
    &autogroup::Autogroup,
    &migration_cost::MigrationCost,
    &huge_pages_reserved::HugePagesReserved,
    &transparent_huge_pages::TransparentHugePages,
    &numa_balancing::NumaBalancing,
    &cpu_governor::CpuGovernor,
    &cgroup_cpu_weight::CgroupCpuWeight,
    &cgroup_cpu_max::CgroupCpuMax,
    &affinity::Affinity,
    &irq_affinity::IrqAffinity,
    &cpu_dma_latency::CpuDmaLatency,
];
