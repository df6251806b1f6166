//! Some cells of docs/calibration.md are simulated again: what was promised there still holds.

use xtask::calibrate::tables::{self, Table};
use xtask::calibrate::{PAGE, TOLERANCE_POINTS};

fn table(id: &str) -> &'static Table {
    tables::ALL.iter().find(|t| t.id == id).unwrap_or_else(|| panic!("there is no table {id}"))
}

/// What the page says of a cell, bold or not.
fn listed(page: &str, title: &str, row: &str, column: &str) -> f64 {
    let section = page.split("\n## ").find(|s| s.starts_with(title)).unwrap_or_else(|| panic!("no section {title}"));
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|c| c.trim().replace("**", "")).collect() };
    let mut lines = section.lines().filter(|l| l.starts_with('|'));
    let heads = cells(lines.next().expect("a table"));
    let at = heads.iter().position(|h| h == column).unwrap_or_else(|| panic!("{title}: no column {column}"));
    let line = lines.map(cells).find(|c| c.get(1).is_some_and(|label| label == row));
    let line = line.unwrap_or_else(|| panic!("{title}: no row {row}"));
    line[at].parse().unwrap_or_else(|e| panic!("{title}, {row}, {column}: {e}"))
}

fn cells_of_the_page_are_found_again() {
    let page = std::fs::read_to_string(xtask::repo::root().join(PAGE)).expect("docs/calibration.md is there");
    let picked = [
        ("coverage", "normal", "5"),
        ("coverage", "heavy-tailed + blocks", "20"),
        ("coverage", "stalls", "10"),
        ("false-alarms", "bimodal", "10"),
        ("false-alarms", "normal + blocks", "3"),
        ("false-equivalence", "autocorrelated", "8"),
        ("sessions", "normal: A/A different", "4 × 5"),
        ("methods", "stalls: bootstrap", "8"),
        ("power", "5 %, 10", "holdup"),
        ("power", "5 %, 10", "mmtests"),
        ("sequential", "normal, 10", "A/A different"),
        ("sequential", "heavy-tailed, 6", "5 %: blocks used"),
        ("trimmed", "one in five, 5 %", "coverage, 10"),
        ("trimmed", "normal, 1.3 %", "found, 20"),
        ("trimmed-runs", "one in five", "A/A different, cap 10"),
        ("slow-trials", "heavy-tailed", "20"),
        ("steadiness", "normal, drifts", "20"),
        ("changes", "independent", "no step: any seen"),
        ("searches", "step of 3", "trials"),
        ("tuning", "nothing gains, 2 %", "trials"),
    ];
    for (id, row, column) in picked {
        let table = table(id);
        let rows = (table.rows)();
        let found = rows.iter().find(|r| r.label == row).unwrap_or_else(|| panic!("{id}: no row {row}"));
        let cell =
            found.cells.iter().find(|c| c.column == column).unwrap_or_else(|| panic!("{id}: no column {column}"));
        let (listed, found) = (listed(&page, table.title, row, column), (cell.run)());
        assert!(
            (listed - found).abs() <= TOLERANCE_POINTS + 0.05,
            "{id}, {row}, {column}: the page says {listed}, simulated {found}; cargo run --release -p xtask -- calibrate"
        );
    }
}

fn the_page_keeps_its_promises() {
    let page = std::fs::read_to_string(xtask::repo::root().join(PAGE)).expect("docs/calibration.md is there");
    // No error rate above its promise, nowhere; the intervals that are used are never too narrow.
    let numbers = |title: &str, row_is: &dyn Fn(&str) -> bool| -> Vec<f64> {
        let section =
            page.split("\n## ").find(|s| s.starts_with(title)).unwrap_or_else(|| panic!("no section {title}"));
        let rows = section.lines().filter(|l| l.starts_with('|')).skip(2);
        let kept = rows.filter(|l| row_is(l.split('|').nth(1).unwrap_or_default().trim()));
        kept.flat_map(|l| l.split('|').skip(2).filter_map(|c| c.trim().replace("**", "").parse().ok())).collect()
    };
    let at_most = |title: &str, limit: f64| {
        let found = numbers(title, &|_| true);
        assert!(found.len() >= 100 && found.iter().all(|n| *n <= limit), "{title}: {found:?}");
    };
    at_most("A/A called different", 5.5);
    at_most("A ratio at the margin called equivalent", 5.5);
    let coverage = numbers("Coverage of 95 % intervals", &|_| true);
    assert!(coverage.len() >= 100 && coverage.iter().all(|n| *n >= 93.0), "{coverage:?}");
    let without_blocks = numbers("Coverage of 95 % intervals", &|row| !row.contains("blocks") && row != "bimodal");
    assert!(without_blocks.len() >= 50 && without_blocks.iter().all(|n| *n <= 97.05), "{without_blocks:?}");
    // Power beside Welch where Welch is valid: at most 2 points less, from five blocks on.
    for row in ["1 %, 5", "2 %, 5", "2 %, 10", "5 %, 5", "5 %, 6", "5 %, 10"] {
        let (ours, welch) = (listed(&page, "Power", row, "holdup"), listed(&page, "Power", row, "Welch"));
        assert!(ours >= welch - 2.05, "{row}: {ours} and {welch}");
    }
    assert!(listed(&page, "Power", "5 %, 10", "holdup") >= 99.0);
    // Without slow trials: coverage, a power that the mean does not have, and hardly a price where noise is normal.
    let of_trimmed = |row: &str, column: &str| listed(&page, "Without slow trials", row, column);
    for blocks in [6, 10, 20] {
        for shape in ["one in five, 5 %", "normal, 1.3 %", "bimodal, 1.3 %", "heavy-tailed, 1.3 %", "stalls, 1.3 %"] {
            let coverage = of_trimmed(shape, &format!("coverage, {blocks}"));
            assert!((92.95..=97.05).contains(&coverage), "{shape} {blocks}: {coverage}");
        }
        let found = |what: &str| of_trimmed("normal, 1.3 %", &format!("{what}, {blocks}"));
        assert!(found("found") >= 0.95 * found("found by the mean"), "{blocks}");
    }
    assert!(of_trimmed("one in five, 5 %", "found, 20") >= 85.0);
    for trials in ["6", "8", "10", "20", "30", "40"] {
        assert!(listed(&page, "Slow trials", "normal", trials) <= 1.0, "{trials}");
        assert!(listed(&page, "Slow trials", "heavy-tailed", trials) <= 5.0, "{trials}");
    }
    // Stopping early: a change of 5 % at 2 % noise in at most half of 20 blocks.
    assert!(listed(&page, "Stopping early", "normal, 20", "5 %: blocks used") <= 10.0);
    for shape in ["normal", "bimodal", "heavy-tailed", "stalls", "autocorrelated"] {
        for cap in [6, 10, 20, 40] {
            assert!(
                listed(&page, "Stopping early", &format!("{shape}, {cap}"), "A/A different") <= 5.5,
                "{shape} {cap}"
            );
        }
    }
    // Tuning: near the best point, and a winner that is not worse than the default.
    for (row, least) in [("2 %", 90.0), ("5 %", 85.0), ("10 %", 75.0), ("10 %, as many trials as the grid", 90.0)] {
        assert!(listed(&page, "Tuning", row, "within 2 %") >= least, "{row}");
        assert!(listed(&page, "Tuning", row, "worse than the default") <= 2.0, "{row}");
        assert!(listed(&page, "Tuning", row, "confirmed gain covers") >= 93.0, "{row}");
    }
}

holdup_testkit::tests!(cells_of_the_page_are_found_again, the_page_keeps_its_promises);
