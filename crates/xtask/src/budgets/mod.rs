//! Budgets of the repository: numbers that may fall and not rise. `budgets.toml` has them as they are committed.

mod circles;
mod counts;
mod source;

use crate::Repo;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use toml_edit::DocumentMut;

/// The file of the budgets, at the root.
pub const FILE: &str = "budgets.toml";

/// Table of the file with the lines of each crate.
const BY_CRATE: &str = "lines_by_crate";

/// Places that an error names at most.
const MOST_PLACES: usize = 5;

const HEAD: &str = "\
# Numbers that may fall and not rise: `cargo xtask tidy` compares them, `cargo xtask tidy --write` writes those that are
# lower now. A number is raised by hand, in a separate commit whose body says what the lines buy.
";

/// A number that has a budget.
#[derive(Debug, Default)]
pub struct Count {
    /// Key in the file.
    pub key: String,
    /// Table of the file that the key stands in; empty at its top.
    pub table: &'static str,
    /// Number of today.
    pub number: u64,
    /// Places that add to it, the worst first.
    pub places: Vec<String>,
    /// Advice that makes it lower.
    pub hint: &'static str,
}

/// Arguments of `cargo xtask tidy`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TidyOptions {
    /// True if lower numbers are written.
    pub write: bool,
    /// The release, whose bytes are counted too.
    pub release: Option<PathBuf>,
}

impl TidyOptions {
    /// Reads the arguments.
    ///
    /// # Errors
    /// When one is unknown: none raises a budget.
    pub fn parse(args: &[String]) -> Result<TidyOptions> {
        let mut options = TidyOptions::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--write" => options.write = true,
                "--release" => {
                    options.release = Some(args.next().context("tidy --release: the path is missing")?.into());
                }
                other => bail!(
                    "tidy: `{other}` is no option\nhint: --write, --release PATH; a budget is raised by hand in {FILE}, in a \
                     separate commit whose body says what the lines buy"
                ),
            }
        }
        Ok(options)
    }
}

/// Budgets by table and key.
type Budgets = BTreeMap<(String, String), u64>;

/// Counts of the repository, and of the release if one is given.
///
/// # Errors
/// When a manifest is no TOML or the release is not there.
pub fn count(repo: &Repo, release: Option<&Path>) -> Result<Vec<Count>> {
    let mut counts = counts::all(repo, &tracked(repo))?;
    if let Some(path) = release {
        let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
        counts.push(counts::release(path, bytes));
    }
    Ok(counts)
}

/// Paths of the files that git knows; those of the tree where there is no git.
fn tracked(repo: &Repo) -> Vec<String> {
    let listed = Path::new(&crate::repo::root()).join(".git").exists().then(|| {
        // The tests may run as another user than the owner of the clone.
        crate::repo::printed("git", &["-c", "safe.directory=*", "ls-files", "-z"])
    });
    match listed {
        Some(Ok(paths)) => paths.split_terminator('\0').map(str::to_owned).collect(),
        _ => repo.files.keys().cloned().collect(),
    }
}

/// Compares the numbers of today with the file.
pub fn check(repo: &Repo, counts: &[Count]) -> Vec<String> {
    let budgets = match read(repo.text(FILE).unwrap_or_default()) {
        Ok(budgets) => budgets,
        Err(e) => return vec![format!("{FILE}: {e:#}")],
    };
    counts.iter().filter_map(|count| compare(count, &budgets)).collect()
}

fn compare(count: &Count, budgets: &Budgets) -> Option<String> {
    let Count { key, table, number, places, hint } = count;
    let name = if table.is_empty() { key.clone() } else { format!("{table}.{key}") };
    let why = match budgets.get(&((*table).to_owned(), key.clone())) {
        Some(budget) if number <= budget => return None,
        Some(budget) => format!("at most {budget}"),
        None => format!("it has no budget in {FILE}: `cargo xtask tidy --write` adds it"),
    };
    let mut text = format!("{name} = {number}: {why}\n");
    for place in places.iter().take(MOST_PLACES) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {place}");
    }
    let _ = write!(
        text,
        "hint: {hint}. A budget is raised by hand in {FILE}, in a separate commit whose body says what the lines buy"
    );
    Some(text)
}

fn read(text: &str) -> Result<Budgets> {
    let document: DocumentMut = text.parse()?;
    let mut budgets = Budgets::new();
    for (key, item) in document.iter() {
        let number = |item: &toml_edit::Item| item.as_integer().and_then(|n| u64::try_from(n).ok());
        match item.as_table() {
            Some(table) => {
                for (inner, item) in table {
                    let n = number(item).with_context(|| format!("{key}.{inner}: must be a number"))?;
                    budgets.insert((key.to_owned(), inner.to_owned()), n);
                }
            }
            None => {
                let n = number(item).with_context(|| format!("{key}: must be a number"))?;
                budgets.insert((String::new(), key.to_owned()), n);
            }
        }
    }
    Ok(budgets)
}

/// The file with the numbers that are lower now; what has no budget yet gets one. The release's stays where it is not
/// counted, a crate that is gone goes.
///
/// # Errors
/// When the file is no table of numbers.
pub fn lowered(file: &str, counts: &[Count]) -> Result<String> {
    let old = read(file)?;
    let mut new = Budgets::new();
    let kept = (String::new(), counts::RELEASE.to_owned());
    new.extend(old.get(&kept).map(|n| (kept, *n)));
    for count in counts {
        let place = (count.table.to_owned(), count.key.clone());
        let number = old.get(&place).map_or(count.number, |budget| count.number.min(*budget));
        new.insert(place, number);
    }
    let mut text = HEAD.to_owned();
    let mut last = "";
    for ((table, key), number) in &new {
        if table != last {
            let _ = writeln!(text, "\n[{table}]");
            last = table;
        }
        let _ = writeln!(text, "{key} = {number}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, number: u64) -> Count {
        let places = (1..9).map(|n| format!("a.rs:{n}")).collect();
        Count { key: key.to_owned(), number, places, hint: "write less", ..Count::default() }
    }

    fn repo(budgets: &str) -> Repo {
        Repo::of(&[(FILE, budgets)])
    }

    #[test]
    fn a_worse_number_fails_with_places_and_advice() {
        assert_eq!(check(&repo("lines = 10\n"), &[one("lines", 10)]), Vec::<String>::new());
        assert_eq!(check(&repo("lines = 11\n"), &[one("lines", 10)]), Vec::<String>::new());
        let wrong = check(&repo("lines = 9\n"), &[one("lines", 10)]);
        assert!(wrong[0].starts_with("lines = 10: at most 9\n  a.rs:1\n"), "{wrong:?}");
        assert!(wrong[0].contains("  a.rs:5\nhint: write less. ") && !wrong[0].contains("a.rs:6"), "{wrong:?}");
    }

    #[test]
    fn a_number_without_a_budget_and_a_broken_file_fail() {
        assert!(check(&repo(""), &[one("lines", 1)])[0].contains("no budget"));
        assert_eq!(check(&repo("lines = \"x\""), &[one("lines", 1)]), ["budgets.toml: lines: must be a number"]);
        assert_eq!(check(&repo("lines = ["), &[one("lines", 1)]).len(), 1);
    }

    #[test]
    fn writing_lowers_and_never_raises() {
        let crates = Count { table: BY_CRATE, ..one("a", 5) };
        let file = "lines = 10\ncircles = 3\nrelease_bytes = 7\nold = 1\n[lines_by_crate]\na = 6\nb = 6\n";
        let text = lowered(file, &[one("lines", 12), one("circles", 2), one("new", 4), crates]).unwrap();
        let expected = "\ncircles = 2\nlines = 10\nnew = 4\nrelease_bytes = 7\n\n[lines_by_crate]\na = 5\n";
        assert_eq!(text, format!("{}{}", HEAD, &expected[1..]));
        assert_eq!(lowered(&text, &[one("lines", 99)]).unwrap(), format!("{HEAD}lines = 10\nrelease_bytes = 7\n"));
    }

    #[test]
    fn no_option_raises_a_budget() {
        let parse = |args: &[&str]| TidyOptions::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        assert!(parse(&["--write", "--raise"]).unwrap_err().to_string().contains("by hand"));
        assert!(parse(&["--release"]).is_err());
        let options = parse(&["--write", "--release", "x"]).unwrap();
        assert_eq!(options, TidyOptions { write: true, release: Some("x".into()) });
    }
}
