//! Searches: which of many ordered candidates brought a change, and which settings make a workload faster.
//!
//! A search proposes, the run loop measures: [`walk()`] asks the engine (`holdup_stats::bisection`) what to measure next and
//! has its [`Steps`] do it. [`Log`] is all that a search remembers; `git` turns a range of commits into candidates, checks
//! them out and builds them.
//!
//! Not here: plans and trials (the crate `holdup` makes the plan of each step), and how an answer reads
//! (`holdup_report::search`). Start with `walk.rs`.
#![forbid(unsafe_code)]

mod ahead;
mod git;
mod log;
mod space;
mod tune;
mod walk;

pub use ahead::{Ahead, Made, Make};
pub use git::Repository;
pub use log::{Line, Log};
pub use space::{Asked, MOST_TRIED, Place, chosen};
pub use tune::{Blocks, beliefs, of_host, settings_of, tune, tuning};
pub use walk::{Steps, state, walk};
