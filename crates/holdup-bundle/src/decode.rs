//! Rows to the types of the model. Foreign input: every value is checked.

use crate::boot_logs;
use crate::parts::{Loaded, Row};
use holdup_model::bundle::{BootLog, BundleHead, CollectorState, Ending};
use holdup_model::catalogue::Availability;
use holdup_model::trial::NamedHistogram;
use holdup_model::{
    Arm, Collected, Coverage, Direction, EnvironmentReading, EvidenceItem, Fact, Histogram, Level, Machine, Measured,
    Measurement, MemoryBudget, Metric, Plan, Replica, Schedule, SelfCost, Trial, TrialSpec, TrialStatus, Value, Window,
};
use rusqlite::types::Value as Cell;
use std::collections::BTreeMap;

/// What is wrong, in words that follow `PART: `.
pub(crate) type Decoded<T> = Result<T, String>;

/// A row that is read from left to right.
pub(crate) struct Cells<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(row: &'a Row) -> Self {
        Cells { row, next: 0 }
    }

    fn cell(&mut self) -> Decoded<&'a Cell> {
        let cell = self.row.get(self.next).ok_or_else(|| format!("has no column {}", self.next))?;
        self.next += 1;
        Ok(cell)
    }

    fn wrong<T>(&self, wanted: &str, found: &Cell) -> Decoded<T> {
        Err(format!("its column {} holds {} where {wanted} belongs", self.next - 1, short(found)))
    }

    pub(crate) fn text(&mut self) -> Decoded<String> {
        self.text_or_null()?.ok_or_else(|| format!("its column {} holds NULL where text belongs", self.next - 1))
    }

    pub(crate) fn text_or_null(&mut self) -> Decoded<Option<String>> {
        match self.cell()? {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text.clone())),
            other => self.wrong("text", other),
        }
    }

    pub(crate) fn integer<T: TryFrom<i64>>(&mut self) -> Decoded<T> {
        self.integer_or_null()?
            .ok_or_else(|| format!("its column {} holds NULL where a whole number belongs", self.next - 1))
    }

    pub(crate) fn integer_or_null<T: TryFrom<i64>>(&mut self) -> Decoded<Option<T>> {
        match self.cell()? {
            Cell::Null => Ok(None),
            cell @ Cell::Integer(i) => {
                T::try_from(*i).map(Some).or_else(|_| self.wrong("a whole number of this size", cell))
            }
            other => self.wrong("a whole number", other),
        }
    }

    pub(crate) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        match self.cell()? {
            Cell::Blob(bytes) => Ok(bytes),
            other => self.wrong("bytes", other),
        }
    }

    fn flag(&mut self) -> Decoded<bool> {
        match self.cell()? {
            Cell::Integer(0) => Ok(false),
            Cell::Integer(1) => Ok(true),
            other => self.wrong("0 or 1", other),
        }
    }

    /// The columns value and absent, of which exactly one is set.
    fn measured(&mut self) -> Decoded<Measured> {
        let value = self.cell()?;
        match (value, self.text_or_null()?) {
            (Cell::Real(v), None) if v.is_finite() => Ok(Measured::Value(*v)),
            (Cell::Null, Some(why)) => Ok(Measured::Absent(why)),
            _ => Err("a value is neither a number nor absent with a reason".to_owned()),
        }
    }

    fn fact(&mut self) -> Decoded<Fact> {
        Ok(Fact {
            key: self.text()?,
            value: self.text_or_null()?,
            source: self.text()?,
            absent: self.text_or_null()?,
            steady: self.flag()?,
        })
    }

    /// A place in a list, which must be the next one.
    pub(crate) fn place(&mut self, expected: usize) -> Decoded<()> {
        let found: i64 = self.integer()?;
        if usize::try_from(found) == Ok(expected) {
            Ok(())
        } else {
            Err(format!("row {expected} of a list is missing"))
        }
    }
}

/// The begin of a value, which may be megabytes.
fn short(cell: &Cell) -> String {
    match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Integer(i) => i.to_string(),
        Cell::Real(x) => x.to_string(),
        Cell::Text(text) => format!("`{}`", text.chars().take(40).collect::<String>()),
        Cell::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

pub(crate) fn rows(part: &Loaded, query: usize) -> Decoded<&[Row]> {
    part.rows.get(query).map(Vec::as_slice).ok_or_else(|| "has no rows".to_owned())
}

fn single(part: &Loaded, query: usize) -> Decoded<Cells<'_>> {
    match rows(part, query)? {
        [row] => Ok(Cells::of(row)),
        [] => Err("is missing".to_owned()),
        more => Err(format!("has {} rows where one belongs", more.len())),
    }
}

/// Reads a list whose first column is the place.
fn list<'a, T>(part: &'a Loaded, query: usize, mut read: impl FnMut(&mut Cells<'a>) -> Decoded<T>) -> Decoded<Vec<T>> {
    rows(part, query)?
        .iter()
        .enumerate()
        .map(|(place, row)| {
            let mut cells = Cells::of(row);
            cells.place(place)?;
            read(&mut cells)
        })
        .collect()
}

pub(crate) fn head(part: &Loaded, command: Vec<String>) -> Decoded<BundleHead> {
    let mut c = single(part, 0)?;
    Ok(BundleHead {
        run_id: c.text()?,
        holdup_version: c.text()?,
        command,
        created_unix_ns: c.integer()?,
        target: c.text()?,
        emulated: c.text_or_null()?,
        machine: Machine { cpus: c.integer()?, memory_bytes: c.integer()? },
    })
}

pub(crate) fn command(part: &Loaded) -> Decoded<Vec<String>> {
    list(part, 0, Cells::text)
}

/// The plan and its source.
pub(crate) fn plan(part: &Loaded) -> Decoded<(Plan, String)> {
    let mut c = single(part, 0)?;
    let (_name, _question, _seed) = (c.text()?, c.text()?, c.text()?);
    let source = c.text()?;
    let plan = serde_json::from_str(&c.text()?).map_err(|e| format!("checked_json is not a plan ({e})"))?;
    Ok((plan, source))
}

pub(crate) fn arms(part: &Loaded) -> Decoded<Vec<Arm>> {
    let mut arms = list(part, 0, |c| {
        Ok(Arm {
            id: 0,
            label: c.text()?,
            workload: c.text()?,
            replica: match c.text_or_null()?.as_deref() {
                None => None,
                Some("same") => Some(Replica::Same),
                Some("unobserved") => Some(Replica::Unobserved),
                Some(other) => return Err(format!("`{other}` is no replica")),
            },
            axes: BTreeMap::new(),
            factors: BTreeMap::new(),
        })
    })?;
    for (arm, id) in arms.iter_mut().zip(0..) {
        arm.id = id;
    }
    for row in rows(part, 1)? {
        let mut c = Cells::of(row);
        let id: usize = c.integer::<u32>()? as usize;
        let (role, name, kind) = (c.text()?, c.text()?, c.text()?);
        let value = match (kind.as_str(), c.cell()?) {
            ("bool", Cell::Integer(i @ (0 | 1))) => Value::Bool(*i == 1),
            ("integer", Cell::Integer(i)) => Value::Integer(*i),
            ("float", Cell::Real(x)) => Value::Float(*x),
            ("text", Cell::Text(t)) => Value::Text(t.clone()),
            (_, other) => {
                return Err(format!("the level {name} of arm {id} holds {}, which is no {kind}", short(other)));
            }
        };
        let level = Level { value, label: c.text()? };
        let arm = arms.get_mut(id).ok_or_else(|| format!("the level {name} is of arm {id}, which is missing"))?;
        match role.as_str() {
            "axis" => arm.axes.insert(name, level),
            "factor" => arm.factors.insert(name, level),
            other => return Err(format!("`{other}` is no role of a level")),
        };
    }
    Ok(arms)
}

pub(crate) fn schedule(part: &Loaded, arms: Vec<Arm>) -> Decoded<Schedule> {
    let trials = list(part, 0, |c| {
        let (seq, session, boot) = (c.integer()?, c.integer()?, c.integer()?);
        let (block, position, arm) = (c.integer()?, c.integer()?, c.integer()?);
        let spec = TrialSpec { seq, session, boot, block, position, arm };
        known_arm(spec.arm, arms.len()).map(|()| spec)
    })?;
    Ok(Schedule { arms, trials })
}

/// Analysis looks arms up by number, so that a number without an arm must not get there.
fn known_arm(arm: u32, arms: usize) -> Decoded<()> {
    if (arm as usize) < arms { Ok(()) } else { Err(format!("is of arm {arm}, which is missing")) }
}

/// Ids of metrics in bundles of earlier builds, and what they are now.
const RENAMED: [(&str, &str); 4] = [
    ("near_cpu_s_per_gb", "client_cpu_s_per_gb"),
    ("far_cpu_s_per_gb", "server_cpu_s_per_gb"),
    ("near_cpu_ns_per_message", "client_cpu_ns_per_message"),
    ("far_cpu_ns_per_message", "server_cpu_ns_per_message"),
];

/// The id that a metric has now.
fn current_id(id: String) -> String {
    RENAMED.iter().find(|(before, _)| *before == id).map_or(id, |(_, now)| (*now).to_owned())
}

pub(crate) fn metrics(part: &Loaded) -> Decoded<Vec<(String, Metric)>> {
    list(part, 0, |c| {
        let workload = c.text()?;
        let (id, unit) = (current_id(c.text()?), c.text()?);
        let better = match c.text()?.as_str() {
            "higher" => Direction::Higher,
            "lower" => Direction::Lower,
            other => return Err(format!("`{other}` is no direction")),
        };
        Ok((workload, Metric { id, unit, better, summary: c.text()? }))
    })
}

pub(crate) fn collectors(part: &Loaded) -> Decoded<Vec<CollectorState>> {
    list(part, 0, |c| {
        let id = c.text()?;
        let availability = match (c.text()?.as_str(), c.text_or_null()?, c.text_or_null()?) {
            ("ready", None, None) => Availability::Ready,
            ("degraded", Some(reason), None) => Availability::Degraded { reason },
            ("unavailable", Some(reason), remedy) => Availability::Unavailable { reason, remedy },
            (state, ..) => return Err(format!("the collector {id} is {state} without its reason")),
        };
        Ok(CollectorState { id, availability })
    })
}

pub(crate) fn environment(part: &Loaded) -> Decoded<EnvironmentReading> {
    let mut c = single(part, 0)?;
    let _reading = c.cell()?;
    Ok(EnvironmentReading { session: c.integer()?, boot: c.integer()?, facts: list(part, 1, Cells::fact)? })
}

pub(crate) fn log(part: &Loaded) -> Decoded<(i64, String)> {
    let mut c = single(part, 0)?;
    let _entry = c.cell()?;
    Ok((c.integer()?, c.text()?))
}

pub(crate) fn boot_log(part: &Loaded, budget: &MemoryBudget) -> Decoded<BootLog> {
    let mut c = single(part, 0)?;
    let _entry = c.cell()?;
    let (session, boot, name) = (c.integer()?, c.integer()?, c.text()?);
    let (bytes, trimmed_bytes, kept_bytes) = (c.integer()?, c.integer()?, c.integer()?);
    let kept = budget.take(u64::min(kept_bytes, boot_logs::MOST_BYTES as u64));
    kept.map_err(|e| format!("the text of {name} {e}"))?;
    let text = boot_logs::unpack(c.bytes()?, kept_bytes).map_err(|why| format!("the text of {name} {why}"))?;
    Ok(BootLog { session, boot, name, text, bytes, trimmed_bytes })
}

/// The ending and the number of trials that it counts.
pub(crate) fn ending(part: &Loaded) -> Decoded<(Ending, u32)> {
    let mut c = single(part, 0)?;
    let ending = match (c.text()?.as_str(), c.text_or_null()?) {
        ("complete", None) => Ending::Complete,
        ("decided", None) => Ending::Decided,
        ("budget", None) => Ending::Budget,
        ("interrupted", None) => Ending::Interrupted,
        ("failed", Some(reason)) => Ending::Failed { reason },
        (how, _) => return Err(format!("`{how}` is no ending")),
    };
    Ok((ending, c.integer()?))
}

pub(crate) fn trial(part: &Loaded, arms: usize, budget: &MemoryBudget) -> Decoded<Trial> {
    let mut c = single(part, 0)?;
    let (environment_before, environment_moved) = trial_facts(part)?;
    let trial = Trial {
        seq: c.integer()?,
        session: c.integer()?,
        boot: c.integer()?,
        block: c.integer()?,
        position: c.integer()?,
        arm: c.integer()?,
        attempt: c.integer()?,
        status: match (c.text()?.as_str(), c.text_or_null()?) {
            ("done", None) => TrialStatus::Done,
            ("void", Some(reason)) => TrialStatus::Void { reason },
            (status, _) => return Err(format!("its status is `{status}`, or its reason is missing")),
        },
        started_unix_ns: c.integer()?,
        ended_unix_ns: c.integer()?,
        window: match (c.integer_or_null()?, c.integer_or_null()?, c.integer_or_null()?) {
            (None, None, None) => None,
            (Some(begin_unix_ns), Some(end_unix_ns), Some(length_ns)) => {
                Some(Window { begin_unix_ns, end_unix_ns, length_ns })
            }
            _ => return Err("its window is set in part".to_owned()),
        },
        measurements: list(part, 1, |c| Ok(Measurement { metric: current_id(c.text()?), value: c.measured()? }))?,
        histograms: list(part, 2, histogram)?,
        evidence: evidence(part)?,
        environment_before,
        environment_moved,
        notes: list(part, 7, Cells::text)?,
    };
    let counted: usize = trial.histograms.iter().map(|named| named.histogram.memory_bytes()).sum();
    budget.take(counted as u64).map_err(|e| format!("it {e}"))?;
    known_arm(trial.arm, arms).map(|()| trial)
}

fn histogram(c: &mut Cells<'_>) -> Decoded<NamedHistogram> {
    let name = c.text()?;
    histogram_of(c, &name).map(|histogram| NamedHistogram { name, histogram })
}

/// The columns count, clipped and hdr_v2.
pub(crate) fn histogram_of(c: &mut Cells<'_>, name: &str) -> Decoded<Histogram> {
    let (count, clipped): (u64, u64) = (c.integer()?, c.integer()?);
    let bytes = c.bytes()?;
    // The length is checked first: the decoder makes room for what the head claims, which may be 4 GiB.
    let claimed = bytes.get(4..8).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]) as usize);
    if claimed.and_then(|n| n.checked_add(HDR_V2_HEAD)) != Some(bytes.len()) || !bytes.starts_with(&HDR_V2_COOKIE) {
        return Err(format!("the histogram {name} is not in HDR V2 form, or is cut"));
    }
    let histogram = Histogram::from_bytes(bytes, clipped)
        .map_err(|p| format!("the histogram {name} cannot be read ({})", p.why))?;
    if clipped > count {
        return Err(format!("of the histogram {name} more durations are clipped than counted"));
    }
    if histogram.count() != count {
        return Err(format!("the histogram {name} holds {} durations, {count} were counted", histogram.count()));
    }
    Ok(histogram)
}

/// One row of the table of histograms, as tests make them.
#[cfg(test)]
pub(crate) fn histogram_row(row: &Row) -> Decoded<NamedHistogram> {
    let mut cells = Cells::of(row);
    cells.place(0)?;
    histogram(&mut cells)
}

/// The length of the head of the HDR V2 encoding: cookie, payload length, normalizing offset, digits, lowest,
/// highest value, conversion ratio.
const HDR_V2_HEAD: usize = 4 + 4 + 4 + 4 + 8 + 8 + 8;

/// The cookie of the encoding without compression; the compressed one can hold more than it seems to.
const HDR_V2_COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();

fn evidence(part: &Loaded) -> Decoded<Vec<Collected>> {
    let mut runs = list(part, 3, |c| {
        Ok(Collected {
            collector: c.text()?,
            items: Vec::new(),
            coverage: Coverage { seen: c.integer()?, lost: c.integer()?, notes: Vec::new() },
            cost: SelfCost { cpu_ns: c.integer()?, wakeups: c.integer()?, bytes: c.integer()?, ..SelfCost::default() },
            ..Collected::default()
        })
    })?;
    for row in rows(part, 4)? {
        let mut c = Cells::of(row);
        let run = run_of(&mut runs, c.integer()?)?;
        c.place(run.coverage.notes.len())?;
        run.coverage.notes.push(c.text()?);
    }
    for row in rows(part, 5)? {
        let mut c = Cells::of(row);
        let run = run_of(&mut runs, c.integer()?)?;
        c.place(run.items.len())?;
        let (name, label, unit) = (c.text()?, c.text_or_null()?, c.text()?);
        run.items.push(EvidenceItem { name, label, unit, value: c.measured()? });
    }
    Ok(runs)
}

/// What belongs to the collector at this place in the trial.
pub(crate) fn run_of<T>(runs: &mut [T], run: u32) -> Decoded<&mut T> {
    runs.get_mut(run as usize).ok_or_else(|| format!("evidence of collector {run}, which is missing"))
}

fn trial_facts(part: &Loaded) -> Decoded<(Vec<Fact>, Vec<Fact>)> {
    let (mut before, mut moved) = (Vec::new(), Vec::new());
    for row in rows(part, 6)? {
        let mut c = Cells::of(row);
        let facts = match c.text()?.as_str() {
            "before" => &mut before,
            "moved" => &mut moved,
            other => return Err(format!("`{other}` is no moment of an environment")),
        };
        c.place(facts.len())?;
        facts.push(c.fact()?);
    }
    Ok((before, moved))
}
