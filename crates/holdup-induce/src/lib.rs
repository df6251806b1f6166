//! Causes of lost time, made on purpose, for tests that must name them.
//!
//! What is started ends when the value that stands for it is dropped, and when the test dies: processes are killed with
//! the thread that made them, a control group is removed by another process that sees the end of the test.
//! A preempted holder and a fault under the lock come from the workload `lock-contention` itself (more threads than CPUs,
//! `faults`).

mod causes;
mod group;
mod kernel;
mod processes;
mod ring;
pub mod trial;

pub use causes::{cpu_thief, nothing, oversubscription, slow_disk, throttling};
pub use group::Group;
pub use kernel::{KernelHog, PerCpuWork, kernel_hog, per_cpu_work};
pub use processes::Processes;
