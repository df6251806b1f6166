//! Reading trial by trial: a bundle of any size in the memory of one trial.

use crate::gather::{self, Damage, ReadOptions};
use crate::open::{self, Opened};
use holdup_model::{BundleData, MemoryBudget, Problem, Trial};
use std::path::{Path, PathBuf};

/// A bundle that is read trial by trial.
///
/// As with [`crate::read`], what is damaged is refused.
pub struct Reader {
    path: PathBuf,
    opened: Opened,
    data: BundleData,
    trials: u32,
    budget: MemoryBudget,
}

/// What a guest wrote during one boot, as the file holds it.
pub(crate) struct PackedLog {
    pub(crate) boot: u32,
    pub(crate) name: String,
    pub(crate) bytes: i64,
    pub(crate) trimmed_bytes: i64,
    pub(crate) kept_bytes: i64,
    pub(crate) zlib: Vec<u8>,
}

impl Reader {
    /// Opens a bundle and reads all of it but the trials, of which each may take what the budget has left then.
    ///
    /// # Errors
    /// As [`crate::read_without_events`], but for damage of trials.
    pub fn open(path: &Path, budget: &MemoryBudget) -> Result<Self, Problem> {
        let opened = open::to_read(path, false)?;
        let reading = ReadOptions::without_events(budget);
        let mut damage = Damage(Vec::new(), &reading);
        let (mut data, numbers) = gather::without_trials(path, &opened, &mut damage)?;
        gather::rest(&opened.db, &mut data, numbers.len(), &mut damage);
        reading.check(path)?;
        gather::whole(path, &damage.0)?;
        let trials = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        Ok(Reader { path: path.to_owned(), opened, data, trials, budget: reading.budget })
    }

    /// The bundle without its trials.
    pub fn data(&self) -> &BundleData {
        &self.data
    }

    /// How many trials it holds.
    pub fn trials(&self) -> u32 {
        self.trials
    }

    /// A trial, by its place in the order run.
    ///
    /// # Errors
    /// When it is damaged or not there.
    pub fn trial(&self, seq: u32) -> Result<Trial, Problem> {
        let reading = ReadOptions { with_events: true, ..ReadOptions::without_events(&self.budget.rest()) };
        let mut damage = Damage(Vec::new(), &reading);
        let trial = gather::trial(&self.opened, i64::from(seq), self.data.schedule.arms.len(), &mut damage);
        reading.check(&self.path)?;
        gather::whole(&self.path, &damage.0)?;
        trial.ok_or_else(|| crate::trouble::damaged(&self.path, format!("trial {seq} is not there")))
    }

    /// What guests wrote, in the order kept.
    pub(crate) fn packed_logs(&self) -> rusqlite::Result<Vec<PackedLog>> {
        let mut statement = self
            .opened
            .db
            .prepare("SELECT boot, name, bytes, trimmed_bytes, kept_bytes, zlib FROM boot_logs ORDER BY entry")?;
        let rows = statement.query_map([], |row| {
            Ok(PackedLog {
                boot: row.get(0)?,
                name: row.get(1)?,
                bytes: row.get(2)?,
                trimmed_bytes: row.get(3)?,
                kept_bytes: row.get(4)?,
                zlib: row.get(5)?,
            })
        })?;
        rows.collect()
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
