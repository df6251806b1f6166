//! Scenarios: a machine, some programs, and what comes of them as a text that a reader understands at once.
//!
//! The pages in docs/scenarios are scenarios with prose between them. A line of their language is one thing: a
//! declaration, a program's operation, a task. `#` begins a comment. [`Scenario::parse`] reads it,
//! [`Scenario::timeline`] carries it out.
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

mod operations;
mod parse;
mod timeline;
mod words;

use crate::machine::{Described, Machine};
use crate::names::Names;
use crate::world::Load;
use holdup_model::Problem;

/// A scenario: what runs, for how long.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What runs.
    pub load: Load,
    /// What its tasks, locks and lines are called.
    pub names: Names,
    /// For how long it runs, ns.
    pub length_ns: u64,
    /// The seed.
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
    /// Whatever is wrong, with its line and column.
    pub fn parse(file: &str, text: &str, first_line: u32) -> Result<Self, Problem> {
        parse::scenario(file, text, first_line)
    }

    /// Carries it out on a machine: what happened, as text.
    ///
    /// # Errors
    /// When the machine does not have what it names.
    pub fn timeline(&self, machine: &Machine) -> Result<String, Problem> {
        timeline::of(self, machine)
    }
}
