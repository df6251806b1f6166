//! The files that were named: captures, folders of rotated captures, standard input, or counts of tshark.

use super::together;
use crate::cli::MemoryLimit;
use crate::progress::reading;
use holdup_files::open_input;
use holdup_model::Problem;
use holdup_model::captures::CaptureTrace;
use holdup_packets::analyse::Analysis;
use holdup_packets::analyse::{self, Options};
use holdup_packets::capture::{Chain, Frames, Reader};
use holdup_packets::expert::{self, Expert};
use holdup_packets::rfc::Findings;
use holdup_packets::trace;
use holdup_packets::wireshark::Limits;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The captures that are read, and how: of `packets` and `import pcap`.
#[derive(Debug, clap::Args)]
pub(in crate::commands) struct Captures {
    /// The capture; each further one is compared with the first
    #[arg(value_name = "CAPTURE", required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Read a folder as one capture in many files
    #[arg(short, long)]
    rotated: bool,
    /// Ignore differences of rates up to M [default: 2%]
    #[arg(long, value_name = "M", value_parser = margin)]
    pub(super) margin: Option<f64>,
    /// Judge as Wireshark, or add our judgement (rfc)
    #[arg(long, default_value = "wireshark", value_parser = ["wireshark", "rfc"])]
    engine: String,
    /// Keep N connections; count the others' segments
    ///
    /// The default is what --max-memory has room for, at most 1000000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    pub(super) max_flows: Option<u32>,
    /// Use N threads, at most 16 per capture [default: CPUs, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    threads: Option<u32>,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Print no progress
    #[arg(short, long)]
    quiet: bool,
}

impl Captures {
    /// True if our own judgement is requested.
    pub(super) fn with_own(&self) -> bool {
        self.engine == "rfc"
    }

    /// Limits of each capture; `twice` where captures are read again to draw some connections.
    fn limits(&self, twice: bool) -> Limits {
        let times = 1 + u64::from(twice) + u64::from(self.with_own());
        let quarter = self.memory.budget().bytes() / (4 * times * self.paths.len().max(1) as u64);
        let room = |bytes: u64, most: u32| u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, most);
        let most = Limits::default();
        Limits {
            flows: self.max_flows.unwrap_or(room(3 * quarter / FLOW_BYTES, most.flows)),
            unacknowledged: room(quarter / SEGMENT_BYTES, most.unacknowledged),
        }
    }
}

/// `2%` or `0.02`.
fn margin(text: &str) -> Result<f64, String> {
    let (number, by) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 100.0));
    match number.trim().parse::<f64>().map(|x| x / by) {
        Ok(margin) if margin > 0.0 && margin < 10.0 => Ok(margin),
        _ => Err("no share above 0, such as 5%".to_owned()),
    }
}

/// Memory of a connection with its marks, each time that a capture is read, and of our own judgement of it, bytes.
const FLOW_BYTES: u64 = 384;

/// Memory of an unacknowledged segment, bytes.
const SEGMENT_BYTES: u64 = 32;

/// What is read of a file to see whether it is text.
const HEAD_BYTES: u64 = 64 << 10;

/// A capture that was read.
pub(in crate::commands) struct Read {
    pub(in crate::commands) name: String,
    pub(in crate::commands) analysis: Analysis,
    /// Our own judgement, where it was asked for.
    pub(in crate::commands) own: Option<Findings>,
    /// What is missing of it.
    pub(in crate::commands) warnings: Vec<String>,
}

/// What was given.
pub(in crate::commands) enum Given {
    Captures(Vec<Read>),
    /// What tshark printed.
    Counts(Vec<(String, Expert)>),
}

/// Reads all that was named; `twice` if [`traces`] will read captures again.
pub(in crate::commands) fn read_all(captures: &Captures, twice: bool) -> Result<Given, Problem> {
    let paths = &captures.paths;
    refuse_the_same(paths)?;
    let texts = paths.iter().map(|path| counts(path)).collect::<Result<Vec<_>, Problem>>()?;
    if texts.iter().any(Option::is_some) {
        let mut all = Vec::new();
        for (path, expert) in paths.iter().zip(texts) {
            let expert = expert.ok_or_else(|| {
                Problem::usage(path.display().to_string(), "it is no list of counts, and another file is")
                    .hint("compare captures with captures, and counts of tshark with counts")
            })?;
            all.push((short(path), expert));
        }
        return Ok(Given::Counts(all));
    }
    let mut read = each(captures, paths, |path, _, way| capture(path, way, twice))?;
    // Files with the same name in two folders get their paths.
    let is_unique = |name: &str| paths.iter().filter(|path| short(path) == name).count() < 2;
    for (one, path) in read.iter_mut().zip(paths).filter(|(one, _)| !is_unique(&one.name)) {
        one.name = path.display().to_string();
    }
    Ok(Given::Captures(read))
}

/// A file compared with itself says nothing, and standard input can be read once.
fn refuse_the_same(paths: &[PathBuf]) -> Result<(), Problem> {
    let identity = |path: &Path| match is_stdin(path) {
        true => Some((0, 0)),
        false => std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino())),
    };
    for (i, path) in paths.iter().enumerate() {
        let own = identity(path);
        if own.is_some() && paths[..i].iter().any(|other| identity(other) == own) {
            return Err(Problem::usage(path.display().to_string(), "it was named twice")
                .hint("name two captures, the baseline first"));
        }
    }
    Ok(())
}

pub(in crate::commands) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The file's name without its folder; `standard input` for `-`.
pub(in crate::commands) fn short(path: &Path) -> String {
    match path.file_name() {
        _ if is_stdin(path) => "standard input".to_owned(),
        Some(name) => name.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Problem {
    let (why, hint) = match error.kind() {
        io::ErrorKind::NotFound => ("there is no such file".to_owned(), "name a capture, or `-` for standard input"),
        io::ErrorKind::PermissionDenied => ("no permission to read it".to_owned(), "read it as a user who may"),
        _ => (error.to_string(), "a capture is a regular file; pipe anything else into `holdup packets -`"),
    };
    Problem::usage(path.display().to_string(), why).hint(hint)
}

/// The counts of a file that tshark printed; `None` for any other file.
fn counts(path: &Path) -> Result<Option<Expert>, Problem> {
    if is_stdin(path) || path.is_dir() {
        return Ok(None);
    }
    let mut file = open_input(path).map_err(|e| cannot_read(path, &e))?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(|e| cannot_read(path, &e))?;
    if !expert::is_expert(&String::from_utf8_lossy(&head)) {
        return Ok(None);
    }
    let most = expert::MOST_BYTES as u64 + 1;
    file.take(most).read_to_end(&mut head).map_err(|e| cannot_read(path, &e))?;
    let mut expert = expert::read(&String::from_utf8_lossy(&head));
    if let Err(problem) = &mut expert {
        problem.what = format!("{}: {}", path.display(), problem.what);
    }
    expert.map(Some)
}

/// Opens a capture, with a bar for what was read of it.
fn open(path: &Path, quiet: bool) -> Result<Reader<'static>, Problem> {
    Reader::new(source(path, quiet)?).map_err(|problem| of(path, problem))
}

/// The bytes of a file, with a bar for what was read of it, or of standard input.
pub(in crate::commands) fn source(path: &Path, quiet: bool) -> Result<Box<dyn io::Read + Send>, Problem> {
    if is_stdin(path) {
        return Ok(Box::new(io::stdin()));
    }
    let file = open_input(path).map_err(|e| cannot_read(path, &e))?;
    Ok(Box::new(reading(file, &short(path), quiet)))
}

/// A problem of a file.
fn of(path: &Path, mut problem: Problem) -> Problem {
    problem.what = match is_stdin(path) {
        true => format!("standard input: {}", problem.what),
        false => format!("{}: {}", path.display(), problem.what),
    };
    problem
}

/// How one capture is gone through.
struct Way<'a> {
    captures: &'a Captures,
    threads: usize,
    /// True if no bar shows what was read.
    quiet: bool,
}

/// Calls a function for each capture and its member of `things`, in parallel where that is faster.
fn each<I: Sync, T: Send>(
    captures: &Captures,
    things: &[I],
    of: impl Fn(&Path, &I, &Way<'_>) -> Result<T, Problem> + Sync,
) -> Result<Vec<T>, Problem> {
    let paths = &captures.paths;
    let asked = captures.threads.map(|threads| threads as usize);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let shares = together::shares(paths, asked, cpus);
    let all: Vec<(usize, (&PathBuf, &I))> = paths.iter().zip(things).enumerate().collect();
    together::together(&all, shares.parallel, |(place, (path, thing))| {
        let quiet = captures.quiet || (shares.parallel > 1 && *place != shares.largest);
        of(path, thing, &Way { captures, threads: shares.threads, quiet })
    })
}

/// Reads one capture, or a folder of rotated ones.
fn capture(path: &Path, way: &Way<'_>, twice: bool) -> Result<Read, Problem> {
    let options =
        Options { limits: way.captures.limits(twice), threads: way.threads, with_own: way.captures.with_own() };
    let mut warnings = Vec::new();
    let (mut frames, files) = open_all(path, way, &mut warnings)?;
    let analysed = analyse::analyse(&mut frames, &options).map_err(|problem| of(path, problem))?;
    warnings.extend(frames.cuts().iter().map(|(i, cut)| match files.get(*i) {
        Some(file) => format!("{}: {cut}", short(file)),
        None => cut.to_string(),
    }));
    if analysed.analysis.flows.is_empty() {
        return Err(Problem::usage(path.display().to_string(), analysed.why_none())
            .hint("give a capture with segments of TCP in it"));
    }
    Ok(Read { name: short(path), analysis: analysed.analysis, own: analysed.own, warnings })
}

/// Goes through captures again for the connections of each with the most trouble; `None` of standard input, which can be read once.
pub(in crate::commands) fn traces(
    captures: &Captures,
    read: &[Read],
    most: usize,
) -> Result<Vec<Option<Vec<CaptureTrace>>>, Problem> {
    let limits = captures.limits(true);
    each(captures, read, |path, read, way| {
        if is_stdin(path) {
            return Ok(None);
        }
        let worst = trace::worst(&read.analysis, most);
        let (mut frames, _) = open_all(path, way, &mut Vec::new())?;
        trace::trace(&mut frames, &read.name, &worst, limits).map(Some).map_err(|problem| of(path, problem))
    })
}

/// Opens one capture, or a folder of rotated ones with the files that are in it.
fn open_all(path: &Path, way: &Way<'_>, warnings: &mut Vec<String>) -> Result<(Chain<'static>, Vec<PathBuf>), Problem> {
    let quiet = way.quiet;
    if is_stdin(path) || !path.is_dir() {
        return Ok((Chain::one(open(path, quiet)?), Vec::new()));
    }
    if !way.captures.rotated {
        return Err(Problem::usage(path.display().to_string(), "it is a folder")
            .hint("with -r a folder is read as one capture that was written into many files"));
    }
    let files = rotated(path, warnings)?;
    let opening = files.clone().into_iter().map(move |file| open(&file, quiet));
    Ok((Chain::new(opening), files))
}

/// The captures of a folder in the order of their first frames, those of one time by name. Other files are left out
/// with a warning.
fn rotated(folder: &Path, warnings: &mut Vec<String>) -> Result<Vec<PathBuf>, Problem> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|e| cannot_read(folder, &e))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    names.sort();
    let mut found = Vec::new();
    for path in names {
        match first_ns(&path) {
            Ok(Some(at_ns)) => found.push((at_ns, path)),
            Ok(None) => warnings.push(format!("{}: there is no frame in it", short(&path))),
            Err(problem) => warnings.push(format!("{}: left out: {}", short(&path), problem.why)),
        }
    }
    found.sort();
    match found.is_empty() {
        true => Err(Problem::usage(folder.display().to_string(), "there is no capture in it")
            .hint("name a folder with captures, or the captures themselves")),
        false => Ok(found.into_iter().map(|(_, path)| path).collect()),
    }
}

/// When the first frame of a capture was captured.
fn first_ns(path: &Path) -> Result<Option<i64>, Problem> {
    let mut reader = open(path, true)?;
    Ok(reader.next()?.map(|frame| frame.at_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        captures: Captures,
    }

    /// Finding L9 of the attacks: segments took 256 MB beside the budget.
    #[test]
    fn connections_and_segments_of_all_captures_share_the_budget() {
        for (words, budget) in [(vec!["", "a"], 384 << 20), (vec!["", "a", "b", "--max-memory", "64MB"], 32 << 20)] {
            let Limits { flows, unacknowledged } = CommandLine::parse_from(words).captures.limits(false);
            let bytes = u64::from(flows) * FLOW_BYTES + u64::from(unacknowledged) * SEGMENT_BYTES;
            assert!(bytes <= budget && bytes > budget - 1000, "{bytes} of {budget}");
        }
    }
}
