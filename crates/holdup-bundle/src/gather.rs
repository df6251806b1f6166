//! Reading: all that is whole, and a list of all that is not.

use crate::open::Opened;
use crate::parts::{self, Loaded, Part};
use crate::{captures, decode, evidence, open, trouble};
use holdup_model::bundle::Ending;
use holdup_model::{BundleData, MemoryBudget, Problem, Trial};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::path::Path;

/// Parts of a bundle that are read, and the memory for them.
pub(crate) struct ReadOptions {
    /// True if timelines are read with their events. They compress to a three-hundredth of their size, and few ask for them.
    pub(crate) with_events: bool,
    /// True if more than the numbers of evidence is kept.
    pub(crate) with_evidence: bool,
    pub(crate) budget: MemoryBudget,
}

impl ReadOptions {
    pub(crate) fn all() -> Self {
        ReadOptions { with_events: true, ..Self::without_events(&MemoryBudget::default()) }
    }

    pub(crate) fn without_events(budget: &MemoryBudget) -> Self {
        ReadOptions { with_events: false, with_evidence: true, budget: budget.clone() }
    }

    /// # Errors
    /// When something took more memory than there was: nothing that was read is whole then.
    pub(crate) fn check(&self, path: &Path) -> Result<(), Problem> {
        let Some(refused) = self.budget.exceeded() else { return Ok(()) };
        let problem = refused.of(trouble::bundle(path));
        let hint = problem.hint.clone().unwrap_or_default();
        // Writers of a bundle read it as well.
        Err(problem.hint(format!("{hint}: report, explain, compare, export, list and verify have this option")))
    }
}

/// Reads a bundle with the events of its timelines, within the usual memory, as tests do.
///
/// What it returns is what was written, all of it: a bundle of which something is damaged or missing is refused.
///
/// # Errors
/// A usage problem for a file that is no bundle or holds nothing; a host problem for one that is damaged, of a newer
/// schema, or cannot be read.
pub fn read(path: &Path) -> Result<BundleData, Problem> {
    undamaged(path, &open::to_read(path, false)?, &ReadOptions::all())
}

/// Reads a bundle but for the events of its timelines, which are checked one by one and counted; [`Reader`](crate::Reader) has those
/// of a trial.
///
/// # Errors
/// As [`read`], and when it takes more memory than the budget has.
pub fn read_without_events(path: &Path, budget: &MemoryBudget) -> Result<BundleData, Problem> {
    undamaged(path, &open::to_read(path, false)?, &ReadOptions::without_events(budget))
}

/// Reads a bundle but for distributions, call stacks, timelines and connections of its evidence, which are checked trial by trial.
///
/// # Errors
/// As [`read`], and when the evidence of a trial takes more memory than the budget has beside what is kept.
pub fn read_numbers(path: &Path, budget: &MemoryBudget) -> Result<BundleData, Problem> {
    let reading = ReadOptions { with_evidence: false, ..ReadOptions::without_events(budget) };
    undamaged(path, &open::to_read(path, false)?, &reading)
}

/// Reads an opened bundle.
///
/// # Errors
/// When something is damaged, or too large.
pub(crate) fn undamaged(path: &Path, opened: &Opened, reading: &ReadOptions) -> Result<BundleData, Problem> {
    let (data, damage) = gather(path, opened, reading)?;
    whole(path, &damage)?;
    Ok(data)
}

/// # Errors
/// When something is damaged.
pub(crate) fn whole(path: &Path, damage: &[String]) -> Result<(), Problem> {
    match damage {
        [] => Ok(()),
        [only] => Err(trouble::damaged(path, only)),
        [first, rest @ ..] => Err(trouble::damaged(path, format!("{first}, and {} more", rest.len()))),
    }
}

/// Reads what is whole of a damaged bundle, and says what is not.
///
/// No part that is damaged is in the result, except that head, plan and arms are given as they can be read, since
/// nothing can be said without them; then a line says that they do not match their checksum. A trial whose distributions,
/// stacks or timeline are damaged comes without all of these, one whose connections are damaged without them, and a line says so.
///
/// # Errors
/// As [`read`], and a host problem when the head, the plan, the arms or the schedule cannot be read.
pub fn read_salvage(path: &Path) -> Result<(BundleData, Vec<String>), Problem> {
    let opened = open::to_read(path, true)?;
    gather(path, &opened, &ReadOptions::all())
}

/// Damage in the order found, and how the bundle is read.
pub(crate) struct Damage<'a>(pub(crate) Vec<String>, pub(crate) &'a ReadOptions);

impl Damage<'_> {
    fn add(&mut self, part: &str, found: impl std::fmt::Display) {
        self.0.push(format!("{part}: {found}"));
    }

    /// Loads and decodes one part. `lenient`: a wrong checksum is reported, and the values are used nevertheless.
    fn part<T>(
        &mut self,
        db: &Connection,
        part: &Part,
        number: i64,
        lenient: bool,
        decode: impl FnOnce(&Loaded) -> decode::Decoded<T>,
    ) -> Option<T> {
        let name = if number_matters(part) { format!("{} {number}", part.name) } else { part.name.to_owned() };
        let loaded = match part.load(db, number, &self.1.budget) {
            Ok(loaded) => loaded,
            Err(e) => {
                self.add(&name, e);
                return None;
            }
        };
        if let Some(found) = loaded.damage() {
            self.add(&name, found);
            if !lenient {
                return None;
            }
        }
        decode(&loaded).map_err(|found| self.add(&name, found)).ok()
    }
}

fn number_matters(part: &Part) -> bool {
    [&parts::TRIAL, &parts::EVIDENCE, &parts::CAPTURES, &parts::ENVIRONMENT, &parts::LOG, &parts::BOOT_LOG]
        .iter()
        .any(|numbered| numbered.name == part.name)
}

/// Reads everything that is whole.
pub(crate) fn gather(
    path: &Path,
    opened: &Opened,
    reading: &ReadOptions,
) -> Result<(BundleData, Vec<String>), Problem> {
    let mut damage = Damage(Vec::new(), reading);
    let (mut data, numbers) = without_trials(path, opened, &mut damage)?;
    let arms = data.schedule.arms.len();
    for number in numbers {
        data.trials.extend(trial(opened, number, arms, &mut damage));
        reading.check(path)?;
    }
    let trials = data.trials.len();
    rest(&opened.db, &mut data, trials, &mut damage);
    reading.check(path)?;
    Ok((data, damage.0))
}

/// All but the trials and what [`rest`] reads, and the numbers of the trials.
pub(crate) fn without_trials(
    path: &Path,
    opened: &Opened,
    damage: &mut Damage<'_>,
) -> Result<(BundleData, BTreeSet<i64>), Problem> {
    let db = &opened.db;
    let command = damage.part(db, &parts::COMMAND, 0, false, decode::command).unwrap_or_default();
    let head = damage.part(db, &parts::HEAD, 0, true, |p| decode::head(p, command));
    let plan = damage.part(db, &parts::PLAN, 0, true, decode::plan);
    let schedule = damage
        .part(db, &parts::ARMS, 0, true, decode::arms)
        .and_then(|arms| damage.part(db, &parts::SCHEDULE, 0, true, |p| decode::schedule(p, arms)));
    damage.1.check(path)?;
    let (Some(head), Some((plan, plan_source)), Some(schedule)) = (head, plan, schedule) else {
        return Err(Problem::host(trouble::bundle(path), format!("is damaged: {}", damage.0.join("; "))).hint(
            "nothing can be read without the head, the plan, the arms and the schedule: use a copy of the file",
        ));
    };
    let metrics = damage.part(db, &parts::METRICS, 0, false, decode::metrics).unwrap_or_default();
    let collectors = damage.part(db, &parts::COLLECTORS, 0, false, decode::collectors).unwrap_or_default();
    let environment = numbers(db, &parts::ENVIRONMENT, "environment_readings", "reading", damage)
        .into_iter()
        .filter_map(|n| damage.part(db, &parts::ENVIRONMENT, n, false, decode::environment))
        .collect();
    let trials = numbers(db, &parts::TRIAL, "trials", "trial", damage);
    let data = BundleData {
        head,
        plan,
        plan_source,
        schedule,
        metrics,
        collectors,
        environment,
        trials: Vec::new(),
        log: Vec::new(),
        boot_logs: Vec::new(),
        ending: None,
    };
    Ok((data, trials))
}

/// A trial with the evidence that belongs to it, where the schema has such.
pub(crate) fn trial(opened: &Opened, number: i64, arms: usize, damage: &mut Damage<'_>) -> Option<Trial> {
    let (db, reading) = (&opened.db, damage.1);
    let mut trial = damage.part(db, &parts::TRIAL, number, false, |p| decode::trial(p, arms, &reading.budget))?;
    let left = reading.budget.left();
    if opened.version >= 2 {
        let runs = trial.evidence.len();
        let rich = damage.part(db, &parts::EVIDENCE, number, false, |p| evidence::read(p, runs, reading));
        for (rich, collected) in rich.into_iter().flatten().zip(&mut trial.evidence) {
            rich.into_collected(collected);
        }
    }
    if opened.version >= 3 {
        let runs = trial.evidence.len();
        let kept = damage.part(db, &parts::CAPTURES, number, false, |p| captures::read(p, runs, &reading.budget));
        for (kept, collected) in kept.into_iter().flatten().zip(&mut trial.evidence) {
            collected.capture = kept;
        }
    }
    if !reading.with_evidence {
        for c in &mut trial.evidence {
            (c.histograms, c.stacks, c.timeline, c.capture) = (Vec::new(), Vec::new(), None, None);
        }
        reading.budget.give(left.saturating_sub(reading.budget.left()));
    }
    Some(trial)
}

/// What is read behind the trials: the logs and the ending, which counts this number of trials.
pub(crate) fn rest(db: &Connection, data: &mut BundleData, trials: usize, damage: &mut Damage<'_>) {
    let budget = &damage.1.budget;
    data.log = numbers(db, &parts::LOG, "log", "entry", damage)
        .into_iter()
        .filter_map(|n| damage.part(db, &parts::LOG, n, false, decode::log))
        .collect();
    data.boot_logs = numbers(db, &parts::BOOT_LOG, "boot_logs", "entry", damage)
        .into_iter()
        .filter_map(|n| damage.part(db, &parts::BOOT_LOG, n, false, |p| decode::boot_log(p, budget)))
        .collect();
    data.ending = ending(db, trials, damage);
}

/// The ending; `None` without damage when the run never ended.
fn ending(db: &Connection, trials: usize, damage: &mut Damage<'_>) -> Option<Ending> {
    match parts::ENDING.load(db, 0, &damage.1.budget) {
        Ok(loaded) if loaded.is_absent() => return None,
        _ => {}
    }
    let (ending, counted) = damage.part(db, &parts::ENDING, 0, false, decode::ending)?;
    if trials != counted as usize {
        damage.add("trials", format!("{trials} can be read, the ending counts {counted}"));
    }
    Some(ending)
}

/// The numbers under which a part is there, by its table and by its checksums. Gaps are damage.
fn numbers(db: &Connection, part: &Part, table: &str, column: &str, damage: &mut Damage<'_>) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    let mut broken = false;
    // Both ends are walked, because a damaged page ends a walk.
    for order in ["ASC", "DESC"] {
        for query in [
            format!("SELECT {column} FROM {table} ORDER BY {column} {order}"),
            format!("SELECT number FROM checksums WHERE part = '{}' ORDER BY number {order}", part.name),
        ] {
            if let Err(e) = walk(db, &query, &mut found) {
                broken = true;
                let line = format!("{table}: {e}");
                if !damage.0.contains(&line) {
                    damage.0.push(line);
                }
            }
        }
    }
    let last = found.last().copied().unwrap_or(-1);
    if broken {
        // Those between two damaged pages are found only by asking for each.
        found.extend((0..=last.min(MOST_PROBED)).filter(|n| is_there(db, table, column, *n)));
    }
    let mut expected = 0;
    for &number in &found {
        if number < 0 {
            damage.add(part.name, format!("{number} cannot be its number"));
            continue;
        }
        match number - expected {
            0 => {}
            1 => damage.add(part.name, format!("{expected} is missing")),
            _ => damage.add(part.name, format!("{expected} to {} are missing", number - 1)),
        }
        expected = number.saturating_add(1);
    }
    found
}

/// More trials than this are not looked for one by one in a damaged bundle.
const MOST_PROBED: i64 = 100_000;

fn walk(db: &Connection, query: &str, found: &mut BTreeSet<i64>) -> rusqlite::Result<()> {
    let mut statement = db.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        found.insert(row.get(0)?);
    }
    Ok(())
}

fn is_there(db: &Connection, table: &str, column: &str, number: i64) -> bool {
    db.prepare_cached(&format!("SELECT 1 FROM {table} WHERE {column} = ?1"))
        .and_then(|mut statement| statement.exists([number]))
        .unwrap_or(false)
}
