//! The log of a search: appended to, synced after each line, read back as a whole.

use holdup_files::{Folder, MOST_BYTES_OF_TEXT, check_ancestors, read_text_input};
use holdup_model::Problem;
use holdup_model::search::{self, Candidate};
use holdup_model::tuning;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "search.log";

/// The lines of one kind of search.
pub trait Line: Serialize + DeserializeOwned + Clone {
    /// What the first line holds.
    type Begin: Clone + Serialize;
    /// The version of the format that this holdup writes and reads.
    const FORMAT: u32;
    /// The command that makes such logs.
    const COMMAND: &'static str;
    /// The first line.
    fn first(begin: Self::Begin) -> Self;
    /// What the line holds, if it is a first one, and the version of its format.
    fn begin(&self) -> Option<(&Self::Begin, u32)>;
    /// What is measured at a time, in a word.
    const MEASURED: &'static str;
    /// The line that names the host.
    fn of_host(host: String) -> Self;
    /// The host that the line names.
    fn host(&self) -> Option<&str>;
    /// True if the line holds a measurement.
    fn is_measurement(&self) -> bool;
    /// The answer and its exit code, if the line holds them.
    fn answer(&self) -> Option<(&str, u8)>;
    /// The command line that a search was begun with, and the folder that it was given in.
    fn command(begin: &Self::Begin) -> (&[String], &str);
}

impl Line for search::Entry {
    type Begin = search::Begin;
    const FORMAT: u32 = search::FORMAT;
    const COMMAND: &'static str = "bisect";
    fn first(begin: search::Begin) -> Self {
        search::Entry::Begin(begin)
    }
    fn begin(&self) -> Option<(&search::Begin, u32)> {
        match self {
            search::Entry::Begin(begin) => Some((begin, begin.format)),
            _ => None,
        }
    }
    const MEASURED: &'static str = "trial";
    fn of_host(host: String) -> Self {
        search::Entry::Host { host }
    }
    fn host(&self) -> Option<&str> {
        match self {
            search::Entry::Host { host } => Some(host),
            _ => None,
        }
    }
    fn is_measurement(&self) -> bool {
        matches!(self, search::Entry::Trial { .. })
    }
    fn answer(&self) -> Option<(&str, u8)> {
        match self {
            search::Entry::Answer { sentence, code } => Some((sentence, *code)),
            _ => None,
        }
    }
    fn command(begin: &search::Begin) -> (&[String], &str) {
        (&begin.command, &begin.folder)
    }
}

impl Line for tuning::Entry {
    type Begin = tuning::Begin;
    const FORMAT: u32 = tuning::FORMAT;
    const COMMAND: &'static str = "tune";
    fn first(begin: tuning::Begin) -> Self {
        tuning::Entry::Begin(begin)
    }
    fn begin(&self) -> Option<(&tuning::Begin, u32)> {
        match self {
            tuning::Entry::Begin(begin) => Some((begin, begin.format)),
            _ => None,
        }
    }
    const MEASURED: &'static str = "block";
    fn of_host(host: String) -> Self {
        tuning::Entry::Host { host }
    }
    fn host(&self) -> Option<&str> {
        match self {
            tuning::Entry::Host { host } => Some(host),
            _ => None,
        }
    }
    fn is_measurement(&self) -> bool {
        matches!(self, tuning::Entry::Block { .. })
    }
    fn answer(&self) -> Option<(&str, u8)> {
        match self {
            tuning::Entry::Answer { sentence, code } => Some((sentence, *code)),
            _ => None,
        }
    }
    fn command(begin: &tuning::Begin) -> (&[String], &str) {
        (&begin.command, &begin.folder)
    }
}

/// An open log, locked against a second search.
#[derive(Debug)]
pub struct Log<L: Line = search::Entry> {
    folder: PathBuf,
    file: File,
    begin: L::Begin,
    entries: Vec<L>,
}

impl Log {
    /// Searches among other candidates than those it began with; their names find the trials that are there already.
    pub fn search_among(&mut self, candidates: Vec<Candidate>) {
        self.begin.candidates = candidates;
    }
}

impl<L: Line> Log<L> {
    /// Makes the folder of a search, and its log with the first line.
    ///
    /// # Errors
    /// When the folder exists or cannot be written.
    pub fn create(folder: &Path, begin: L::Begin) -> Result<Self, Problem> {
        let failed = |e: std::io::Error| Problem::usage(format!("search {}", folder.display()), e.to_string());
        let (above, name) = (folder.parent().unwrap_or(Path::new("")), folder.file_name().unwrap_or_default());
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let made = Folder::open_to_fill(above)
            .and_then(Folder::with_real_path)
            .and_then(|above| {
                // Log::open refuses what another user can replace.
                check_ancestors(above.path())?;
                above.create_folder(&name.to_string_lossy(), 0o755)?.create_file(NAME, 0o644)
            })
            .map_err(|e| {
                failed(e).hint(
                    "--state DIR names a folder that does not exist, for root in one that no other user can change; \
                     --continue DIR continues one",
                )
            })?;
        let mut log = Log { folder: folder.to_owned(), file: made, begin: begin.clone(), entries: Vec::new() };
        log.lock()?;
        log.write(&L::first(begin))?;
        Ok(log)
    }

    /// Opens the log of a search that continues. A last line that was cut (the power failed) is taken off.
    ///
    /// # Errors
    /// When there is none, it is damaged or of another version, another user could have written it, or another process
    /// has it.
    pub fn open(folder: &Path) -> Result<Self, Problem> {
        let what = || format!("search {}", folder.display());
        let failed = |e: std::io::Error| Problem::host(what(), e.to_string());
        // The first line is a command line that is carried out.
        let opened = Folder::open_own(folder).and_then(|own| {
            let bytes = own.read_own(NAME, MOST_BYTES_OF_TEXT)?;
            Ok((own, bytes))
        });
        let (own, bytes) = opened.map_err(|e| match e.kind() {
            ErrorKind::NotFound => Problem::usage(what(), e.to_string()).hint(hint::<L>()),
            _ => distrusted::<L>(folder, &e),
        })?;
        let text = String::from_utf8(bytes).map_err(|e| Problem::usage(what(), e.to_string()))?;
        let (begin, entries, whole) = parse(folder, &text)?;
        let mut log = Log { folder: folder.to_owned(), file: own.open_to_write(NAME).map_err(failed)?, begin, entries };
        log.lock()?;
        log.file.set_len(whole).and_then(|()| log.file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(log)
    }

    /// Reads what a log says, anybody's, without going on with its search.
    ///
    /// # Errors
    /// When there is none, or it is damaged or of another version.
    pub fn read(folder: &Path) -> Result<(L::Begin, Vec<L>), Problem> {
        let (begin, entries, _) = parse(folder, &text::<L>(folder)?)?;
        Ok((begin, entries))
    }

    /// The folder of the search.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How it began.
    pub fn begin(&self) -> &L::Begin {
        &self.begin
    }

    /// All lines but the first.
    pub fn entries(&self) -> &[L] {
        &self.entries
    }

    /// Adds a line. It is on the disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, entry: L) -> Result<(), Problem> {
        self.write(&entry)?;
        self.entries.push(entry);
        Ok(())
    }

    fn write(&mut self, entry: &L) -> Result<(), Problem> {
        let failed = |why: String| Problem::host(format!("log of the search {}", self.folder.display()), why);
        let mut line = serde_json::to_string(entry).map_err(|e| failed(e.to_string()))?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data()).map_err(|e| failed(e.to_string()))
    }

    fn lock(&self) -> Result<(), Problem> {
        self.file.try_lock().map_err(|_| {
            Problem::host(format!("search {}", self.folder.display()), "another process is at it")
                .hint("wait for it to end")
        })
    }
}

fn hint<L: Line>() -> String {
    format!("name the folder of a search, as `holdup {}` printed it", L::COMMAND)
}

fn text<L: Line>(folder: &Path) -> Result<String, Problem> {
    read_text_input(&folder.join(NAME))
        .map_err(|e| Problem::usage(format!("search {}", folder.display()), e.to_string()).hint(hint::<L>()))
}

/// The command line that another user's search would have run is shown, so that a user who trusts it can begin one like it.
fn distrusted<L: Line>(folder: &Path, why: &std::io::Error) -> Problem {
    let problem = Problem::usage(format!("search {}", folder.display()), format!("it is not continued: {why}"));
    match Log::<L>::read(folder) {
        Ok((begin, _)) => {
            let (words, begun_in) = L::command(&begin);
            problem.hint(format!("it was begun in {begun_in:?} with {words:?}; begin one of your own"))
        }
        Err(_) => problem.hint("begin one of your own"),
    }
}

/// The first line, the others, and how many bytes of the text are whole lines.
fn parse<L: Line>(folder: &Path, text: &str) -> Result<(L::Begin, Vec<L>, u64), Problem> {
    let what = || format!("search {}", folder.display());
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut entries = Vec::new();
    for (number, line) in text[..whole].lines().enumerate() {
        let entry: L = serde_json::from_str(line)
            .map_err(|e| Problem::usage(what(), format!("line {} of its log is damaged: {e}", number + 1)))?;
        entries.push(entry);
    }
    let begun = entries.first().and_then(|first| first.begin()).map(|(begin, format)| (begin.clone(), format));
    match begun {
        Some((begin, format)) if format == L::FORMAT => Ok((begin, entries.split_off(1), whole as u64)),
        Some((_, format)) => {
            let why = format!("its log is of format {format}, this holdup reads {}", L::FORMAT);
            Err(Problem::usage(what(), why).hint("use the holdup that began it"))
        }
        _ => Err(Problem::usage(what(), "its log has no beginning").hint("begin the search anew")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use holdup_model::Direction;
    use holdup_model::search::{Begin, Entry, FORMAT, LookFor};

    pub(crate) fn begin() -> Begin {
        Begin {
            format: FORMAT,
            command: vec!["holdup".into()],
            folder: "/".into(),
            began_unix_ns: 1,
            plan: String::new(),
            metric: "duration_s".into(),
            unit: "s".into(),
            better: Direction::Lower,
            look_for: LookFor::Worse,
            least: 0.01,
            key: "directory".into(),
            candidates: Vec::new(),
        }
    }

    fn skipped(candidate: &str) -> Entry {
        Entry::Skipped { candidate: candidate.into(), why: "it does not compile".into() }
    }

    #[test]
    fn a_log_is_read_back_without_a_line_that_was_cut() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("s");
        let mut log = <Log>::create(&folder, begin()).unwrap();
        log.add(skipped("a")).unwrap();
        assert!(<Log>::open(&folder).unwrap_err().why.contains("another process"));
        assert!(<Log>::create(&folder, begin()).unwrap_err().hint.unwrap().contains("--continue"));
        log.file.write_all(b"{\"entry\":\"ski").unwrap();
        drop(log);
        let mut log = Log::open(&folder).unwrap();
        assert_eq!(log.entries(), [skipped("a")]);
        log.add(skipped("b")).unwrap();
        assert_eq!(Log::read(&folder).unwrap(), (begin(), vec![skipped("a"), skipped("b")]));
    }

    #[test]
    #[ignore = "takes root, which alone can give a folder away"]
    fn root_begins_no_search_that_it_would_not_continue() {
        let above = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(above.path(), Some(54_321), None).unwrap();
        let refused = <Log>::create(&above.path().join("s"), begin()).unwrap_err().to_string();
        assert!(refused.contains("user with id 54321") && refused.contains("hint: --state DIR"), "{refused}");
        assert!(!above.path().join("s").exists());
    }

    #[test]
    fn a_log_of_another_version_or_with_a_damaged_line_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("s");
        drop(<Log>::create(&folder, Begin { format: FORMAT + 1, ..begin() }).unwrap());
        assert!(<Log>::open(&folder).unwrap_err().why.contains("format"));
        std::fs::write(folder.join(NAME), "{}\n").unwrap();
        assert!(<Log>::open(&folder).unwrap_err().why.contains("line 1"));
        assert!(<Log>::open(above.path()).unwrap_err().hint.unwrap().contains("folder of a search"));
    }
}
