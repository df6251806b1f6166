//! What workloads are made of, and what a workload is.
//!
//! In it: the traits [`Workload`] and [`Prepared`] with what is handed to them (`workload.rs`), and the parts of a load
//! engine. [`board`] is the memory that the workers of a trial share, [`worker_pool`] starts and ends them as threads or as
//! processes, [`drive`] leads them through warm-up and window, [`record`] counts durations where they happen,
//! [`placement`] chooses the CPUs of the two sides of a workload, [`files`] makes room for open files,
//! [`account`] asks the kernel about a worker, [`metrics`] turns counts into measurements.
//!
//! Where the ends of a workload are on two machines: [`peer`] is what they say to each other, [`service`] what answers,
//! [`two_ends`] a session on either of two hosts, [`client_hosts`] the hosts that make the load as the one under test sees them,
//! [`combine`] their results as one.
//!
//! Not in it: any workload. Those are in `holdup-workloads`, whose list is the catalogue.
//!
//! Start with `workload.rs`, then [`drive`].

pub mod account;
pub mod board;
pub mod by;
pub mod client_hosts;
pub mod clock;
pub mod combine;
pub mod drive;
pub mod files;
pub mod fork;
pub mod metrics;
pub mod network;
pub mod peer;
pub mod placement;
pub mod record;
pub mod service;
pub mod two_ends;
pub mod worker_pool;
mod workload;

pub use client_hosts::ClientHosts;
pub use holdup_model::trial::TrialResult;
pub use workload::{
    Cancel, OtherEnd, PostgresOptions, PrepareContext, Prepared, Shared, TrialContext, WindowHooks, Workload,
};
