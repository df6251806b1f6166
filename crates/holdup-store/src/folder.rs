//! A folder of bundles. What is kept beside each is in `.index`, made from the bundle when it is first seen, and again when the file
//! changed; it can be removed at any time.

use crate::{Facts, Incoming, Pushed, Store, in_order};
use holdup_files::{DraftFile, Folder, Owner, read_bounded};
use holdup_model::kept::{Kept, KeptFilter, KeptRun, KeptSeries, KeptValue};
use holdup_model::{MemoryBudget, Problem};
use rustix::fs::{FileType, FlockOperation, flock, fstat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The folder of what is kept beside the bundles.
const INDEX: &str = ".index";

/// A push or a prune holds it while it changes the folder.
const LOCK: &str = ".lock";

/// How names of bundles end.
const SUFFIX: &str = ".holdup";

/// The most entries of the folder.
const MOST_ENTRIES: usize = 2_000_000;

/// The largest entry of the index, and the largest bundle that is pulled, bytes.
const MOST_OF_INDEX: u64 = 64 << 20;
const MOST_OF_BUNDLE: u64 = 2 << 30;

/// How long another process may hold the lock, which everybody who can open it can, and when its wait is said.
const PATIENCE: Duration = Duration::from_secs(300);
const SAID_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct FolderStore {
    path: PathBuf,
    patience: Duration,
    says: fn(&str),
    /// Files of it that cannot be read, each with why.
    left_out: RefCell<BTreeMap<String, String>>,
}

/// An entry of the index.
#[derive(Serialize, Deserialize)]
struct Indexed {
    /// Size and time of the file that it was made from.
    bytes: i64,
    modified_ns: i64,
    kept: Kept,
}

/// A bundle of the folder.
struct Entry {
    name: String,
    kept: Kept,
}

impl FolderStore {
    pub(crate) fn new(path: &Path) -> Self {
        FolderStore { path: path.to_owned(), patience: PATIENCE, says: |_| {}, left_out: RefCell::default() }
    }

    fn problem(&self, e: &io::Error) -> Problem {
        let problem = Problem::host(format!("store {}", self.path.display()), e.to_string());
        match e.kind() {
            ErrorKind::NotFound => problem.hint("holdup store push makes the folder where the one above it exists"),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                problem.hint("make room, and push again: nothing of this run is kept")
            }
            ErrorKind::PermissionDenied => problem.hint("this user may not use the folder: ls -ld shows who may"),
            _ => problem,
        }
    }

    fn open(&self) -> Result<Folder, Problem> {
        Folder::open_to_fill(&self.path).map_err(|e| self.problem(&e))
    }

    /// Opens the folder; makes it where it is missing.
    fn open_or_make(&self) -> Result<Folder, Problem> {
        let make = || {
            let above = self.path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
            let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match Folder::open_to_fill(above)?.create_folder(name, 0o755) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Folder::open_to_fill(&self.path),
                made => made,
            }
        };
        match Folder::open_to_fill(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => make().map_err(|e| self.problem(&e)),
            opened => opened.map_err(|e| self.problem(&e)),
        }
    }

    /// The lock of the folder, held as long as the file is open.
    fn lock(&self, folder: &Folder) -> Result<File, Problem> {
        let file = match folder.create_file(LOCK, 0o666) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => folder.open_to_write(LOCK),
            made => made,
        };
        let file = file.map_err(|e| self.problem(&e))?;
        let (begun, mut is_said) = (Instant::now(), false);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(e) => return Err(self.problem(&e.into())),
            }
            let what = format!("store {}", self.path.display());
            let waited = begun.elapsed();
            if waited >= SAID_AFTER && !is_said {
                is_said = true;
                (self.says)(&format!("{what}: waiting for another process, which holds its lock"));
            }
            if waited >= self.patience {
                let why = format!("another process has held its lock for {} s", self.patience.as_secs());
                let hint = format!("fuser {} names it", self.path.join(LOCK).display());
                return Err(Problem::host(what, why).hint(hint));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All bundles, the index brought up to date. Of two files of one run that with more trials counts.
    fn entries(&self) -> Result<Vec<Entry>, Problem> {
        let folder = match Folder::open_to_fill(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.map_err(|e| self.problem(&e))?,
        };
        let index = match folder.folder(INDEX) {
            Err(_) => folder.create_folder(INDEX, 0o755).ok(),
            Ok(index) => Some(index),
        };
        let mut best: BTreeMap<String, Entry> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for file in folder.list(MOST_ENTRIES).map_err(|e| self.problem(&e))? {
            let Some(name) = file.name.to_str().filter(|n| n.ends_with(SUFFIX) && !n.starts_with('.')) else {
                continue;
            };
            if file.kind != FileType::RegularFile {
                let path = self.path.join(name);
                if DraftFile::is_at(&path) {
                    let why =
                        format!("its run has not ended, or was killed: holdup verify {} says which", path.display());
                    self.left_out.borrow_mut().insert(name.to_owned(), why);
                }
                continue;
            }
            names.insert(format!("{name}.json"));
            let kept = match self.kept(&folder, index.as_ref(), name) {
                Ok(Some(kept)) => kept,
                Ok(None) => continue,
                Err(problem) => {
                    // One file that is damaged does not take the others away.
                    let hint = problem.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                    self.left_out.borrow_mut().insert(name.to_owned(), problem.why + &hint);
                    continue;
                }
            };
            let entry = Entry { name: name.to_owned(), kept };
            let all = |e: &Entry| e.kept.run.trials_done + e.kept.run.trials_void;
            match best.get(&entry.kept.run.run_id) {
                Some(known) if all(known) >= all(&entry) => {}
                _ => drop(best.insert(entry.kept.run.run_id.clone(), entry)),
            }
        }
        if let Some(index) = &index {
            let listed = index.list(MOST_ENTRIES).unwrap_or_default();
            let gone = listed.iter().filter_map(|e| e.name.to_str()).filter(|name| !names.contains(*name));
            // An entry that stays is of no harm.
            for name in gone {
                let _stays = index.remove(name);
            }
        }
        let mut all: Vec<Entry> = best.into_values().collect();
        in_order(&mut all, |e| &e.kept.run, None);
        Ok(all)
    }

    /// What is kept of a bundle: from the index, else from the bundle. `None` where it was removed meanwhile.
    fn kept(&self, folder: &Folder, index: Option<&Folder>, name: &str) -> Result<Option<Kept>, Problem> {
        let Ok(stat) = folder.stat(name) else { return Ok(None) };
        let modified_ns = stat.st_mtime.wrapping_mul(1_000_000_000).wrapping_add(stat.st_mtime_nsec as i64);
        let entry = format!("{name}.json");
        let known = index.and_then(|index| believed(index, &entry, stat.st_uid).ok());
        if let Some(known) = known.filter(|k| k.bytes == stat.st_size && k.modified_ns == modified_ns) {
            return Ok(Some(known.kept));
        }
        let kept = holdup_history::keep(&holdup_bundle::read_numbers(&self.path.join(name), &MemoryBudget::default())?);
        let indexed = Indexed { bytes: stat.st_size, modified_ns, kept };
        if let (Some(index), Ok(json)) = (index, serde_json::to_vec(&indexed)) {
            // Where this user may not write, the bundle is read again each time.
            let _readonly = index.replace_synced(&entry, &json, 0o644);
        }
        Ok(Some(indexed.kept))
    }
}

/// An entry of the index that only a user who may write the bundle can have made: `.index` may be a stranger's.
fn believed(index: &Folder, entry: &str, bundle_uid: u32) -> io::Result<Indexed> {
    let file = index.open_file(entry)?;
    let owner = Owner::of(&fstat(&file)?);
    let us = rustix::process::geteuid().as_raw();
    if owner.others_may_write() || ![us, 0, bundle_uid].contains(&owner.uid) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    Ok(serde_json::from_slice(&read_bounded(file, MOST_OF_INDEX)?)?)
}

impl Store for FolderStore {
    fn say_with(&mut self, says: fn(&str)) {
        self.says = says;
    }

    fn left_out(&self) -> Vec<String> {
        self.left_out.borrow().iter().map(|(name, why)| format!("{name} is left out: {why}")).collect()
    }

    fn init(&mut self) -> Result<Vec<String>, Problem> {
        let folder = self.open_or_make()?;
        self.lock(&folder)?;
        let bundles = self.entries()?.len();
        let bundles = holdup_model::text::count(bundles, "run");
        Ok(vec![format!("The store {} is ready and has {bundles}.", self.path.display())])
    }

    fn push(&mut self, bundle: &Incoming) -> Result<Pushed, Problem> {
        let folder = self.open_or_make()?;
        let _held = self.lock(&folder)?;
        folder.sweep(|left| left.ends_with(SUFFIX));
        let run = &bundle.kept.run;
        let name = format!("{}{SUFFIX}", run.run_id);
        let known = match folder.stat(&name) {
            Ok(_) => self.kept(&folder, folder.folder(INDEX).ok().as_ref(), &name)?.map(|kept| kept.run),
            // It may have another name there.
            Err(_) => self.entries()?.into_iter().map(|e| e.kept.run).find(|r| r.run_id == run.run_id),
        };
        let pushed = match &known {
            Some(known) if !crate::incoming::is_newer(run, known) => return Ok(Pushed::There),
            Some(_) => Pushed::Replaced,
            None => Pushed::New,
        };
        folder.replace_synced(&name, &bundle.bytes, 0o644).map_err(|e| self.problem(&e))?;
        self.note_host(&folder, &name, bundle)?;
        Ok(pushed)
    }

    fn pull(&mut self, run_id: &str) -> Result<Vec<u8>, Problem> {
        let entry = self.entries()?.into_iter().find(|e| e.kept.run.run_id == run_id);
        let entry = entry.ok_or_else(|| Problem::usage(format!("run {run_id}"), "the store has no such run"))?;
        self.open()?.read(&entry.name, MOST_OF_BUNDLE).map_err(|e| self.problem(&e))
    }

    fn list(&mut self, filter: &KeptFilter) -> Result<Vec<KeptRun>, Problem> {
        let mut runs: Vec<KeptRun> =
            self.entries()?.into_iter().map(|e| e.kept.run).filter(|run| filter.matches(run)).collect();
        in_order(&mut runs, |run| run, filter.last);
        Ok(runs)
    }

    fn series(&mut self, filter: &KeptFilter, metric: Option<&str>) -> Result<KeptSeries, Problem> {
        let mut all: Vec<Kept> =
            self.entries()?.into_iter().map(|e| e.kept).filter(|kept| filter.matches(&kept.run)).collect();
        in_order(&mut all, |kept| &kept.run, filter.last);
        let mut series = KeptSeries::default();
        for (run, kept) in all.into_iter().enumerate() {
            series.runs.push(kept.run);
            for arm in kept.arms.into_iter().filter(|arm| arm.replica.is_none()) {
                let asked = arm.metrics.into_iter().filter(|m| metric.map_or(m.is_primary, |id| m.metric.id == id));
                series.values.extend(asked.map(|value| KeptValue {
                    run,
                    arm: arm.label.clone(),
                    workload: arm.workload.clone(),
                    design: arm.design.clone(),
                    value,
                }));
            }
        }
        Ok(series)
    }

    fn facts(&mut self, run_ids: &[String]) -> Result<Facts, Problem> {
        let wanted: BTreeSet<&String> = run_ids.iter().collect();
        let all = self.entries()?.into_iter().filter(|e| wanted.contains(&e.kept.run.run_id));
        Ok(all.map(|e| (e.kept.run.run_id, e.kept.facts)).collect())
    }

    fn prune(&mut self, before_unix_ns: i64, dry_run: bool) -> Result<Vec<KeptRun>, Problem> {
        let folder = self.open()?;
        let _held = self.lock(&folder)?;
        let old = self.entries()?.into_iter().filter(|e| e.kept.run.created_unix_ns < before_unix_ns);
        let mut gone = Vec::new();
        for entry in old {
            if !dry_run {
                folder.remove(&entry.name).map_err(|e| self.problem(&e))?;
            }
            gone.push(entry.kept.run);
        }
        folder.sync().map_err(|e| self.problem(&e))?;
        Ok(gone)
    }
}

impl FolderStore {
    /// Writes the entry of the index, which has a host that the bundle may not have.
    fn note_host(&self, folder: &Folder, name: &str, bundle: &Incoming) -> Result<(), Problem> {
        let index = match folder.create_folder(INDEX, 0o755) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => folder.folder(INDEX),
            made => made,
        };
        let write = || -> io::Result<()> {
            let stat = folder.stat(name)?;
            let modified_ns = stat.st_mtime.wrapping_mul(1_000_000_000).wrapping_add(stat.st_mtime_nsec as i64);
            let indexed = Indexed { bytes: stat.st_size, modified_ns, kept: bundle.kept.clone() };
            index?.replace_synced(&format!("{name}.json"), &serde_json::to_vec(&indexed)?, 0o644)
        };
        let Kept { run, facts, .. } = &bundle.kept;
        let own = facts.get("host.name").or_else(|| facts.get("simulated.machine"));
        match write() {
            // Nothing is lost: the bundle says it, and is read again each time.
            Err(e) if e.kind() == ErrorKind::PermissionDenied && own == run.host.as_ref() => Ok(()),
            written => written.map_err(|e| self.problem(&e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn a_lock_that_another_process_holds_is_waited_for_with_a_word_and_not_for_ever() {
        let top = tempfile::tempdir().unwrap();
        let mut store = FolderStore::new(&top.path().join("store"));
        store.init().unwrap();
        let held = File::open(top.path().join("store").join(LOCK)).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        store.patience = SAID_AFTER + Duration::from_millis(100);
        store.say_with(|text| SAID.lock().unwrap().push(text.to_owned()));
        let refused = store.init().unwrap_err().to_string();
        assert!(refused.contains("another process has held its lock for 1 s\nhint: fuser "), "{refused}");
        let said = SAID.lock().unwrap().clone();
        assert!(said.len() == 1 && said[0].ends_with("waiting for another process, which holds its lock"), "{said:?}");
        drop(held);
        store.init().unwrap();
    }
}
