//! The boots of a bundle and their logs, for `holdup list`.

use holdup_model::bundle::BootLog;
use holdup_model::foreign::{line, lines};
use holdup_model::{BundleData, Problem};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One boot, planned or run.
struct Boot<'a> {
    session: u32,
    boot: u32,
    /// How often it was opened; 0 for never.
    opened: usize,
    done: usize,
    void: usize,
    bundle: &'a BundleData,
}

impl<'a> Boot<'a> {
    /// A fact of the boot; where it was opened again, of the last time.
    fn fact(&self, key: &str) -> Option<&'a str> {
        let readings = self.bundle.environment.iter().filter(|r| r.boot == self.boot);
        let mut facts = readings.flat_map(|r| &r.facts);
        facts.rfind(|f| f.key == key).and_then(|f| f.value.as_deref())
    }
}

/// The columns that are facts: their head and key.
const FACTS: [(&str, &str); 4] =
    [("kernel", "kernel.release"), ("preempt", "kernel.preempt"), ("accel", "guest.accel"), ("boot s", "guest.boot_s")];

/// The boots in the order planned.
fn boots(bundle: &BundleData) -> Vec<Boot<'_>> {
    let planned = bundle.schedule.trials.iter().map(|t| (t.session, t.boot));
    let read = bundle.environment.iter().map(|r| (r.session, r.boot));
    let all: BTreeSet<(u32, u32)> = planned.chain(read).collect();
    let boot = |(session, boot): (u32, u32)| {
        let (done, void): (Vec<_>, Vec<_>) = bundle.trials.iter().filter(|t| t.boot == boot).partition(|t| t.is_done());
        let opened = bundle.environment.iter().filter(|r| r.boot == boot).count();
        Boot { session, boot, opened, done: done.len(), void: void.len(), bundle }
    };
    all.into_iter().map(boot).collect()
}

/// The boots as a table.
pub(super) fn table(bundle: &BundleData) -> String {
    let mut rows = vec![["session", "boot", "opened"].map(str::to_owned).to_vec()];
    rows[0].extend(FACTS.iter().map(|(head, _)| (*head).to_owned()));
    rows[0].extend(["done", "void"].map(str::to_owned));
    for boot in boots(bundle) {
        let mut row = vec![boot.session.to_string(), boot.boot.to_string(), boot.opened.to_string()];
        row.extend(FACTS.iter().map(|(_, key)| boot.fact(key).map_or_else(|| "–".to_owned(), line)));
        row.extend([boot.done.to_string(), boot.void.to_string()]);
        rows.push(row);
    }
    aligned(&rows)
}

/// The boots as JSON.
pub(super) fn json(bundle: &BundleData) -> Vec<Value> {
    let member = |b: Boot<'_>| {
        json!({
            "session": b.session, "boot": b.boot, "opened": b.opened,
            "kernel_release": b.fact("kernel.release"), "preempt": b.fact("kernel.preempt"),
            "accel": b.fact("guest.accel"), "boot_s": b.fact("guest.boot_s").and_then(|s| s.parse::<f64>().ok()),
            "trials_done": b.done, "trials_void": b.void,
        })
    };
    boots(bundle).into_iter().map(member).collect()
}

/// A table of the logs, or the text of those of one boot.
pub(super) fn logs(bundle: &BundleData, boot: Option<u32>) -> Result<String, Problem> {
    let chosen = chosen(bundle, boot)?;
    if boot.is_some() {
        let titled =
            |log: &&BootLog| format!("== {}, boot {} ==\n{}", line(&log.name), log.boot, ended(lines(&log.text)));
        return Ok(chosen.iter().map(titled).collect());
    }
    if chosen.is_empty() {
        return Ok("No log: the trials ran in no guest, or none was opened.\n".to_owned());
    }
    let mut rows = vec![["session", "boot", "log", "bytes", "left out"].map(str::to_owned).to_vec()];
    let row = |l: &&BootLog| {
        [l.session.to_string(), l.boot.to_string(), line(&l.name), l.bytes.to_string(), l.trimmed_bytes.to_string()]
    };
    rows.extend(chosen.iter().map(row).map(Vec::from));
    Ok(aligned(&rows))
}

/// The logs of all boots, or of one.
pub(super) fn chosen(bundle: &BundleData, boot: Option<u32>) -> Result<Vec<&BootLog>, Problem> {
    let chosen: Vec<&BootLog> = bundle.boot_logs.iter().filter(|l| boot.is_none_or(|boot| l.boot == boot)).collect();
    if let (Some(boot), true) = (boot, chosen.is_empty()) {
        let known: BTreeSet<u32> = bundle.boot_logs.iter().map(|l| l.boot).collect();
        let known: Vec<String> = known.iter().map(u32::to_string).collect();
        let problem = Problem::usage(format!("boot {boot}"), "the bundle holds no log of it");
        return Err(match known.as_slice() {
            [] => problem.hint("the bundle holds no log at all: its trials ran in no guest, or none was opened"),
            known => problem.hint(format!("logs are there of boot {}", known.join(", "))),
        });
    }
    Ok(chosen)
}

/// Columns two spaces apart, the head first.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|c| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// With a line feed at its end.
fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
