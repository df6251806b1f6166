//! Writing: one transaction for each call.

use crate::open::Keeping;
use crate::reader::{PackedLog, Reader};
use crate::{APPLICATION_ID, SCHEMA_VERSION, boot_logs, captures, evidence, open, parts, schema_sql, trouble};
use holdup_files::DraftFile;
use holdup_model::bundle::{BundleHead, CollectorState, Ending};
use holdup_model::catalogue::Availability;
use holdup_model::{Fact, Level, Measured, Metric, Plan, Problem, Replica, Schedule, Trial, TrialStatus, Value};
use rusqlite::{Connection, ToSql, TransactionBehavior, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One open bundle.
///
/// It is written in a private folder ([`DraftFile`]), to which a link of the bundle's name leads until it is whole. Dropping
/// it without [`Writer::finish`] leaves a bundle without an ending, as a crash does.
pub struct Writer {
    path: PathBuf,
    db: Connection,
    /// After the connection, which is closed first.
    draft: DraftFile,
    readings: i64,
    trials: u32,
    log_entries: i64,
    boot_logs: i64,
    /// The session of each boot that is planned.
    sessions: BTreeMap<u32, u32>,
    facts: Dictionary<FactKey>,
    items: Dictionary<ItemKey>,
}

/// A fact as the table `facts` identifies it: key, value, source, absent, steady.
type FactKey = (String, Option<String>, String, Option<String>, bool);
/// An item of evidence as `evidence_items` identifies it: name, label, unit.
pub(crate) type ItemKey = (String, Option<String>, String);

/// Rows that are written once and referred to by number afterwards.
pub(crate) struct Dictionary<K> {
    known: BTreeMap<K, i64>,
    /// Those of the open transaction, forgotten when it does not commit.
    fresh: Vec<K>,
}

impl<K: Ord + Clone> Dictionary<K> {
    fn new() -> Self {
        Dictionary { known: BTreeMap::new(), fresh: Vec::new() }
    }

    /// The number of `key`; `insert` writes its row when it is new.
    fn number(&mut self, key: K, insert: impl FnOnce(i64, &K) -> rusqlite::Result<usize>) -> rusqlite::Result<i64> {
        if let Some(&number) = self.known.get(&key) {
            return Ok(number);
        }
        let number = self.known.len() as i64 + 1;
        insert(number, &key)?;
        self.fresh.push(key.clone());
        self.known.insert(key, number);
        Ok(number)
    }

    fn settle(&mut self, committed: bool) {
        for key in self.fresh.drain(..) {
            if !committed {
                self.known.remove(&key);
            }
        }
    }
}

/// Why a part could not be written.
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    /// A value that the file cannot hold: its name and itself.
    Value(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sqlite(error)
    }
}

pub(crate) type Written = Result<(), Fault>;

impl Writer {
    /// Begins a bundle: everything that is known before the first trial, in one transaction.
    ///
    /// # Errors
    /// A usage problem when the file exists (it is never overwritten) or its folder does not, a host problem when it
    /// cannot be written; then no file is left behind.
    pub fn create(
        path: &Path,
        head: &BundleHead,
        plan: &Plan,
        plan_source: &str,
        schedule: &Schedule,
        metrics: &[(String, Metric)],
        collectors: &[CollectorState],
    ) -> Result<Writer, Problem> {
        Self::begin(path, Keeping::EachCall, (head, plan, plan_source, schedule), (metrics, collectors))
    }

    /// As [`Writer::create`], for a bundle that is made of others: nothing has its name before [`Writer::finish`], and what a
    /// writer leaves that died is removed by the next one. The bytes are the same, and no call waits for the disk.
    ///
    /// # Errors
    /// As [`Writer::create`].
    pub fn create_copy(
        path: &Path,
        head: &BundleHead,
        plan: &Plan,
        plan_source: &str,
        schedule: &Schedule,
        metrics: &[(String, Metric)],
        collectors: &[CollectorState],
    ) -> Result<Writer, Problem> {
        Self::begin(path, Keeping::WholeFile, (head, plan, plan_source, schedule), (metrics, collectors))
    }

    fn begin(
        path: &Path,
        keeping: Keeping,
        (head, plan, plan_source, schedule): (&BundleHead, &Plan, &str, &Schedule),
        (metrics, collectors): (&[(String, Metric)], &[CollectorState]),
    ) -> Result<Writer, Problem> {
        open::settle_folder_of(path);
        let draft = DraftFile::create(path, keeping == Keeping::EachCall).map_err(|e| trouble::making(path, &e))?;
        let db = match open::to_write(&draft.path(), keeping) {
            Ok(db) => db,
            Err(e) => {
                draft.discard();
                return Err(trouble::writing(path, "the head", 0, &e));
            }
        };
        let mut writer = Writer {
            path: path.to_owned(),
            db,
            draft,
            readings: 0,
            trials: 0,
            log_entries: 0,
            boot_logs: 0,
            sessions: schedule.trials.iter().map(|t| (t.boot, t.session)).collect(),
            facts: Dictionary::new(),
            items: Dictionary::new(),
        };
        let begun = writer.transaction("the head", |db, _, _| {
            db.execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
            ))?;
            db.execute_batch(&schema_sql())?;
            write_head(db, head)?;
            write_plan(db, plan, plan_source)?;
            write_arms(db, schedule)?;
            write_metrics(db, metrics)?;
            write_collectors(db, collectors)?;
            for part in parts::AT_BEGIN {
                part.seal(db, 0)?;
            }
            Ok(())
        });
        if let Err(problem) = begun {
            let Writer { db, draft, .. } = writer;
            drop(db);
            draft.discard();
            return Err(problem);
        }
        Ok(writer)
    }

    /// Closes the bundle to other users under every umask.
    ///
    /// # Errors
    /// When the file system refuses it.
    pub fn make_private(&self) -> Result<(), Problem> {
        self.draft.make_private().map_err(|e| trouble::making(&self.path, &e))
    }

    /// Adds the environment at the begin of a boot.
    ///
    /// # Errors
    /// When it cannot be written; the bundle is as before.
    pub fn add_environment(&mut self, session: u32, boot: u32, facts: &[Fact]) -> Result<(), Problem> {
        let reading = self.readings;
        self.transaction("the environment", |db, known, _| {
            db.execute(
                "INSERT INTO environment_readings (reading, session, boot) VALUES (?1, ?2, ?3)",
                params![reading, session, boot],
            )?;
            let mut insert =
                db.prepare_cached("INSERT INTO environment (reading, position, fact) VALUES (?1, ?2, ?3)")?;
            for (position, fact) in facts.iter().enumerate() {
                insert.execute(params![reading, position as i64, fact_number(db, known, fact)?])?;
            }
            parts::ENVIRONMENT.seal(db, reading)?;
            Ok(())
        })?;
        self.readings += 1;
        Ok(())
    }

    /// Adds a trial in one transaction: it is there whole or not at all. Trials come in the order of their `seq`,
    /// from 0, without a gap, so that a reader can detect a missing one.
    ///
    /// A number that is not finite is stored as absent, with that reason.
    ///
    /// # Errors
    /// When it cannot be written; the bundle is as before.
    pub fn add_trial(&mut self, trial: &Trial) -> Result<(), Problem> {
        if trial.seq != self.trials {
            return Err(Problem::internal(
                trouble::bundle(&self.path),
                format!("trial {} came where trial {} was to come", trial.seq, self.trials),
            ));
        }
        self.transaction(&format!("trial {}", trial.seq), |db, facts, items| {
            write_trial(db, trial)?;
            write_measured(db, trial)?;
            write_evidence(db, items, trial)?;
            write_trial_facts(db, facts, trial)?;
            evidence::write(db, items, trial)?;
            parts::TRIAL.seal(db, i64::from(trial.seq))?;
            parts::EVIDENCE.seal(db, i64::from(trial.seq))?;
            captures::write(db, trial)?;
            parts::CAPTURES.seal(db, i64::from(trial.seq))?;
            Ok(())
        })?;
        self.trials += 1;
        Ok(())
    }

    /// Adds to the log.
    ///
    /// # Errors
    /// When it cannot be written; the bundle is as before.
    pub fn log(&mut self, unix_ns: i64, text: &str) -> Result<(), Problem> {
        let entry = self.log_entries;
        self.transaction("the log", |db, _, _| {
            db.execute("INSERT INTO log (entry, unix_ns, text) VALUES (?1, ?2, ?3)", params![entry, unix_ns, text])?;
            parts::LOG.seal(db, entry)?;
            Ok(())
        })?;
        self.log_entries += 1;
        Ok(())
    }

    /// Adds what a guest wrote during a boot: `name` says what wrote it, `console`,
    /// `kernel` or `peer-console`. Of a text above 1 MiB
    /// the middle is left out, and a line there says how much.
    ///
    /// # Errors
    /// When no trial is planned for the boot, or it cannot be written; the bundle is as before.
    pub fn add_boot_log(&mut self, boot: u32, name: &str, text: &[u8]) -> Result<(), Problem> {
        let Some(&session) = self.sessions.get(&boot) else {
            return Err(Problem::internal(
                trouble::bundle(&self.path),
                format!("a log came of boot {boot}, for which no trial is planned"),
            ));
        };
        let packed = boot_logs::pack(text);
        let log = PackedLog {
            boot,
            name: name.to_owned(),
            bytes: text.len() as i64,
            trimmed_bytes: packed.trimmed_bytes as i64,
            kept_bytes: packed.kept_bytes as i64,
            zlib: packed.zlib,
        };
        self.add_packed_log(session, &log)
    }

    /// Adds what guests wrote in another bundle, as it is there.
    ///
    /// # Errors
    /// As [`Writer::add_boot_log`], and when it cannot be read.
    pub fn copy_boot_logs(&mut self, from: &Reader) -> Result<(), Problem> {
        let logs = from.packed_logs().map_err(|e| trouble::reading(from.path(), &e))?;
        for log in logs {
            let session = self.sessions.get(&log.boot).copied().unwrap_or_default();
            self.add_packed_log(session, &log)?;
        }
        Ok(())
    }

    fn add_packed_log(&mut self, session: u32, log: &PackedLog) -> Result<(), Problem> {
        let entry = self.boot_logs;
        self.transaction("the log of a boot", |db, _, _| {
            let PackedLog { boot, name, bytes, trimmed_bytes, kept_bytes, zlib } = log;
            db.execute(
                "INSERT INTO boot_logs (entry, session, boot, name, bytes, trimmed_bytes, kept_bytes, zlib) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![entry, session, boot, name, bytes, trimmed_bytes, kept_bytes, zlib],
            )?;
            parts::BOOT_LOG.seal(db, entry)?;
            Ok(())
        })?;
        self.boot_logs += 1;
        Ok(())
    }

    /// Ends the bundle and leaves one file, with nothing beside it.
    ///
    /// # Errors
    /// When it cannot be written; what was written before stays.
    pub fn finish(self, ending: &Ending) -> Result<(), Problem> {
        self.end(Some(ending), false)
    }

    /// Leaves one file, which takes the place of what has its name if it `replaces` that; without an ending it is one of a run
    /// that has not ended.
    ///
    /// # Errors
    /// When it cannot be written; what was written before stays.
    pub fn end(mut self, ending: Option<&Ending>, replaces: bool) -> Result<(), Problem> {
        let trials = self.trials;
        if let Some(ending) = ending {
            let (how, reason) = match ending {
                Ending::Complete => ("complete", None),
                Ending::Decided => ("decided", None),
                Ending::Budget => ("budget", None),
                Ending::Interrupted => ("interrupted", None),
                Ending::Failed { reason } => ("failed", Some(reason)),
            };
            self.transaction("the ending", |db, _, _| {
                db.execute(
                    "INSERT INTO ending (one, how, reason, trials) VALUES (1, ?1, ?2, ?3)",
                    params![how, reason, trials],
                )?;
                parts::ENDING.seal(db, 0)?;
                Ok(())
            })?;
        }
        let Writer { path, db, draft, .. } = self;
        db.close().map_err(|(_, e)| trouble::writing(&path, "the ending", trials, &e))?;
        let lies = draft.path();
        draft.finish(replaces).map_err(|e| trouble::placing(&path, &lies, &e))
    }

    fn transaction(
        &mut self,
        what: &str,
        write: impl FnOnce(&Connection, &mut Dictionary<FactKey>, &mut Dictionary<ItemKey>) -> Written,
    ) -> Result<(), Problem> {
        let Writer { db, facts, items, .. } = self;
        let outcome =
            db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(Fault::from).and_then(|transaction| {
                write(&transaction, facts, items)?;
                Ok(transaction.commit()?)
            });
        facts.settle(outcome.is_ok());
        items.settle(outcome.is_ok());
        outcome.map_err(|fault| match fault {
            Fault::Sqlite(e) => trouble::writing(&self.path, what, self.trials, &e),
            Fault::Value(value) => {
                Problem::internal(trouble::bundle(&self.path), format!("{what} cannot be written: {value}"))
            }
        })
    }
}

/// A count as SQLite holds it.
pub(crate) fn integer(name: &str, value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::Value(format!("{name} is {value}, more than 63 bits")))
}

/// The two columns of a measured number.
fn columns(measured: &Measured) -> (Option<f64>, Option<String>) {
    match measured {
        Measured::Value(v) if v.is_finite() => (Some(*v), None),
        Measured::Value(v) => (None, Some(format!("not a finite number ({v})"))),
        Measured::Absent(why) => (None, Some(why.clone())),
    }
}

fn fact_number(db: &Connection, facts: &mut Dictionary<FactKey>, fact: &Fact) -> rusqlite::Result<i64> {
    let key = (fact.key.clone(), fact.value.clone(), fact.source.clone(), fact.absent.clone(), fact.steady);
    facts.number(key, |number, (key, value, source, absent, steady)| {
        db.prepare_cached(
            "INSERT INTO facts (fact, key, value, source, absent, steady) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![number, key, value, source, absent, steady])
    })
}

/// The number of what a number or a histogram of evidence is about.
pub(crate) fn item_number(db: &Connection, items: &mut Dictionary<ItemKey>, key: ItemKey) -> rusqlite::Result<i64> {
    items.number(key, |number, (name, label, unit)| {
        db.prepare_cached("INSERT INTO evidence_items (item, name, label, unit) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![number, name, label, unit])
    })
}

fn write_head(db: &Connection, head: &BundleHead) -> Written {
    db.execute(
        "INSERT INTO head (one, run_id, holdup_version, created_unix_ns, target, emulated, machine_cpus, \
         machine_memory_bytes) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            head.run_id,
            head.holdup_version,
            head.created_unix_ns,
            head.target,
            head.emulated,
            head.machine.cpus,
            integer("memory in bytes", head.machine.memory_bytes)?
        ],
    )?;
    for (position, word) in head.command.iter().enumerate() {
        db.prepare_cached("INSERT INTO command (position, word) VALUES (?1, ?2)")?
            .execute(params![position as i64, word])?;
    }
    Ok(())
}

fn write_plan(db: &Connection, plan: &Plan, source: &str) -> Written {
    let json = serde_json::to_string(plan).map_err(|e| Fault::Value(format!("the plan as JSON ({e})")))?;
    // JSON has no infinities: what does not come back is refused now and not when the bundle is read.
    if serde_json::from_str::<Plan>(&json).ok().as_ref() != Some(plan) {
        return Err(Fault::Value("the plan holds a value that JSON cannot hold".to_owned()));
    }
    db.execute(
        "INSERT INTO plan (one, name, question, seed, source_toml, checked_json) VALUES (1, ?1, ?2, ?3, ?4, ?5)",
        params![plan.name, plan.question, plan.design.seed.to_string(), source, json],
    )?;
    Ok(())
}

fn write_arms(db: &Connection, schedule: &Schedule) -> Written {
    let mut arm_row = db.prepare("INSERT INTO arms (arm, label, workload, replica) VALUES (?1, ?2, ?3, ?4)")?;
    let mut level_row =
        db.prepare("INSERT INTO levels (arm, role, name, type, value, label) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for arm in &schedule.arms {
        let replica = arm.replica.map(|r| match r {
            Replica::Same => "same",
            Replica::Unobserved => "unobserved",
        });
        arm_row.execute(params![arm.id, arm.label, arm.workload, replica])?;
        for (role, levels) in [("axis", &arm.axes), ("factor", &arm.factors)] {
            for (name, Level { value, label }) in levels {
                let (kind, value): (&str, &dyn ToSql) = match value {
                    Value::Bool(b) => ("bool", b),
                    Value::Integer(i) => ("integer", i),
                    Value::Float(x) => ("float", x),
                    Value::Text(t) => ("text", t),
                };
                level_row.execute(params![arm.id, role, name, kind, value, label])?;
            }
        }
    }
    let mut trial_row = db.prepare(
        "INSERT INTO schedule (planned, seq, session, boot, block, position, arm) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (planned, t) in schedule.trials.iter().enumerate() {
        trial_row.execute(params![planned as i64, t.seq, t.session, t.boot, t.block, t.position, t.arm])?;
    }
    Ok(())
}

fn write_metrics(db: &Connection, metrics: &[(String, Metric)]) -> Written {
    let mut row = db.prepare(
        "INSERT INTO metrics (position, workload, metric, unit, better, summary) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (position, (workload, m)) in metrics.iter().enumerate() {
        let better = match m.better {
            holdup_model::Direction::Higher => "higher",
            holdup_model::Direction::Lower => "lower",
        };
        row.execute(params![position as i64, workload, m.id, m.unit, better, m.summary])?;
    }
    Ok(())
}

fn write_collectors(db: &Connection, collectors: &[CollectorState]) -> Written {
    let mut row =
        db.prepare("INSERT INTO collectors (position, collector, state, reason, remedy) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (position, CollectorState { id, availability }) in collectors.iter().enumerate() {
        let (state, reason, remedy) = match availability {
            Availability::Ready => ("ready", None, None),
            Availability::Degraded { reason } => ("degraded", Some(reason), None),
            Availability::Unavailable { reason, remedy } => ("unavailable", Some(reason), remedy.as_ref()),
        };
        row.execute(params![position as i64, id, state, reason, remedy])?;
    }
    Ok(())
}

fn write_trial(db: &Connection, t: &Trial) -> Written {
    let (status, reason) = match &t.status {
        TrialStatus::Done => ("done", None),
        TrialStatus::Void { reason } => ("void", Some(reason)),
    };
    let length_ns = t.window.map(|w| integer("length of the window", w.length_ns)).transpose()?;
    db.prepare_cached(
        "INSERT INTO trials (trial, session, boot, block, position, arm, attempt, status, void_reason, \
         started_unix_ns, ended_unix_ns, window_begin_unix_ns, window_end_unix_ns, window_length_ns) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        t.seq,
        t.session,
        t.boot,
        t.block,
        t.position,
        t.arm,
        t.attempt,
        status,
        reason,
        t.started_unix_ns,
        t.ended_unix_ns,
        t.window.map(|w| w.begin_unix_ns),
        t.window.map(|w| w.end_unix_ns),
        length_ns
    ])?;
    for (position, text) in t.notes.iter().enumerate() {
        db.prepare_cached("INSERT INTO notes (trial, position, text) VALUES (?1, ?2, ?3)")?.execute(params![
            t.seq,
            position as i64,
            text
        ])?;
    }
    Ok(())
}

fn write_measured(db: &Connection, t: &Trial) -> Written {
    for (position, m) in t.measurements.iter().enumerate() {
        let (value, absent) = columns(&m.value);
        db.prepare_cached(
            "INSERT INTO measurements (trial, position, metric, value, absent) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![t.seq, position as i64, m.metric, value, absent])?;
    }
    for (position, h) in t.histograms.iter().enumerate() {
        let count = integer("count of the histogram", h.histogram.count())?;
        let clipped = integer("clipped values of the histogram", h.histogram.clipped())?;
        db.prepare_cached(
            "INSERT INTO histograms (trial, position, name, count, clipped, hdr_v2) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![t.seq, position as i64, h.name, count, clipped, h.histogram.to_bytes()])?;
    }
    Ok(())
}

fn write_evidence(db: &Connection, items: &mut Dictionary<ItemKey>, t: &Trial) -> Written {
    for (run, c) in t.evidence.iter().enumerate() {
        let run = run as i64;
        db.prepare_cached(
            "INSERT INTO collector_runs (trial, run, collector, seen_count, lost_count, cost_cpu_ns, cost_wakeups, \
             cost_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            t.seq,
            run,
            c.collector,
            integer("samples seen", c.coverage.seen)?,
            integer("samples lost", c.coverage.lost)?,
            integer("CPU time of the collector", c.cost.cpu_ns)?,
            integer("wakeups of the collector", c.cost.wakeups)?,
            integer("bytes read by the collector", c.cost.bytes)?
        ])?;
        for (position, text) in c.coverage.notes.iter().enumerate() {
            db.prepare_cached("INSERT INTO coverage_notes (trial, run, position, text) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![t.seq, run, position as i64, text])?;
        }
        let mut row = db.prepare_cached(
            "INSERT INTO evidence (trial, run, position, item, value, absent) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for (position, i) in c.items.iter().enumerate() {
            let key = (i.name.clone(), i.label.clone(), i.unit.clone());
            let item = item_number(db, items, key)?;
            let (value, absent) = columns(&i.value);
            row.execute(params![t.seq, run, position as i64, item, value, absent])?;
        }
    }
    Ok(())
}

fn write_trial_facts(db: &Connection, facts: &mut Dictionary<FactKey>, t: &Trial) -> Written {
    let mut row =
        db.prepare_cached("INSERT INTO trial_environment (trial, moment, position, fact) VALUES (?1, ?2, ?3, ?4)")?;
    for (moment, list) in [("before", &t.environment_before), ("moved", &t.environment_moved)] {
        for (position, fact) in list.iter().enumerate() {
            row.execute(params![t.seq, moment, position as i64, fact_number(db, facts, fact)?])?;
        }
    }
    Ok(())
}
