//! The folder of a run: what nodes read, and where their parts come to be.

use crate::job::Job;
use crate::script::{STAGED, script, staged_script};
use holdup_files::{Folder, private_folder};
use holdup_model::Problem;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folder of a run. Only its user can enter it.
#[derive(Debug)]
pub struct RunFolder {
    folder: Folder,
    path: PathBuf,
    /// What the names of parts end with.
    ending: &'static str,
}

const JOB: &str = "job.json";
const SCRIPT: &str = "job.sh";
const PROGRAM: &str = "holdup";
const MACHINE: &str = "machine.toml";
const PARTIAL: &str = "partial.txt";
const LOCK: &str = "lock";
const PARTS: &str = "parts";
/// The folder of what parts wrote for people.
pub(crate) const LOGS: &str = "log";

/// What is kept of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Part,
    Problem,
    Log,
}

/// The most bytes of a description: a plan with all that it includes.
const MOST_BYTES: u64 = 64 << 20;
/// The most bytes of a problem, or of a log that is shown.
const MOST_BYTES_OF_TEXT: u64 = 1 << 20;
/// The most files in the folder of parts.
const MOST_FILES: usize = 100_000;

impl RunFolder {
    /// Makes the folder of a run: its description, the script, a copy of this program, the machine file if it has one.
    ///
    /// # Errors
    /// When there is a run in it already, or it cannot be written.
    pub fn create(path: &Path, job: &Job, program: &Path, machine: Option<&str>) -> Result<Self, Problem> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let wrong = |e: io::Error| Problem::host(format!("folder {}", path.display()), e.to_string());
        let folder = private_folder(&path).map_err(wrong)?;
        if folder.stat(JOB).is_ok() {
            return Err(Problem::usage(format!("folder {}", path.display()), "it holds a run already").hint(format!(
                "continue that with `holdup run --continue {}`, or name another folder with --state",
                path.display()
            )));
        }
        let json = serde_json::to_vec(job).map_err(|e| Problem::internal("the description of a run", e.to_string()))?;
        let made = || -> io::Result<()> {
            for name in [PARTS, LOGS] {
                match folder.create_folder(name, 0o700) {
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                }
            }
            // A copy: what replaces the program meanwhile must not change the rest of the run.
            let mut from = holdup_files::open_input(program)?;
            folder.remove(PROGRAM)?;
            let mut to = folder.create_file(PROGRAM, 0o700)?;
            io::copy(&mut from, &mut to)?;
            to.sync_all()?;
            let script = match &job.stage {
                Some(stage) => staged_script(stage),
                None => script(&path, &job.working_folder),
            };
            folder.replace_synced(SCRIPT, script.as_bytes(), 0o700)?;
            if let Some(text) = machine {
                folder.replace_synced(MACHINE, text.as_bytes(), 0o600)?;
            }
            if job.stage.is_some() {
                folder.replace_synced(STAGED, b"", 0o600)?;
            }
            // Last: with it the folder is a run's.
            folder.replace_synced(JOB, &json, 0o600)
        };
        made().map_err(wrong)?;
        Ok(RunFolder { folder, path, ending: job.ending() })
    }

    /// Opens the folder of a run.
    ///
    /// # Errors
    /// When it holds none, or belongs to another user.
    pub fn open(path: &Path) -> Result<(Self, Job), Problem> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let what = || format!("folder {}", path.display());
        let hint = "give the folder that `holdup run --on slurm` named";
        let folder = Folder::open_own(&path).map_err(|e| Problem::usage(what(), e.to_string()).hint(hint))?;
        let json = folder
            .read_own(JOB, MOST_BYTES)
            .map_err(|e| Problem::usage(what(), format!("it holds no run ({e})")).hint(hint))?;
        let job: Job = serde_json::from_slice(&json)
            .map_err(|e| Problem::host(what(), format!("its job.json is damaged or of another version ({e})")))?;
        if job.holdup_version != env!("CARGO_PKG_VERSION") {
            let why = format!("it was begun by holdup {}, this is {}", job.holdup_version, env!("CARGO_PKG_VERSION"));
            return Err(Problem::host(what(), why)
                .hint(format!("continue it with the program that began it: {}", path.join(PROGRAM).display())));
        }
        Ok((RunFolder { folder, path, ending: job.ending() }, job))
    }

    /// Holds the run, as long as the file is open: two that follow one run would submit its parts twice.
    ///
    /// # Errors
    /// When another process holds it.
    pub fn hold(&self) -> Result<File, Problem> {
        let what = || format!("folder {}", self.path.display());
        let file = self.folder.open_or_create(LOCK, 0o600).map_err(|e| Problem::host(what(), e.to_string()))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Problem::host(what(), "another holdup follows this run").hint("wait for it, or end it and continue then")
        })?;
        Ok(file)
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The script of its jobs.
    pub fn script(&self) -> PathBuf {
        self.path.join(SCRIPT)
    }

    /// The machine file, if the run brought one.
    pub fn machine(&self) -> Option<PathBuf> {
        self.folder.stat(MACHINE).is_ok().then(|| self.path.join(MACHINE))
    }

    /// The names of all that a node needs.
    pub(crate) fn needed(&self) -> Vec<&'static str> {
        [JOB, MACHINE, PROGRAM].into_iter().filter(|name| self.folder.stat(name).is_ok()).collect()
    }

    /// The folder and the name of what is kept of a part.
    pub(crate) fn name(&self, kept: Kept, number: u32) -> (&'static str, String) {
        match kept {
            Kept::Part => (PARTS, self.part_name(number)),
            Kept::Problem => (PARTS, problem_name(number)),
            Kept::Log => (LOGS, log_name(number)),
        }
    }

    /// Receives what is kept of a part from a task: under another name until it is whole. Whether there was something.
    pub(crate) fn receive(
        &self,
        kept: Kept,
        number: u32,
        task: u32,
        get: impl FnOnce(File) -> Result<bool, Problem>,
    ) -> Result<bool, Problem> {
        let wrong = |e: io::Error| Problem::host(format!("part {number}"), format!("it cannot be kept ({e})"));
        let (below, name) = self.name(kept, number);
        let folder = self.folder.folder(below).map_err(wrong)?;
        let partial = format!(".{task}");
        folder.remove(&partial).map_err(wrong)?;
        let file = folder.create_file(&partial, 0o600).map_err(wrong)?;
        let got = file.try_clone().map_err(wrong).and_then(get);
        let kept = match got {
            Ok(true) => file.sync_all().and_then(|()| folder.rename(&partial, &name)).and_then(|()| folder.sync()),
            _ => folder.remove(&partial),
        };
        kept.map_err(wrong)?;
        got
    }

    /// What a part made.
    pub fn part(&self, number: u32) -> PathBuf {
        self.path.join(PARTS).join(self.part_name(number))
    }

    fn part_name(&self, number: u32) -> String {
        format!("part-{number:04}.{}", self.ending)
    }

    /// The bundle of a part while it is being written, by an attempt of this name.
    pub fn partial(&self, number: u32, attempt: &str) -> PathBuf {
        self.path.join(PARTS).join(format!("{}{attempt}.partial", partial_begin(number)))
    }

    /// What attempts at a part left that did not end.
    pub fn partials(&self, number: u32) -> Vec<PathBuf> {
        let begin = partial_begin(number);
        let names = self.names_of_parts().into_iter();
        let found = names.filter(|name| name.starts_with(&begin) && name.ends_with(".partial"));
        found.map(|name| self.path.join(PARTS).join(name)).collect()
    }

    /// The numbers of the parts that are there.
    pub fn whole(&self) -> Vec<u32> {
        let number =
            |name: String| name.strip_prefix("part-")?.strip_suffix(self.ending)?.strip_suffix('.')?.parse().ok();
        self.names_of_parts().into_iter().filter_map(number).collect()
    }

    fn names_of_parts(&self) -> Vec<String> {
        let entries = self.folder.folder(PARTS).and_then(|folder| folder.list(MOST_FILES)).unwrap_or_default();
        entries.into_iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
    }

    /// Puts a part that was written as `partial` in its place: from now on it is whole.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn keep(&self, number: u32, partial: &Path) -> Result<(), Problem> {
        let name = partial.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = self.folder.folder(PARTS).and_then(|folder| {
            folder.rename(&name, &self.part_name(number))?;
            folder.sync()
        });
        kept.map_err(|e| Problem::host(format!("part {number}"), format!("cannot be put in its place ({e})")))
    }

    /// Puts a damaged part aside.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn put_aside(&self, number: u32) -> Result<(), Problem> {
        let name = self.part_name(number);
        let put = self.folder.folder(PARTS).and_then(|folder| folder.rename(&name, &format!("{name}.damaged")));
        put.map_err(|e| Problem::host(format!("part {number}"), format!("it is damaged and cannot be put aside ({e})")))
    }

    /// Notes why a part could not be run.
    pub fn write_problem(&self, number: u32, problem: &Problem) {
        let json = serde_json::to_vec(problem).unwrap_or_default();
        // Without it the part is one that was lost.
        let _lost = self.folder.folder(PARTS).and_then(|f| f.replace_synced(&problem_name(number), &json, 0o600));
    }

    /// Why a part could not be run, if that was noted.
    pub fn problem(&self, number: u32) -> Option<Problem> {
        let bytes = self.folder.folder(PARTS).ok()?.read_own(problem_name(number), MOST_BYTES_OF_TEXT).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Forgets why parts could not be run: they are tried again.
    pub fn forget_problem(&self, number: u32) {
        let _there = self.folder.folder(PARTS).and_then(|folder| folder.remove(problem_name(number)));
    }

    /// Notes that the bundle is of this run with parts missing, so that a whole one may take its place.
    ///
    /// # Errors
    /// When it cannot be noted.
    pub fn note_partial(&self, bundle: &Path) -> io::Result<()> {
        self.folder.replace_synced(PARTIAL, identity(bundle)?.as_bytes(), 0o600)
    }

    /// True if a bundle is the one that was noted, untouched since.
    pub fn is_partial(&self, bundle: &Path) -> bool {
        let noted = self.folder.read_own(PARTIAL, MOST_BYTES_OF_TEXT).ok();
        noted.is_some_and(|noted| identity(bundle).is_ok_and(|identity| identity.into_bytes() == noted))
    }

    /// Removes the folder with all that is in it.
    ///
    /// # Errors
    /// When something is left.
    pub fn remove(self) -> io::Result<()> {
        let (Some(above), Some(name)) = (self.path.parent(), self.path.file_name()) else { return Ok(()) };
        Folder::open(above)?.remove_tree(name)
    }
}

/// What differs when a file is replaced or written to.
fn identity(path: &Path) -> io::Result<String> {
    let found = path.symlink_metadata()?;
    Ok(format!("{}:{} {} {}.{:09}", found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// The name of what a part wrote for people.
fn log_name(number: u32) -> String {
    format!("part-{number}.txt")
}

fn partial_begin(number: u32) -> String {
    format!("part-{number:04}.")
}

fn problem_name(number: u32) -> String {
    format!("part-{number:04}.problem")
}
