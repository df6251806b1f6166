//! The catalogue of collectors: one file each, and this list.

mod account;
mod blockers;
mod capture;
mod cgroup_throttling;
mod cpu;
mod cpu_profile;
mod critical_sections;
mod fault_counters;
mod faults;
mod interrupts;
mod kworkers;
mod migrations;
mod network;
mod off_cpu;
mod postgres_statistics;
mod pressure;
mod queries;
mod resched_requests;
mod run_queue;
mod softirqs;
mod switch_counters;
mod switch_outs;
mod switches;
mod tasks;
mod timeline;
mod wait_events;

use crate::Collector;

/// Every collector, in the order shown to users.
pub const ALL: &[&dyn Collector] = &[
    &cpu::CPU,
    &cpu_profile::CpuProfile,
    &switch_counters::SWITCH_COUNTERS,
    &switch_outs::SwitchOuts,
    &switches::SWITCHES,
    &resched_requests::RESCHED_REQUESTS,
    &account::ACCOUNT,
    &tasks::TASKS,
    &critical_sections::CRITICAL_SECTIONS,
    &faults::FAULTS,
    &kworkers::KWORKERS,
    &off_cpu::OffCpu,
    &timeline::TIMELINE,
    &run_queue::RUN_QUEUE,
    &migrations::MIGRATIONS,
    &fault_counters::FAULT_COUNTERS,
    &pressure::PRESSURE,
    &interrupts::INTERRUPTS,
    &softirqs::SOFTIRQS,
    &cgroup_throttling::CGROUP_THROTTLING,
    &network::NETWORK,
    &capture::Capture,
    &postgres_statistics::PostgresStatistics,
    &wait_events::WaitEvents,
    &blockers::Blockers,
    &queries::Queries,
];
