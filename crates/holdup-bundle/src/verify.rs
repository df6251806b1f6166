//! Whether a bundle is whole.

use crate::gather::{ReadOptions, gather};
use crate::{open, trouble};
use holdup_model::bundle::Ending;
use holdup_model::{BundleData, MemoryBudget, Problem, TrialStatus};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::path::Path;

/// What was checked of a bundle, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wholeness {
    /// True if nothing is damaged or missing and the run was ended in order.
    pub whole: bool,
    /// What was checked and found, one line each, good news included.
    pub lines: Vec<String>,
}

impl Wholeness {
    fn good(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn bad(&mut self, line: impl Into<String>) {
        self.whole = false;
        self.lines.push(line.into());
    }
}

/// Checks everything that can be checked of a bundle: SQLite's own integrity check and foreign keys, every part
/// against its checksum and its types, every histogram, the planned against the present trials, the ending.
///
/// # Errors
/// When the file is no bundle, holds nothing, is of a newer schema, takes more memory than the budget has or cannot be read
/// at all. Damage is no error but what was found.
pub fn verify(path: &Path, budget: &MemoryBudget) -> Result<Wholeness, Problem> {
    let opened = open::to_read(path, true)?;
    let mut found = Wholeness { whole: true, lines: Vec::new() };
    found.good(format!("schema: version {}, every table is there", opened.version));
    size(path, &opened.db, &mut found)?;
    integrity(&opened.db, &mut found);
    let reading = ReadOptions::without_events(budget);
    let gathered = gather(path, &opened, &reading);
    reading.check(path)?;
    match gathered {
        Err(problem) => found.bad(problem.why),
        Ok((data, damage)) => {
            let sound = damage.is_empty();
            if sound {
                found.good("checksums: every part is as it was written");
            }
            for line in damage {
                found.bad(line);
            }
            contents(&data, sound, &mut found);
        }
    }
    Ok(found)
}

/// Whether the file is as long as it says. Only the tolerant way of opening gets here with a shorter one.
fn size(path: &Path, db: &Connection, found: &mut Wholeness) -> Result<(), Problem> {
    let number = |pragma: &str| {
        db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0))
            .map_err(|e| trouble::reading(path, &e))
    };
    let bytes = std::fs::metadata(path).map_or(0, |m| m.len());
    let pages = number("page_count")?;
    let page_bytes = number("page_size")?;
    let whole_pages = bytes.is_multiple_of(u64::try_from(page_bytes).unwrap_or(1).max(1));
    // The header's count of pages, at offset 28, is what the last writer meant the file to hold.
    let meant = header_pages(path);
    match meant {
        Some(meant) if i64::from(meant) > pages || !whole_pages => found.bad(format!(
            "size: {bytes} bytes, {} were written: the end of the file is missing",
            i64::from(meant) * page_bytes
        )),
        _ => found.good(format!("size: {bytes} bytes in {pages} pages")),
    }
    Ok(())
}

fn header_pages(path: &Path) -> Option<u32> {
    use std::io::Read;
    let mut head = [0; 32];
    holdup_files::open_input(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
    Some(u32::from_be_bytes([head[28], head[29], head[30], head[31]]))
}

/// SQLite's own checks: pages, order of keys, indexes, types and CHECKs of every row, foreign keys.
fn integrity(db: &Connection, found: &mut Wholeness) {
    let ask = |query: &str, column: &str| -> rusqlite::Result<Vec<String>> {
        let mut statement = db.prepare(query)?;
        let at = statement.column_index(column)?;
        statement.query_map([], |row| row.get(at))?.collect()
    };
    match ask("PRAGMA integrity_check(10)", "integrity_check") {
        Ok(lines) if lines == ["ok"] => found.good("integrity: SQLite finds no fault"),
        // One row of the check may itself hold several lines.
        Ok(lines) => lines.iter().flat_map(|l| l.lines()).for_each(|line| found.bad(format!("integrity: {line}"))),
        Err(e) => found.bad(format!("integrity: cannot be checked to the end ({e})")),
    }
    match ask("PRAGMA foreign_key_check", "table") {
        Ok(lines) if lines.is_empty() => found.good("references: every row refers to rows that are there"),
        Ok(lines) => found.bad(format!("references: {} to rows that are missing", lines.len())),
        Err(e) => found.bad(format!("references: cannot be checked to the end ({e})")),
    }
}

fn contents(data: &BundleData, sound: bool, found: &mut Wholeness) {
    let void = data.trials.iter().filter(|t| t.status != TrialStatus::Done).count();
    let present = data.trials.len();
    found.good(format!("trials: {present} readable, {void} of them void"));
    let histograms: usize = data.trials.iter().map(|t| t.histograms.len()).sum();
    let durations: u64 = data.trials.iter().flat_map(|t| &t.histograms).map(|h| h.histogram.count()).sum();
    found.good(format!("histograms: {histograms} readable, {durations} durations"));

    let collected = || data.trials.iter().flat_map(|t| &t.evidence);
    let distributions: usize = collected().map(|c| c.histograms.len()).sum();
    let profiles: usize = collected().map(|c| c.stacks.len()).sum();
    let timelines = collected().filter(|c| c.timeline.is_some()).count();
    if distributions + profiles + timelines > 0 {
        found.good(format!(
            "evidence: {distributions} histograms, {profiles} stack profiles and {timelines} timelines readable"
        ));
    }

    let kept = || collected().filter_map(|c| c.capture.as_ref());
    let (flows, traces): (usize, usize) = (kept().map(|k| k.flows.len()).sum(), kept().map(|k| k.traces.len()).sum());
    if flows + traces > 0 {
        found.good(format!("captures: {flows} connections readable, {traces} of them over time"));
    }

    if !data.boot_logs.is_empty() {
        let boots: BTreeSet<u32> = data.boot_logs.iter().map(|l| l.boot).collect();
        let boots = if boots.len() == 1 { "1 boot".to_owned() } else { format!("{} boots", boots.len()) };
        found.good(format!("logs of guests: {} readable, of {boots}", data.boot_logs.len()));
    }

    let planned = &data.schedule.trials;
    let ran = |only_done: bool| {
        let present: BTreeSet<_> = data
            .trials
            .iter()
            .filter(|t| !only_done || t.is_done())
            .map(|t| (t.session, t.block, t.position, t.arm))
            .collect();
        planned.iter().filter(|p| present.contains(&(p.session, p.block, p.position, p.arm))).count()
    };
    let line = format!("plan: {} trials planned, {} run, {} done", planned.len(), ran(false), ran(true));
    if data.ending == Some(Ending::Complete) && data.subject_end().is_none() && ran(false) < planned.len() {
        found.bad(format!("{line}, although the run is said to be complete"));
    } else {
        found.good(line);
    }
    match &data.ending {
        Some(Ending::Complete) => {
            let end = data.subject_end().map(|end| format!(" ({end})")).unwrap_or_default();
            found.good(format!("ending: complete{end}"));
        }
        Some(Ending::Decided) => found.good("ending: every headline was decided before the last planned block"),
        Some(Ending::Budget) => found.good("ending: the budget was used up at the end of a block"),
        Some(Ending::Interrupted) => found.good("ending: interrupted, the host was restored"),
        Some(Ending::Failed { reason }) => found.good(format!("ending: failed ({reason})")),
        None if sound => found.bad("ending: none; the run crashed or still runs, and every trial here is whole"),
        None => found.bad("ending: none that can be read"),
    }
}
