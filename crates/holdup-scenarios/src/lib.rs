//! Scenarios: a machine and some programs, and the timeline of what they do as text.
//!
//! The pages in docs/scenarios are scenarios with prose between them, and tests. Here is the language of the programs
//! (`source`, `parse`, `operations`: [`Scenario::parse`]) and the rendering of timelines (`timeline`:
//! [`Scenario::timeline`]). The machine itself is `holdup-sim`. It is its own crate because nothing in the release uses
//! it. Start with docs/scenarios/README.md and `tests/scenarios.rs`.
//!
//! A line is a declaration, an operation of a program, or a task. `#` begins a comment.
//!
//! ```text
//! lock row: ticket
//! program worker {
//!   forever {
//!     compute 100us
//!     lock row
//!     touch heap 4 pages
//!     unlock row
//!   }
//! }
//! 2 tasks worker, on cpu 0, nice 5
//! run 10ms
//! ```

#![forbid(unsafe_code)]

mod operations;
mod parse;
mod source;
mod timeline;

use holdup_model::Problem;
use holdup_sim::machine::{Described, Machine};
use holdup_sim::names::Names;
use holdup_sim::world::Load;

/// A scenario: what runs, and for how long.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What runs.
    pub load: Load,
    /// What its tasks, locks and lines are called.
    pub names: Names,
    /// For how long it runs, ns.
    pub length_ns: u64,
    pub seed: u64,
}

/// Reads the machine of a scenario: a machine file, or `base = "NAME"` for one of the catalogue with the tables of the
/// file laid over it. The table `[factors]` sets what plans set: `rseq-slice-length = 20000`.
///
/// # Errors
/// When it is no machine file, the base does not exist, or the simulated machine does not have a factor.
pub fn machine(file: &str, text: &str) -> Result<Machine, Problem> {
    Described::parse_laid_over(file, text)
}

impl Scenario {
    /// Reads a scenario. `file` is its name in errors, `first_line` the number of its first line there.
    ///
    /// # Errors
    /// The first mistake, with its line and column.
    pub fn parse(file: &str, text: &str, first_line: u32) -> Result<Self, Problem> {
        parse::scenario(file, text, first_line)
    }

    /// Runs it on a machine and renders what happened.
    pub fn timeline(&self, machine: &Machine) -> Result<String, Problem> {
        timeline::of(self, machine)
    }
}
