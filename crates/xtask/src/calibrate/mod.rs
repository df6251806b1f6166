//! `cargo xtask calibrate`: simulates what the statistics promise and writes docs/calibration.md.
//!
//! Every cell has its own seed, so a cell that is simulated alone gives the numbers that stand in the table; a test
//! recomputes some of them.

mod curves;
pub mod rules;
pub mod tables;
pub mod worlds;

use crate::repo;
use anyhow::{Context, Result};

/// The file that holds the tables.
pub const PAGE: &str = "docs/calibration.md";

/// Experiments in each cell of the committed tables.
pub const EXPERIMENTS: u32 = 10_000;

/// A cell whose share is found again must not be farther off than this, in points: the mathematics library of
/// another machine may round a result to the other side of a limit.
pub const TOLERANCE_POINTS: f64 = 0.1;

/// Simulates everything and writes the page.
///
/// # Errors
/// When the page cannot be written.
pub fn write(say: &dyn Fn(&str)) -> Result<()> {
    let mut page = String::from(tables::HEAD);
    for table in tables::ALL {
        say(&format!("{} …", table.id));
        page.push_str(&format!("\n## {}\n\n{}\n\n", table.title, table.note));
        page.push_str(&table.render());
    }
    let path = repo::root().join(PAGE);
    std::fs::write(&path, page).with_context(|| format!("{}: cannot be written", path.display()))
}
