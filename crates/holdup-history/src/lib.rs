//! Series of kept runs: where they changed, which regressions are open, and whether a new run fits.
//!
//! Pure. [`keep`] makes of a bundle what a store keeps beside it, [`history`] makes series of what a store gives back and looks for
//! their changes, [`gate`] compares new runs with the level of their series. How changes are found is `holdup_stats::change_points`.
//!
//! Not here: where results are kept (`holdup-store`), and how an answer reads on a terminal or a page (`holdup-report`).
#![forbid(unsafe_code)]

mod changes;
mod environment;
mod gate;
mod keep;
mod level;
mod series;
mod threads;
mod words;

pub use changes::history;
pub use environment::{named, runs_near_changes};
pub use gate::gate;
pub use keep::{keep, trials};
pub use series::Split;
