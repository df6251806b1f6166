//! holdfast behind pthread's functions of a program: the library that is loaded first, and what it reports.

use flate2::read::ZlibDecoder;
use holdup_files::{Folder, open_input};
use holdup_host::Host;
use holdup_model::Problem;
use holdup_model::trial::{HOLDFAST_HAD_NO_EFFECT, OF_HOLDFAST};
use holdup_postgres::{PrivateDir, private_dir};
use rustix::fs::{Mode, fchmod};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Built by `build.rs` from `crates/holdfast/preload`.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libholdfast-pthread.so.zlib"));
const NAME: &str = "libholdfast-pthread.so";
const REPORTS: &str = "reports";
const PREFIX: &str = "holdup-holdfast";
/// A report has some 600 bytes and the path of a program.
const LONGEST_REPORT: u64 = 4096;
/// More processes than this are not read.
const MOST_REPORTS: usize = 100_000;

/// The library in a folder of one trial. Dropping it removes the folder.
pub(crate) struct Preload {
    folder: PrivateDir,
    library: PathBuf,
    reports: PathBuf,
}

/// Removes what holdups that were killed left behind.
pub(crate) fn sweep(host: &Host, workdir: &Path) {
    private_dir::sweep(host, workdir, PREFIX, &|_| true);
}

impl Preload {
    /// Writes the library. Every user may load it and report: servers change theirs.
    pub(crate) fn create(host: &Host, workdir: &Path) -> Result<Self, Problem> {
        let folder = PrivateDir::create(host, workdir, PREFIX, None)?;
        let (library, reports) = (folder.path().join(NAME), folder.path().join(REPORTS));
        if library.to_string_lossy().contains([' ', ':']) {
            return Err(Problem::host(
                format!("working directory {}", workdir.display()),
                "LD_PRELOAD takes no path with a blank or a colon",
            )
            .hint("name another one with --workdir or TMPDIR"));
        }
        let made = Preload { folder, library, reports };
        made.write()
            .map_err(|e| Problem::host(format!("library {}", made.library.display()), format!("not written: {e}")))?;
        Ok(made)
    }

    fn write(&self) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        ZlibDecoder::new(LIBRARY).read_to_end(&mut bytes)?;
        let folder = Folder::open(self.folder.path())?;
        folder.create_file(NAME, 0o644)?.write_all(&bytes)?;
        let reports = folder.create_folder(REPORTS, 0o700)?;
        fchmod(reports.fd(), Mode::from_raw_mode(0o1733))?;
        fchmod(folder.fd(), Mode::from_raw_mode(0o711))?;
        Ok(())
    }

    /// The variables of the program. A library that the user preloads stays, behind this one.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut libraries = self.library.clone().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        vec![("LD_PRELOAD".into(), libraries), ("HOLDFAST_REPORT".into(), self.reports.clone().into_os_string())]
    }

    /// Removes the folder. Says in a sentence what the library did; `program` is what was started.
    pub(crate) fn remove(self, program: &Path) -> Result<String, Problem> {
        let reports = Folder::open(&self.reports).and_then(|folder| {
            // Other users may put other things there.
            let entries = folder.list(MOST_REPORTS)?.into_iter();
            let texts = entries.filter_map(|entry| folder.read(&entry.name, LONGEST_REPORT).ok());
            Ok(texts.filter_map(|text| Report::parse(&String::from_utf8_lossy(&text))).collect::<Vec<_>>())
        });
        let reports =
            reports.map_err(|e| Problem::host(format!("reports in {}", self.reports.display()), e.to_string()))?;
        self.folder.remove()?;
        Ok(sentence(&reports, &|| why_not_loaded(program)))
    }
}

/// What the library says of a process: its counts, without those of zero.
#[derive(Debug, Default, PartialEq)]
struct Report {
    is_glibc: bool,
    counts: BTreeMap<String, u64>,
}

impl Report {
    /// Of a text in the form of `crates/holdfast/preload/report.c`.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some("holdfast 1") {
            return None;
        }
        let mut report = Report::default();
        for (name, value) in lines.filter_map(|line| line.split_once(' ')) {
            match (name, value.parse()) {
                ("c_library", _) => report.is_glibc = value == "glibc",
                (name, Ok(count)) if count > 0 && (name.starts_with("served_") || name.starts_with("left_")) => {
                    report.counts.insert(name.to_owned(), count);
                }
                _ => {}
            }
        }
        Some(report)
    }

    fn has_served(&self) -> bool {
        self.counts.keys().any(|name| name.starts_with("served_"))
    }
}

/// What is counted, as text has it: one and several.
const SERVED: [(&str, &str, &str); 4] = [
    ("served_mutexes", "mutex", "mutexes"),
    ("served_conditions", "condition", "conditions"),
    ("served_rwlocks", "read-write lock", "read-write locks"),
    ("served_spinlocks", "spin lock", "spin locks"),
];

/// Why locks stay those of the C library.
const LEFT: [(&str, &[&str]); 6] = [
    ("process-shared", &["left_mutex_process_shared", "left_condition_process_shared", "left_rwlock_process_shared"]),
    ("robust", &["left_mutex_robust"]),
    ("priority inheritance", &["left_mutex_priority_inheritance"]),
    ("priority protection", &["left_mutex_priority_protection"]),
    ("read-write locks that prefer readers", &["left_rwlock_prefers_readers"]),
    ("another C library than glibc", &["left_unknown_c_library"]),
];

fn sentence(reports: &[Report], why_not_loaded: &dyn Fn() -> String) -> String {
    if reports.is_empty() {
        return format!("{HOLDFAST_HAD_NO_EFFECT}no process of this command loaded it ({})", why_not_loaded());
    }
    let sum = |name: &str| reports.iter().filter_map(|r| r.counts.get(name)).sum::<u64>();
    let served: Vec<String> = SERVED
        .iter()
        .map(|(name, one, several)| (sum(name), if sum(name) == 1 { one } else { several }))
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let left: Vec<(u64, &str)> = LEFT
        .iter()
        .map(|(why, names)| (names.iter().map(|name| sum(name)).sum(), *why))
        .filter(|(count, _)| *count > 0)
        .collect();
    let to_c_library = match left.as_slice() {
        [] => String::new(),
        [(count, why)] => format!("; {} went to the C library: {why}", locks(*count)),
        several => {
            let all = several.iter().map(|(count, _)| count).sum();
            let each: Vec<String> = several.iter().map(|(count, why)| format!("{count} {why}")).collect();
            format!("; {} went to the C library: {}", locks(all), each.join(", "))
        }
    };
    let users = reports.iter().filter(|report| report.has_served()).count();
    if let Some((last, others)) = served.split_last() {
        let list = if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) };
        return format!("{OF_HOLDFAST}served {list} of {}{to_c_library}", processes(users));
    }
    let musl = reports.iter().all(|report| !report.is_glibc);
    let why = if musl { "whose C library is not glibc" } else { "and none used a lock of pthread that it serves" };
    format!("{HOLDFAST_HAD_NO_EFFECT}{} loaded it, {why}{to_c_library}", processes(reports.len()))
}

fn locks(n: u64) -> String {
    if n == 1 { "1 lock".to_owned() } else { format!("{n} locks") }
}

fn processes(n: usize) -> String {
    if n == 1 { "1 process".to_owned() } else { format!("{n} processes") }
}

/// What the file of the program says of it: elf(5).
fn why_not_loaded(program: &Path) -> String {
    let mut begin = Vec::new();
    let read = open_input(program).and_then(|file| file.take(64 << 10).read_to_end(&mut begin));
    let general = "statically linked, of 32 bits, setuid, or of another C library than glibc";
    let what = match (read, begin.get(..5)) {
        (Ok(_), Some([0x7f, b'E', b'L', b'F', 1])) => "it has 32 bits",
        (Ok(_), Some([0x7f, b'E', b'L', b'F', 2])) => match interpreter(&begin) {
            None => "it is statically linked",
            Some(path) if path.contains("musl") => "its C library is musl",
            Some(_) => return format!("it may be {general}"),
        },
        _ => return format!("its programs may be {general}"),
    };
    what.to_owned()
}

/// The loader that a program of 64 bits names (PT_INTERP), if any.
fn interpreter(file: &[u8]) -> Option<String> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let field = file.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte)))
    };
    let (table, size, entries) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut segments = (0..entries).filter_map(|n| table.checked_add(n * size));
    let segment = segments.find(|at| number(*at, 4) == Some(3))?;
    let (offset, length) = (number(segment.checked_add(8)?, 8)?, number(segment.checked_add(32)?, 8)?);
    let path = file.get(offset..offset.checked_add(length)?)?;
    Some(String::from_utf8_lossy(path).trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(counts: &str) -> Report {
        Report::parse(&format!("holdfast 1\npid 1\nprogram /bin/x\nc_library glibc\n{counts}")).expect("a report")
    }

    #[test]
    fn a_sentence_says_what_was_served_and_what_was_not() {
        let check = |reports: &[Report], expect: &str| {
            assert_eq!(sentence(reports, &|| "it is statically linked".to_owned()), expect);
        };
        let full = "served_mutexes 000000000312\nserved_conditions 000000000040\nserved_rwlocks 000000000000\n\
                    left_mutex_process_shared 000000000003\n";
        check(
            &[report(full)],
            "holdfast served 312 mutexes and 40 conditions of 1 process; 3 locks went to the C library: process-shared",
        );
        check(
            &[report(full), report("served_mutexes 1\nleft_mutex_robust 1\n"), report("")],
            "holdfast served 313 mutexes and 40 conditions of 2 processes; 4 locks went to the C library: \
             3 process-shared, 1 robust",
        );
        check(&[report("served_spinlocks 1\n")], "holdfast served 1 spin lock of 1 process");
        check(
            &[report(""), report("")],
            "holdfast had no effect: 2 processes loaded it, and none used a lock of pthread that it serves",
        );
        check(
            &[report("left_rwlock_prefers_readers 1\n")],
            "holdfast had no effect: 1 process loaded it, and none used a lock of pthread that it serves; 1 lock went to \
             the C library: read-write locks that prefer readers",
        );
        check(
            &[Report::parse("holdfast 1\nc_library unknown\n").expect("a report")],
            "holdfast had no effect: 1 process loaded it, whose C library is not glibc",
        );
        check(&[], "holdfast had no effect: no process of this command loaded it (it is statically linked)");
    }

    #[test]
    fn what_is_no_report_is_none() {
        for text in ["", "holdfast 2\n", "served_mutexes 1\n", "\u{0}\u{0}"] {
            assert_eq!(Report::parse(text), None, "{text:?}");
        }
        // Garbage behind the first line counts nothing.
        assert!(report("served_mutexes -1\nserved_mutexes x\nother 7\n").counts.is_empty());
    }

    #[test]
    fn a_damaged_program_has_no_interpreter() {
        for length in [0, 5, 40, 64, 80] {
            let mut file = vec![0xff; length];
            file.splice(0..length.min(5), [0x7f, b'E', b'L', b'F', 2].into_iter().take(length));
            assert_eq!(interpreter(&file), None, "{length}");
        }
    }
}
