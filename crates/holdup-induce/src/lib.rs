//! For tests only: causes of lost time, made on purpose, and single trials.
//!
//! In it: causes that the explanations must name ([`oversubscription`], [`throttling`], [`cpu_thief`], [`slow_disk`], [`mutex`],
//! [`kernel_hog`]), and [`trial`], which runs one trial of a workload without plan, target and collectors. What is started
//! ends when the value that stands for it is dropped, and when the test dies: processes are killed with the thread that
//! made them, a control group is removed by another process that sees the end of the test.
//!
//! Not in it: a preempted lock holder and a fault under a lock; the workload `lock-contention` makes both (more threads than
//! CPUs, `faults`). The crate is no part of holdup: only `[dev-dependencies]` may name it, which a test of xtask holds.
//!
//! Start with `causes.rs`.

mod causes;
mod group;
mod kernel;
mod processes;
mod ring;
pub mod trial;

pub use causes::{Held, cpu_thief, idle_pool, mutex, nothing, oversubscription, slow_disk, throttling};
pub use group::{DiskLimit, Group};
pub use kernel::{KernelHog, PerCpuWork, kernel_hog, per_cpu_work};
pub use processes::Processes;
