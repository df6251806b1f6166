//! The parts of a bundle, the queries that read them, and their checksums.
//!
//! A part is what is written in one go and is whole or not at all. Its checksum
//! is over the values that these queries return, so that a lost row, a flipped
//! bit in a value and a row of another trial are all seen. The queries, with
//! their columns and order, are part of the schema version that brought them: a
//! change of one makes every older bundle look damaged (the fixture tests hold
//! that). So what a later version adds to a trial is a separate part.

use holdup_model::{MemoryBudget, MemoryLease, TooLarge};
use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// One row as read.
pub(crate) type Row = Vec<Cell>;

/// A part: its name in `checksums.part` and its queries. `?1` is its number.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    queries: &'static [&'static str],
}

pub(crate) const HEAD: Part = Part {
    name: "head",
    queries: &["SELECT run_id, holdup_version, created_unix_ns, target, emulated, machine_cpus, machine_memory_bytes \
         FROM head ORDER BY one"],
};
pub(crate) const COMMAND: Part =
    Part { name: "command", queries: &["SELECT position, word FROM command ORDER BY position"] };
pub(crate) const PLAN: Part =
    Part { name: "plan", queries: &["SELECT name, question, seed, source_toml, checked_json FROM plan ORDER BY one"] };
pub(crate) const ARMS: Part = Part {
    name: "arms",
    queries: &[
        "SELECT arm, label, workload, replica FROM arms ORDER BY arm",
        "SELECT arm, role, name, type, value, label FROM levels ORDER BY arm, role, name",
    ],
};
pub(crate) const SCHEDULE: Part = Part {
    name: "schedule",
    queries: &["SELECT planned, seq, session, boot, block, position, arm FROM schedule ORDER BY planned"],
};
pub(crate) const METRICS: Part = Part {
    name: "metrics",
    queries: &["SELECT position, workload, metric, unit, better, summary FROM metrics ORDER BY position"],
};
pub(crate) const COLLECTORS: Part = Part {
    name: "collectors",
    queries: &["SELECT position, collector, state, reason, remedy FROM collectors ORDER BY position"],
};
pub(crate) const ENVIRONMENT: Part = Part {
    name: "environment",
    queries: &[
        "SELECT reading, session, boot FROM environment_readings WHERE reading = ?1",
        "SELECT e.position, f.key, f.value, f.source, f.absent, f.steady \
         FROM environment e JOIN facts f USING (fact) WHERE e.reading = ?1 ORDER BY e.position",
    ],
};
pub(crate) const TRIAL: Part = Part {
    name: "trial",
    queries: &[
        "SELECT trial, session, boot, block, position, arm, attempt, status, void_reason, started_unix_ns, \
         ended_unix_ns, window_begin_unix_ns, window_end_unix_ns, window_length_ns FROM trials WHERE trial = ?1",
        "SELECT position, metric, value, absent FROM measurements WHERE trial = ?1 ORDER BY position",
        "SELECT position, name, count, clipped, hdr_v2 FROM histograms WHERE trial = ?1 ORDER BY position",
        "SELECT run, collector, seen_count, lost_count, cost_cpu_ns, cost_wakeups, cost_bytes \
         FROM collector_runs WHERE trial = ?1 ORDER BY run",
        "SELECT run, position, text FROM coverage_notes WHERE trial = ?1 ORDER BY run, position",
        "SELECT e.run, e.position, i.name, i.label, i.unit, e.value, e.absent \
         FROM evidence e JOIN evidence_items i USING (item) WHERE e.trial = ?1 ORDER BY e.run, e.position",
        "SELECT t.moment, t.position, f.key, f.value, f.source, f.absent, f.steady \
         FROM trial_environment t JOIN facts f USING (fact) WHERE t.trial = ?1 ORDER BY t.moment, t.position",
        "SELECT position, text FROM notes WHERE trial = ?1 ORDER BY position",
    ],
};
/// Since schema version 2: what a trial's collectors brought beyond numbers. Its number is the trial's.
pub(crate) const EVIDENCE: Part = Part {
    name: "evidence",
    queries: &[
        "SELECT run, bpf_runs, bpf_run_ns, memory_bytes FROM collector_costs WHERE trial = ?1 ORDER BY run",
        "SELECT h.run, h.position, i.name, i.label, i.unit, h.count, h.clipped, h.hdr_v2 \
         FROM evidence_histograms h JOIN evidence_items i USING (item) WHERE h.trial = ?1 ORDER BY h.run, h.position",
        "SELECT run, position, name, unit, period_ns, stacks, weight, truncated_weight, json_bytes, json_zlib \
         FROM stack_profiles WHERE trial = ?1 ORDER BY run, position",
        "SELECT run, begin_ns, events, lost_events, json_bytes, json_zlib FROM timelines WHERE trial = ?1 ORDER BY run",
    ],
};
/// Since schema version 3: connections, and the worst of them over time. Its number is the trial's.
pub(crate) const CAPTURES: Part = Part {
    name: "captures",
    queries: &[
        "SELECT run, flows, flows_beyond, traces, json_bytes, json_zlib FROM captures WHERE trial = ?1 ORDER BY run",
    ],
};
pub(crate) const LOG: Part = Part { name: "log", queries: &["SELECT entry, unix_ns, text FROM log WHERE entry = ?1"] };
pub(crate) const BOOT_LOG: Part = Part {
    name: "boot_log",
    queries: &[
        "SELECT entry, session, boot, name, bytes, trimmed_bytes, kept_bytes, zlib FROM boot_logs WHERE entry = ?1",
    ],
};
pub(crate) const ENDING: Part =
    Part { name: "ending", queries: &["SELECT how, reason, trials FROM ending ORDER BY one"] };

/// The parts that are there from the first commit on.
pub(crate) const AT_BEGIN: [&Part; 7] = [&HEAD, &COMMAND, &PLAN, &ARMS, &SCHEDULE, &METRICS, &COLLECTORS];

/// A part as read: the rows of each of its queries, and whether the checksum agrees.
pub(crate) struct Loaded {
    pub(crate) rows: Vec<Vec<Row>>,
    /// The checksum of the values as they are now.
    sha256: String,
    /// The checksum as it was written; `None` when it is not there. The error says why it cannot be read: then the
    /// values can still be, since they lie elsewhere in the file.
    written: rusqlite::Result<Option<String>>,
    _taken: MemoryLease,
}

impl Loaded {
    /// What is wrong with the part, if something is.
    pub(crate) fn damage(&self) -> Option<String> {
        match &self.written {
            Err(e) => Some(format!("its checksum cannot be read ({e})")),
            Ok(None) => Some("its checksum is missing".to_owned()),
            Ok(Some(written)) if *written != self.sha256 => Some("its values do not match its checksum".to_owned()),
            Ok(Some(_)) => None,
        }
    }

    /// True if nothing at all of the part is there.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.written, Ok(None)) && self.rows.iter().all(Vec::is_empty)
    }
}

impl Part {
    /// Reads the part with this number. Its rows take memory until it is dropped, its texts also in what is decoded of it.
    pub(crate) fn load(&self, db: &Connection, number: i64, budget: &MemoryBudget) -> rusqlite::Result<Loaded> {
        let (rows, taken) = self.rows(db, number, budget)?;
        let sha256 = checksum(&rows);
        let written = db
            .prepare_cached("SELECT sha256 FROM checksums WHERE part = ?1 AND number = ?2")
            .and_then(|mut statement| statement.query_row(params![self.name, number], |row| row.get(0)).optional());
        Ok(Loaded { rows, sha256, written, _taken: taken })
    }

    /// Computes the checksum of the part as it stands in the open transaction, and stores it.
    pub(crate) fn seal(&self, db: &Connection, number: i64) -> rusqlite::Result<()> {
        let sha256 = checksum(&self.rows(db, number, &MemoryBudget::new(u64::MAX))?.0);
        db.prepare_cached("INSERT INTO checksums (part, number, sha256) VALUES (?1, ?2, ?3)")?
            .execute(params![self.name, number, sha256])?;
        Ok(())
    }

    fn rows(
        &self,
        db: &Connection,
        number: i64,
        budget: &MemoryBudget,
    ) -> rusqlite::Result<(Vec<Vec<Row>>, MemoryLease)> {
        let mut lease = budget.lease(0).map_err(too_large)?;
        let mut all = Vec::with_capacity(self.queries.len());
        for query in self.queries {
            let mut statement = db.prepare_cached(query)?;
            let width = statement.column_count();
            if statement.parameter_count() == 1 {
                statement.raw_bind_parameter(1, number)?;
            }
            let mut found = statement.raw_query();
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                // A text that rows refer to is in the file once, and in each row.
                let (own, texts) = row_bytes(row, width)?;
                lease.take(own).and_then(|()| budget.take(texts)).map_err(too_large)?;
                rows.push((0..width).map(|i| row.get(i)).collect::<rusqlite::Result<Row>>()?);
            }
            all.push(rows);
        }
        Ok((all, lease))
    }
}

/// Memory of a row, and of its texts alone, bytes.
fn row_bytes(row: &rusqlite::Row<'_>, width: usize) -> rusqlite::Result<(u64, u64)> {
    let (mut own, mut texts) = (width * size_of::<Cell>(), 0);
    for at in 0..width {
        match row.get_ref(at)? {
            ValueRef::Text(text) => {
                own += text.len();
                texts += size_of::<String>() + text.len();
            }
            ValueRef::Blob(blob) => own += blob.len(),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {}
        }
    }
    Ok((own as u64, texts as u64))
}

/// A refusal among the errors of SQLite.
pub(crate) fn too_large(refused: TooLarge) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(refused.to_string().into())
}

/// SHA-256 over the rows of each query: every value with its type and, where it has one, its length.
fn checksum(queries: &[Vec<Row>]) -> String {
    let mut sha = Sha256::new();
    for rows in queries {
        sha.update([b'Q']);
        for row in rows {
            sha.update([b'R']);
            for cell in row {
                match cell {
                    Cell::Null => sha.update([b'N']),
                    Cell::Integer(i) => {
                        sha.update([b'I']);
                        sha.update(i.to_le_bytes());
                    }
                    Cell::Real(x) => {
                        sha.update([b'F']);
                        sha.update(x.to_bits().to_le_bytes());
                    }
                    Cell::Text(text) => sized(&mut sha, b'T', text.as_bytes()),
                    Cell::Blob(bytes) => sized(&mut sha, b'B', bytes),
                }
            }
        }
    }
    let mut hex = String::with_capacity(64);
    for byte in sha.finalize() {
        write!(hex, "{byte:02x}").expect("writing into a string cannot fail");
    }
    hex
}

fn sized(sha: &mut Sha256, tag: u8, bytes: &[u8]) {
    sha.update([tag]);
    sha.update((bytes.len() as u64).to_le_bytes());
    sha.update(bytes);
}
