//! A folder of bundles. What is kept beside each is in `.index`, made from the bundle when it is first seen, and again when the file
//! changed; it can be removed at any time.

use crate::{Facts, Incoming, Pushed, Store, in_order};
use holdup_files::Folder;
use holdup_model::Problem;
use holdup_model::kept::{Kept, KeptFilter, KeptRun, KeptSeries, KeptValue};
use rustix::fs::{FileType, FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

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

pub(crate) struct FolderStore {
    path: PathBuf,
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
        FolderStore { path: path.to_owned(), left_out: RefCell::default() }
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
        Folder::open(&self.path).map_err(|e| self.problem(&e))
    }

    /// Opens the folder; makes it where it is missing.
    fn open_or_make(&self) -> Result<Folder, Problem> {
        let make = || {
            let above = self.path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
            let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match Folder::open(above)?.create_folder(name, 0o755) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Folder::open(&self.path),
                made => made,
            }
        };
        match Folder::open(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => make().map_err(|e| self.problem(&e)),
            opened => opened.map_err(|e| self.problem(&e)),
        }
    }

    /// The lock of the folder, held as long as the file is open.
    fn lock(&self, folder: &Folder) -> Result<File, Problem> {
        let lock = || -> io::Result<File> {
            let file = match folder.create_file(LOCK, 0o666) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => folder.open_to_write(LOCK)?,
                made => made?,
            };
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        lock().map_err(|e| self.problem(&e))
    }

    /// All bundles, the index brought up to date. Of two files of one run that with more trials counts.
    fn entries(&self) -> Result<Vec<Entry>, Problem> {
        let folder = match Folder::open(&self.path) {
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
                continue;
            }
            names.insert(format!("{name}.json"));
            let kept = match self.kept(&folder, index.as_ref(), name) {
                Ok(Some(kept)) => kept,
                Ok(None) => continue,
                Err(problem) => {
                    // One file that is damaged does not take the others away.
                    self.left_out.borrow_mut().insert(name.to_owned(), problem.why);
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
        let known = index.and_then(|index| index.read(&entry, MOST_OF_INDEX).ok());
        let known: Option<Indexed> = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(known) = known.filter(|k| k.bytes == stat.st_size && k.modified_ns == modified_ns) {
            return Ok(Some(known.kept));
        }
        let kept = holdup_history::keep(&holdup_bundle::read(&self.path.join(name))?);
        let indexed = Indexed { bytes: stat.st_size, modified_ns, kept };
        if let (Some(index), Ok(json)) = (index, serde_json::to_vec(&indexed)) {
            // Where this user may not write, the bundle is read again each time.
            let _readonly = index.replace_synced(&entry, &json, 0o644);
        }
        Ok(Some(indexed.kept))
    }
}

impl Store for FolderStore {
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
        write().map_err(|e| self.problem(&e))
    }
}
