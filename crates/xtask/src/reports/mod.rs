//! Pages of published reports and the table in README.md, made from the records, and the rules that a record keeps.

mod page;
mod recorded;
mod rules;

pub use recorded::not_of_their_bundles;

use crate::Repo;
use anyhow::{Context as _, Result};
use holdup_catalogue::reports;
use holdup_model::published::PublishedReport;
use holdup_sim::machine::OMISSIONS;
use std::path::Path;

/// The longest page.
const MOST_LINES: usize = 120;
const README: &str = "README.md";
/// The page that says what simulated machines leave out.
const SIMULATOR: &str = "docs/simulator.md";
/// Comments that the table in README.md stands between.
const BEGIN: &str = "<!-- reports -->\n";
const END: &str = "<!-- end -->";

fn path_of(report: &PublishedReport) -> String {
    format!("docs/cases/{}.md", report.name)
}

/// README.md with the table as it should be.
fn with_table(readme: &str) -> Result<String> {
    let missing = || format!("{README}: there is no part `{}` that ends with `{END}`", BEGIN.trim());
    let from = readme.find(BEGIN).with_context(missing)? + BEGIN.len();
    let length = readme[from..].find(END).with_context(missing)?;
    Ok(format!("{}{}{}", &readme[..from], page::table(reports::all()), &readme[from + length..]))
}

/// Writes all pages and the table into the repository at `root`.
///
/// # Errors
/// When a file cannot be read or written, or README.md has no place for the table.
pub fn write(root: &Path) -> Result<()> {
    for report in reports::all() {
        let path = root.join(path_of(report));
        std::fs::write(&path, page::page(report)).with_context(|| path.display().to_string())?;
    }
    let readme = root.join(README);
    let text = std::fs::read_to_string(&readme).context(README)?;
    std::fs::write(&readme, with_table(&text)?).context(README)
}

/// Lines for each rule that a record breaks, and each page that is not made from its record.
pub fn check(repo: &Repo) -> Vec<String> {
    let mut wrong: Vec<String> = reports::all().iter().flat_map(rules::check).collect();
    wrong.extend(rules::check_cases());
    for report in reports::all() {
        let (path, page) = (path_of(report), page::page(report));
        if repo.text(&path) != Some(&page) {
            wrong.push(format!("{path}: not made from its record: cargo xtask reports"));
        }
        let lines = page.lines().count();
        if lines > MOST_LINES {
            wrong.push(format!("{path}: {lines} lines, at most {MOST_LINES}"));
        }
    }
    let simulator = repo.text(SIMULATOR).unwrap_or_default();
    let rows = OMISSIONS.iter().map(|omission| format!("| `{}` | {} |", omission.id, omission.what));
    wrong.extend(rows.filter(|row| !simulator.contains(row)).map(|row| format!("{SIMULATOR}: it has no row {row}")));
    let readme = repo.text(README).unwrap_or_default();
    match with_table(readme) {
        Ok(text) if text == readme => {}
        Ok(_) => wrong.push(format!("{README}: its table is not made from the records: cargo xtask reports")),
        Err(error) => wrong.push(error.to_string()),
    }
    wrong
}
