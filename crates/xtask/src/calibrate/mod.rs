//! `cargo xtask calibrate`: simulates what the statistics promise and writes docs/calibration.md.
//!
//! Every cell has its own seed, so a cell that is simulated alone gives the numbers of the table; a test
//! recomputes some of them.

mod curves;
mod peers;
pub mod rules;
mod searches;
mod slow;
pub mod tables;
mod tunings;
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

/// Simulates the tables of these ids, or all when there are none, and writes the page; other tables stay as they are.
///
/// # Errors
/// When an id is no table's, or the page cannot be read or written.
pub fn write(ids: &[String], say: &dyn Fn(&str)) -> Result<()> {
    if let Some(unknown) = ids.iter().find(|id| tables::ALL.iter().all(|t| t.id != **id)) {
        let known: Vec<&str> = tables::ALL.iter().map(|t| t.id).collect();
        anyhow::bail!("table `{unknown}`: there is no such table\nhint: {}", known.join(", "));
    }
    let path = repo::root().join(PAGE);
    let old = if ids.is_empty() { String::new() } else { std::fs::read_to_string(&path)? };
    let mut page = String::from(tables::HEAD);
    for table in tables::ALL {
        let kept = old.split("\n## ").find(|s| s.starts_with(table.title) && !ids.iter().any(|id| id == table.id));
        if let Some(section) = kept {
            page.push_str(&format!("\n## {}\n", section.trim_end()));
            continue;
        }
        say(&format!("{} …", table.id));
        page.push_str(&format!("\n## {}\n\n{}\n\n", table.title, table.note));
        page.push_str(&table.render());
    }
    std::fs::write(&path, page).with_context(|| format!("{}: cannot be written", path.display()))
}
