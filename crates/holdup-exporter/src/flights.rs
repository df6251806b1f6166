//! The flight recorder: the minutes before a trigger and the seconds after it become a bundle.

use crate::syslog;
use holdup_files::Folder;
use holdup_live::{Memory, Trigger};
use holdup_model::explanation::ArmExplanation;
use holdup_model::{BundleData, Trial, text};
use rustix::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// How bundles of flights begin; only such files are removed when room is needed.
const PREFIX: &str = "flight-";
const SUFFIX: &str = ".holdup";
/// A folder with more files is not one of flights alone.
const MOST_FILES: usize = 100_000;

/// What a flight recorder does.
#[derive(Debug, Clone)]
pub struct FlightOptions {
    /// The folder of its bundles.
    pub folder: PathBuf,
    /// What asks for a flight.
    pub triggers: Vec<Trigger>,
    /// How much of the time before the trigger is in it, ns at most; memory may reach less far back.
    pub before_ns: u64,
    /// How much of the time after it, ns.
    pub after_ns: u64,
    /// The least time between two flights, ns.
    pub every_ns: u64,
    /// What all bundles in the folder have at most, bytes; the oldest ones go.
    pub keep_bytes: u64,
}

/// How flights went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) written: u64,
    pub(crate) failed: u64,
    /// Not begun, because one was under way or ended just before.
    pub(crate) limited: u64,
}

/// What became of one bundle: its file, or why there is none.
type Written = Result<PathBuf, String>;

struct Pending {
    reason: String,
    asked_unix_ns: i64,
}

/// The flight recorder of one target.
pub struct Flights {
    options: FlightOptions,
    /// Part of the names of its bundles; empty where there is one target.
    name: String,
    pending: Option<Pending>,
    last_unix_ns: Option<i64>,
    tally: Tally,
    writing: Option<JoinHandle<()>>,
    written: (Sender<Written>, Receiver<Written>),
}

impl Flights {
    /// A recorder that has not been asked yet. `name` is put into the names of bundles.
    pub fn new(options: FlightOptions, name: impl Into<String>) -> Self {
        Flights {
            options,
            name: name.into(),
            pending: None,
            last_unix_ns: None,
            tally: Tally::default(),
            writing: None,
            written: mpsc::channel(),
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Asks for a flight. Lines that are worth saying come back, here as below.
    pub(crate) fn ask(&mut self, memory: &mut Memory, unix_ns: i64, reason: &str) -> Vec<String> {
        let is_soon = self.last_unix_ns.is_some_and(|last| elapsed_ns(last, unix_ns) < self.options.every_ns);
        if self.pending.is_some() || is_soon {
            self.tally.limited += 1;
            return Vec::new();
        }
        let line = format!("flight recorder: {reason}, {}", text::moment(unix_ns));
        memory.log(unix_ns, line.clone());
        self.pending = Some(Pending { reason: line, asked_unix_ns: unix_ns });
        Vec::new()
    }

    /// Looks at a window that has just been kept.
    pub(crate) fn window(
        &mut self,
        memory: &mut Memory,
        trial: &Trial,
        alone: Option<&ArmExplanation>,
        cpus: u32,
    ) -> Vec<String> {
        let end_unix_ns = trial.window.map_or(trial.ended_unix_ns, |w| w.end_unix_ns);
        let mut triggers = std::mem::take(&mut self.options.triggers);
        let mut lines = Vec::new();
        for trigger in &mut triggers {
            if let Some(value) = trigger.look(trial, alone, cpus) {
                lines.extend(self.ask(memory, end_unix_ns, &format!("{trigger} ({})", shown(value))));
            }
        }
        self.options.triggers = triggers;
        let is_over =
            self.pending.as_ref().is_some_and(|p| elapsed_ns(p.asked_unix_ns, end_unix_ns) >= self.options.after_ns);
        if is_over {
            self.write(memory);
        }
        lines.extend(self.news());
        lines
    }

    /// What it is asked for is written without what would come after, and the end of writing is waited for.
    pub(crate) fn end(&mut self, memory: &mut Memory) -> Vec<String> {
        if self.pending.is_some() {
            self.write(memory);
        }
        if let Some(writing) = self.writing.take() {
            // A panic of the thread shows as a flight that never came.
            let _ended = writing.join();
        }
        self.news()
    }

    /// Writes the windows around the trigger in another thread: watching does not wait for a disk.
    fn write(&mut self, memory: &Memory) {
        let Some(pending) = self.pending.take() else { return };
        self.last_unix_ns = Some(pending.asked_unix_ns);
        let from = pending.asked_unix_ns.saturating_sub_unsigned(self.options.before_ns);
        let of = |trial: &&Arc<Trial>| trial.window.is_none_or(|window| window.end_unix_ns > from);
        let Some(mut bundle) = memory.bundle_of(memory.windows().filter(of)) else { return };
        // The last line of a record says why it ended: here it is what asked for it.
        bundle.log.retain(|(_, line)| *line != pending.reason);
        bundle.log.push((pending.asked_unix_ns, pending.reason.clone()));
        if let Some(before) = self.writing.take() {
            let _ended = before.join();
        }
        let (folder, name, keep) = (self.options.folder.clone(), self.name.clone(), self.options.keep_bytes);
        let sender = self.written.0.clone();
        let spawned = std::thread::Builder::new().name("holdup-flight".to_owned()).spawn(move || {
            let _gone = sender.send(keep_bundle(&bundle, &folder, &name, pending.asked_unix_ns, keep));
        });
        match spawned {
            Ok(thread) => self.writing = Some(thread),
            Err(e) => {
                let _own = self.written.0.send(Err(format!("flight recorder: no thread: {e}")));
            }
        }
    }

    /// What became of bundles since it was asked last.
    fn news(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(result) = self.written.1.try_recv() {
            let line = match result {
                Ok(path) => {
                    self.tally.written += 1;
                    format!("flight recorder: wrote {}", path.display())
                }
                Err(why) => {
                    self.tally.failed += 1;
                    why
                }
            };
            syslog::warn(&line);
            lines.push(line);
        }
        lines
    }
}

fn elapsed_ns(from_unix_ns: i64, to_unix_ns: i64) -> u64 {
    // A clock that was set back counts as no time: a flight is then late, and never too often.
    u64::try_from(to_unix_ns.saturating_sub(from_unix_ns)).unwrap_or(0)
}

fn shown(value: f64) -> String {
    let digits = if value.abs() >= 100.0 { 0 } else { 3 };
    format!("{value:.digits$}")
}

/// `flight-20261127T193000Z-NAME.holdup`.
fn file_name(unix_ns: i64, name: &str) -> String {
    let digits: Vec<char> = text::moment(unix_ns).chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(digits.len().min(8));
    let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let of = if safe.is_empty() { String::new() } else { format!("-{safe}") };
    format!("{PREFIX}{}T{}Z{of}{SUFFIX}", String::from_iter(day), String::from_iter(time))
}

/// Writes a bundle into the folder, and lets the oldest ones go that have no room beside it.
fn keep_bundle(bundle: &BundleData, folder: &Path, name: &str, unix_ns: i64, keep: u64) -> Result<PathBuf, String> {
    let path = folder.join(file_name(unix_ns, name));
    let failed = |why: &str| format!("flight recorder: {}: {why}", path.display());
    Folder::open_own(folder).map_err(|e| failed(&e.to_string()))?;
    holdup_watch::write_private(bundle, &path).map_err(|problem| failed(&problem.why))?;
    make_room(folder, &path, keep).map_err(|e| failed(&format!("older ones could not be removed: {e}")))?;
    Ok(path)
}

/// Removes the oldest flights until those that are left have at most `keep` bytes; never `newest`.
fn make_room(folder: &Path, newest: &Path, keep: u64) -> io::Result<()> {
    let folder = Folder::open_own(folder)?;
    let mut flights = Vec::new();
    for entry in folder.list(MOST_FILES)? {
        let Some(name) = entry.name.to_str() else { continue };
        if entry.kind == FileType::RegularFile && name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            flights.push((name.to_owned(), u64::try_from(folder.stat(name)?.st_size).unwrap_or(0)));
        }
    }
    // Their names have the time.
    flights.sort();
    let mut bytes: u64 = flights.iter().map(|(_, bytes)| bytes).sum();
    let newest = newest.file_name().and_then(|name| name.to_str());
    for (name, size) in flights.into_iter().filter(|(name, _)| Some(name.as_str()) != newest) {
        if bytes <= keep {
            break;
        }
        folder.remove(&name)?;
        bytes -= size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_of_bundles_have_the_time_and_nothing_that_a_shell_reads() {
        assert_eq!(file_name(0, ""), "flight-19700101T000000Z.holdup");
        assert_eq!(
            file_name(1_795_813_200_000_000_000, "db1:5432 $x/.."),
            "flight-20261127T210000Z-db1-5432--x---.holdup"
        );
    }

    #[test]
    fn the_oldest_flights_go_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        for name in ["flight-1.holdup", "flight-2.holdup", "flight-3.holdup", "a.holdup", "flight-0.txt"] {
            fs::write(file(name), [0; 100]).expect("written");
        }
        let there = |name: &str| file(name).exists();
        make_room(folder.path(), &file("flight-3.holdup"), 250).expect("room");
        assert_eq!(["flight-1.holdup", "flight-2.holdup", "flight-3.holdup"].map(there), [false, true, true]);
        make_room(folder.path(), &file("flight-3.holdup"), 0).expect("room");
        assert_eq!(
            ["flight-2.holdup", "flight-3.holdup", "a.holdup", "flight-0.txt"].map(there),
            [false, true, true, true]
        );
    }
}
