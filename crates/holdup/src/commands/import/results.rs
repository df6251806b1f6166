//! Results of other benchmarks.

use super::{input, out, write};
use crate::{cli, output};
use clap::builder::PossibleValuesParser;
use holdup_files::Folder;
use holdup_import::{Input, KINDS, Kind, Named};
use holdup_model::text::count;
use holdup_model::{MemoryBudget, Problem};
use rustix::fs::FileType;
use std::collections::BTreeSet;
use std::fmt;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The most files of a folder.
const MOST_FILES: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    File,
    Settings,
}

#[derive(Debug, clap::Args)]
pub(super) struct Results {
    /// The tool that printed the results: `holdup list importers`
    #[arg(value_name = "KIND", required = true, value_parser = PossibleValuesParser::new(KINDS.iter().map(|kind| kind.meta.id)), hide_possible_values = true)]
    kind: Option<String>,
    /// Its files or folders; those with one NAME are runs of one arm. The first is the baseline
    #[arg(value_name = "[NAME=]FILE", required = true)]
    files: Vec<String>,
    /// Without NAME=: what distinguishes arms, files or the settings that they name
    #[arg(long, value_enum, default_value = "file")]
    by: By,
    /// Write this bundle [default: import-N.holdup]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    memory: cli::MemoryLimit,
    /// Print no progress
    #[arg(short, long)]
    quiet: bool,
}

/// All that was read, of which the identity of the bundle is made.
struct ResultText<'a>(&'a [Named]);

impl fmt::Display for ResultText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|one| write!(f, "{} {:?}", one.name, one.results))
    }
}

pub(super) fn run(args: &Results) -> anyhow::Result<u8> {
    let Some(kind) = args.kind.as_deref().and_then(holdup_import::find) else {
        return Err(Problem::usage("holdup import", "no kind is named").hint("holdup list importers").into());
    };
    let out = out(args.out.as_ref())?;
    let files = files(&args.files)?;
    let budget = args.memory.budget();
    let read = |(name, path): &(Option<&str>, &Path)| read(kind, *name, path, (args, &budget));
    let given = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let samples = given.iter().flat_map(|one| &one.results.samples);
    let begin_unix_ns = samples.filter_map(|sample| sample.begin_unix_ns).min();
    let command: Vec<String> = std::env::args().collect();
    let head = holdup_target::head_of_import(&ResultText(&given), begin_unix_ns, &command);
    let bundle = holdup_import::bundle(kind.meta.id, given, head, &budget);
    let bundle = bundle.map_err(|refused| refused.of(kind.meta.id))?;
    write(&bundle, &out)?;
    let void = bundle.trials.iter().filter(|trial| !trial.is_done()).count();
    let runs = count(bundle.trials.len(), "run");
    let (arms, void) =
        (count(bundle.schedule.arms.len(), "arm"), if void > 0 { format!(", {void} void") } else { String::new() });
    output::say(&format!("bundle: {} ({runs} of {arms}{void})", out.display()));
    Ok(0)
}

/// The files that are named, with the names of their arms. A run counts once: a file that is named twice would make what is known
/// seem more certain.
pub(super) fn files(given: &[String]) -> Result<Vec<(Option<&str>, &Path)>, Problem> {
    let files: Vec<(Option<&str>, &Path)> = given.iter().map(|given| named(given)).collect();
    let mut seen = BTreeSet::new();
    match files.iter().map(|(_, path)| *path).find(|path| !seen.insert(*path)) {
        None => Ok(files),
        Some(twice) => Err(Problem::usage(twice.display().to_string(), "it is named twice")
            .hint("name a file once: each of its runs counts once")),
    }
}

/// The two parts of `NAME=FILE`, or `FILE` alone.
fn named(given: &str) -> (Option<&str>, &Path) {
    match given.split_once('=').filter(|(name, _)| !name.is_empty() && !Path::new(given).exists()) {
        Some((name, file)) => (Some(name), Path::new(file)),
        None => (None, Path::new(given)),
    }
}

/// A file without a name has its own as that of its arm.
fn read(kind: &Kind, name: Option<&str>, path: &Path, how: ReadMode<'_>) -> Result<Named, Problem> {
    let name = match name {
        Some(name) => name.to_owned(),
        None if how.0.by == By::Settings => kind.meta.id.to_owned(),
        None => input::short(path),
    };
    let results = match path.is_dir() {
        true => folder(kind, path, how)?,
        false => holdup_import::read(kind, &mut file(path, how)?)?,
    };
    Ok(Named { name, results })
}

/// The options, and the memory of all files together.
type ReadMode<'a> = (&'a Results, &'a MemoryBudget);

/// A file, whose bytes are read as they are asked for.
fn file(path: &Path, (args, budget): ReadMode<'_>) -> Result<Input<'static>, Problem> {
    let shown = path.display().to_string();
    let source = holdup_kernels::decompressed(input::source(path, args.quiet)?)
        .map_err(|e| Problem::usage(&shown, e.to_string()))?;
    Ok(Input::new(shown, BufReader::new(source)).limited_to(budget))
}

/// The files of a folder that are of the kind, in the order of their paths.
fn folder(kind: &Kind, path: &Path, how: ReadMode<'_>) -> Result<holdup_import::Results, Problem> {
    let shown = path.display().to_string();
    let mut files = Vec::new();
    list(path, &mut PathBuf::new(), &mut files).map_err(|e| Problem::usage(&shown, e.to_string()))?;
    let mut held = Vec::new();
    for file in files {
        if kind.holds(&shown, &file)? {
            held.push(file);
        }
    }
    let mut files = held.into_iter().map(|inner| Ok((inner.clone(), file(&path.join(inner), how)?)));
    holdup_import::read_folder(kind, &shown, &mut files)
}

/// The paths of all files below a folder, relative to it. Links are not followed: results of many harnesses have a link to the
/// newest ones.
fn list(root: &Path, inner: &mut PathBuf, files: &mut Vec<String>) -> std::io::Result<()> {
    for entry in Folder::open(&root.join(&*inner))?.list(MOST_FILES)? {
        inner.push(&entry.name);
        match entry.kind {
            FileType::Directory => list(root, inner, files)?,
            FileType::RegularFile if files.len() == MOST_FILES => {
                return Err(std::io::Error::other(format!("it has more than {MOST_FILES} files")));
            }
            FileType::RegularFile => files.push(inner.display().to_string()),
            _ => {}
        }
        inner.pop();
    }
    Ok(())
}
