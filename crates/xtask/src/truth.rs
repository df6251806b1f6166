//! The statements that are true of a live host: run one at a time on a quiet machine, repeated, counted and kept.
//!
//! A statement is a test with the label `truth` (`holdup_testkit`). It is right or wrong, or not decided: the machine was not quiet,
//! or lacks what the statement is about. `docs/truth.tsv` keeps the last round of each, `docs/truth.md` is made from it.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Share of all CPU time that others may use before a statement is tried.
const QUIET_SHARE: f64 = 0.10;
/// How long a quiet machine is waited for.
const QUIET_WAIT: Duration = Duration::from_secs(90);
/// Longest time of one try, s.
const LIMIT_S: &str = "900";
/// Tries of a statement that was wrong before it counts as failed.
const MAX_TRIES: u32 = 3;
const NOT_QUIET: &str = "no quiet machine";
const TABLE: &str = "docs/truth.tsv";
const PAGE: &str = "docs/truth.md";
const HEADER: &str = "statement\tdate\tcommit\tmachine\tright\twrong\tundecided\treason\tcause";

/// What the command line asks for.
#[derive(Default)]
pub struct Options {
    /// Groups, or parts of names; all when empty.
    pub wanted: Vec<String>,
    /// Tries of each statement.
    pub repeats: u32,
    /// One group, chosen by the commit, for at most this long; a statement fails only when all its tries do.
    pub minutes: Option<u64>,
    /// Writes the table and the page.
    pub is_kept: bool,
    /// Adds the tries to those of the kept round.
    pub is_more: bool,
    /// Only lists.
    pub is_list: bool,
}

impl Options {
    /// The arguments after `truth LIST`.
    pub fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options { repeats: 1, ..Options::default() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u64> {
                args.next()
                    .and_then(|n| n.parse().ok())
                    .filter(|n| *n > 0)
                    .with_context(|| format!("{arg}: it takes a number"))
            };
            match arg.as_str() {
                "--minutes" => options.minutes = Some(number()?),
                "--repeats" => options.repeats = u32::try_from(number()?)?,
                "--keep" => options.is_kept = true,
                "--more" => (options.is_kept, options.is_more) = (true, true),
                "--list" => options.is_list = true,
                _ if arg.starts_with('-') => {
                    bail!("{arg}: no such option\nhint: --list, --minutes N, --repeats N, --keep, --more, groups")
                }
                _ => options.wanted.push(arg.clone()),
            }
        }
        Ok(options)
    }
}

/// A test with the label `truth`.
struct Statement {
    package: String,
    binary: PathBuf,
    folder: PathBuf,
    /// As the executable knows it.
    test: String,
}

impl Statement {
    /// `GROUP::…`, without the label.
    fn name(&self) -> &str {
        self.test.strip_prefix("truth::").unwrap_or(&self.test)
    }

    fn group(&self) -> &str {
        self.name().split("::").next().unwrap_or_default()
    }
}

/// The statements of `cargo nextest list --message-format json`.
fn statements(list: &str) -> Result<Vec<Statement>> {
    let list: Value = serde_json::from_str(list).context("the list of tests")?;
    let mut all = Vec::new();
    for suite in list["rust-suites"].as_object().context("the list of tests has no suites")?.values() {
        let text = |key: &str| suite[key].as_str().unwrap_or_default().to_owned();
        for (test, case) in suite["testcases"].as_object().into_iter().flatten() {
            if test.starts_with("truth::") && case["ignored"] == false && case["filter-match"]["status"] == "matches" {
                let (binary, folder) = (text("binary-path").into(), text("cwd").into());
                all.push(Statement { package: text("package-name"), binary, folder, test: test.clone() });
            }
        }
    }
    all.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(all)
}

/// Busy and all CPU time since the boot, in ticks.
fn cpu_ticks() -> Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat")?;
    let fields: Vec<u64> =
        text.lines().next().unwrap_or_default().split_whitespace().skip(1).flat_map(str::parse).collect();
    // Idle and waiting for I/O are the fourth and the fifth; guests are counted in user time too.
    let all: u64 = fields.iter().take(8).sum();
    Ok((all - fields.iter().skip(3).take(2).sum::<u64>(), all))
}

/// True once the machine was quiet for a second.
fn is_quiet(wait: Duration) -> Result<bool> {
    let begin = Instant::now();
    loop {
        let (busy, all) = cpu_ticks()?;
        std::thread::sleep(Duration::from_secs(1));
        let (busy_then, all_then) = cpu_ticks()?;
        if (busy_then - busy) as f64 <= QUIET_SHARE * (all_then - all) as f64 {
            return Ok(true);
        }
        if begin.elapsed() > wait {
            return Ok(false);
        }
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Right,
    Wrong(String),
    Undecided(String),
}

/// The outcome of a try, from its success, its output and what it noted as ignored.
fn outcome(is_success: bool, output: &str, noted: &str) -> Outcome {
    if !is_success {
        let mut lines = output.lines().skip_while(|line| !line.contains("panicked at"));
        let place = lines.next();
        let why = place.and(lines.next()).or_else(|| output.lines().rfind(|line| !line.trim().is_empty()));
        return Outcome::Wrong(short(why.unwrap_or("it ended without a word")));
    }
    let whole = noted.lines().filter_map(|line| line.split_once('\t')).find(|(_, why)| !why.starts_with("in part: "));
    whole.map_or(Outcome::Right, |(_, why)| Outcome::Undecided(short(why)))
}

/// A reason on one line of a table.
fn short(reason: &str) -> String {
    let words = reason.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/");
    match words.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

fn attempt(statement: &Statement) -> Result<Outcome> {
    if !is_quiet(QUIET_WAIT)? {
        return Ok(Outcome::Undecided(NOT_QUIET.to_owned()));
    }
    let log = std::env::temp_dir().join(format!("holdup-truth-{}", std::process::id()));
    let noted = log.with_extension("ignored");
    let _old = fs::remove_file(&noted);
    let file = fs::File::create(&log)?;
    let status = Command::new("timeout")
        .args(["-k", "10", LIMIT_S])
        .arg(&statement.binary)
        .args(["--exact", &statement.test, "--nocapture", "--test-threads=1"])
        .current_dir(&statement.folder)
        .env("CARGO_PKG_NAME", &statement.package)
        .env("CARGO_MANIFEST_DIR", &statement.folder)
        .env("HOLDUP_IGNORED", &noted)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .context("timeout of coreutils")?;
    let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let outcome = match status.code() {
        Some(124 | 137) => Outcome::Wrong(format!("it did not end within {LIMIT_S} s")),
        _ => outcome(status.success(), &output, &fs::read_to_string(&noted).unwrap_or_default()),
    };
    if let (Outcome::Wrong(_), Some(folder)) = (&outcome, std::env::var_os("HOLDUP_TRUTH_LOGS")) {
        let name = statement.name().replace("::", "-");
        fs::copy(&log, Path::new(&folder).join(format!("{name}.log")))?;
    }
    fs::remove_file(&log)?;
    let _noted = fs::remove_file(&noted);
    Ok(outcome)
}

/// The last round of a statement: a row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
struct Round {
    date: String,
    commit: String,
    machine: String,
    right: u32,
    wrong: u32,
    undecided: u32,
    /// Why it was wrong or not decided, the last time.
    reason: String,
    /// Written by hand: why a statement is wrong. One that was never right and has a cause fails nothing.
    cause: String,
}

impl Round {
    fn add(&mut self, outcome: Outcome) {
        let (count, reason) = match outcome {
            Outcome::Right => (&mut self.right, None),
            Outcome::Wrong(why) => (&mut self.wrong, Some(why)),
            Outcome::Undecided(why) => (&mut self.undecided, Some(why)),
        };
        *count += 1;
        self.reason = reason.unwrap_or_else(|| std::mem::take(&mut self.reason));
    }

    fn tries(&self) -> u32 {
        self.right + self.wrong + self.undecided
    }

    /// True of one that was never right, and of which somebody has written why: that is no news of a commit.
    fn is_known_wrong(&self) -> bool {
        self.wrong > 0 && self.right == 0 && !self.cause.is_empty()
    }
}

fn read_table(text: &str) -> BTreeMap<String, Round> {
    let row = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        let name = fields.next()?;
        let (date, commit, machine) = (fields.next()?, fields.next()?, fields.next()?);
        let mut number = || fields.next()?.parse().ok();
        let (right, wrong, undecided) = (number()?, number()?, number()?);
        let (reason, cause) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        Some((name, Round { date, commit, machine, right, wrong, undecided, reason, cause }))
    };
    text.lines().skip(1).filter_map(row).collect()
}

fn write_table(table: &BTreeMap<String, Round>) -> String {
    let mut text = format!("{HEADER}\n");
    for (name, r) in table {
        let (counts, words) =
            (format!("{}\t{}\t{}", r.right, r.wrong, r.undecided), format!("{}\t{}", r.reason, r.cause));
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name}\t{}\t{}\t{}\t{counts}\t{words}", r.date, r.commit, r.machine);
    }
    text
}

/// The page: a score by group, then every statement that was wrong, then reasons why others were not decided.
fn page(table: &BTreeMap<String, Round>) -> String {
    let mut text = PREFACE.to_owned();
    let mut groups: BTreeMap<&str, Vec<&Round>> = BTreeMap::new();
    for (name, round) in table {
        groups.entry(name.split("::").next().unwrap_or_default()).or_default().push(round);
    }
    let sum = |rounds: &[&Round], count: fn(&Round) -> u32| rounds.iter().map(|r| count(r)).sum::<u32>();
    let mut line = |name: &str, rounds: &[&Round]| {
        let dates: BTreeSet<&str> = rounds.iter().map(|r| r.date.as_str()).collect();
        let dates = dates.first().zip(dates.last()).map_or(String::new(), |(first, last)| match first == last {
            true => (*first).to_owned(),
            false => format!("{first} to {last}"),
        });
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {dates} |",
            rounds.len(),
            sum(rounds, Round::tries),
            sum(rounds, |r| r.right),
            sum(rounds, |r| r.wrong),
            sum(rounds, |r| r.undecided)
        );
    };
    for (name, rounds) in &groups {
        line(name, rounds);
    }
    let all: Vec<&Round> = table.values().collect();
    line("**all**", &all);
    let noisy: u32 = all.iter().filter(|r| r.reason == NOT_QUIET).map(|r| r.undecided).sum();
    let machines: BTreeSet<&str> = all.iter().map(|r| r.machine.as_str()).collect();
    let _ = writeln!(
        text,
        "\nNo quiet machine: {noisy} of {} tries. Machines: {}.",
        sum(&all, Round::tries),
        Vec::from_iter(machines).join("; ")
    );
    text.push_str("\n## Wrong\n\n| statement | wrong, of tries | what it said | cause |\n|---|---|---|---|\n");
    for (name, r) in table.iter().filter(|(_, r)| r.wrong > 0) {
        let cause = if r.cause.is_empty() { "not known" } else { &r.cause };
        let _ = writeln!(text, "| {name} | {} of {} | {} | {cause} |", r.wrong, r.tries(), r.reason);
    }
    text.push_str("\n## Not decided\n\n| reason | statements |\n|---|---|\n");
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, r) in table.iter().filter(|(_, r)| r.undecided > 0) {
        reasons.entry(&r.reason).or_default().push(name);
    }
    for (reason, names) in reasons {
        let _ = writeln!(text, "| {reason} | {} |", names.join(", "));
    }
    text
}

const PREFACE: &str = "\
# What was measured, and how often it was right

`script/truth` tries each statement about a live host, one at a time and on a quiet machine, with the release binary, and writes this page
from `docs/truth.tsv`, which keeps the last round of each. A statement is a test with the label `truth`: a cause that is induced and must
be named, a number that another tool measures too, a count that the kernel knows. It is not decided where the machine lacks what it is
about, or was not quiet.

| group | statements | tries | right | wrong | not decided | dates |
|---|---|---|---|---|---|---|
";

fn of_command(command: &str, args: &[&str]) -> String {
    let output = Command::new(command).args(args).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}

/// Tries what is wanted; gives what failed.
pub fn run(root: &Path, list: &Path, options: &Options, say: &dyn Fn(&str)) -> Result<Vec<String>> {
    let mut chosen = statements(&fs::read_to_string(list).with_context(|| list.display().to_string())?)?;
    let names: BTreeSet<String> = chosen.iter().map(|s| s.name().to_owned()).collect();
    let commit = of_command("git", &["rev-parse", "HEAD"]);
    if options.minutes.is_some() && options.wanted.is_empty() {
        let groups: Vec<String> =
            BTreeSet::from_iter(chosen.iter().map(|s| s.group().to_owned())).into_iter().collect();
        let number = usize::from_str_radix(commit.get(..7).unwrap_or_default(), 16).unwrap_or_default();
        let group = groups.get(number % groups.len().max(1)).cloned().unwrap_or_default();
        say(&format!("the group of commit {}: {group}", commit.get(..8).unwrap_or_default()));
        chosen.retain(|s| s.group() == group);
    }
    if !options.wanted.is_empty() {
        chosen.retain(|s| {
            options.wanted.iter().any(|w| s.group() == w || s.name().contains(w.as_str()) && w.contains("::"))
        });
    }
    if options.is_list {
        chosen.iter().for_each(|s| say(s.name()));
        return Ok(Vec::new());
    }
    let (date, kernel) = (of_command("date", &["+%F"]), of_command("uname", &["-r"]));
    let machine = format!("{} CPUs, Linux {kernel}", std::thread::available_parallelism()?);
    let mut kept = read_table(&fs::read_to_string(root.join(TABLE)).unwrap_or_default());
    kept.retain(|name, _| names.contains(name));
    let mut table = kept.clone();
    let commit = commit.get(..8).unwrap_or_default();
    let begin = Instant::now();
    let is_over = || options.minutes.is_some_and(|minutes| begin.elapsed() > Duration::from_secs(60 * minutes));
    let mut rounds = BTreeMap::<&str, Round>::new();
    // Turn by turn: what disturbs for a while disturbs one try of each.
    for statement in (0..options.repeats).flat_map(|_| &chosen) {
        if is_over() {
            say("the time is over");
            break;
        }
        let round = rounds.entry(statement.name()).or_insert_with(|| {
            let old = kept.get(statement.name()).cloned().unwrap_or_default();
            let counted = if options.is_more { old } else { Round { cause: old.cause, ..Round::default() } };
            Round { date: date.clone(), commit: commit.into(), machine: machine.clone(), ..counted }
        });
        loop {
            round.add(attempt(statement)?);
            let is_tried_again = options.minutes.is_some() && round.wrong == round.tries() && round.wrong < MAX_TRIES;
            if !is_tried_again {
                break;
            }
        }
        let Round { right, wrong, undecided, reason, .. } = &*round;
        say(&format!("{right:>2} right {wrong:>2} wrong {undecided:>2} undecided  {}  {reason}", statement.name()));
        table.insert(statement.name().to_owned(), round.clone());
        if options.is_kept {
            fs::write(root.join(TABLE), write_table(&table))?;
            fs::write(root.join(PAGE), page(&table))?;
        }
    }
    let is_news = |(name, round): &(&&str, &Round)| {
        let is_known = kept.get(**name).is_some_and(Round::is_known_wrong);
        round.wrong == round.tries() && round.wrong >= MAX_TRIES && !is_known
    };
    let say_wrong =
        |(name, round): (&&str, &Round)| format!("{name}: wrong {0} times of {0}: {1}", round.wrong, round.reason);
    let mut failed: Vec<String> = rounds.iter().filter(is_news).map(say_wrong).collect();
    let decided: u32 = rounds.values().map(|round| round.right + round.wrong).sum();
    if decided == 0 {
        failed.push("no statement was decided\nhint: --list names them; the reasons stand above".to_owned());
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_right_wrong_or_not_decided() {
        let failed = "x\nthread 'main' panicked at a.rs:1:2:\nleft is not  right\nmore";
        assert_eq!(outcome(false, failed, ""), Outcome::Wrong("left is not right".into()));
        assert_eq!(outcome(false, "Error: a b\n", ""), Outcome::Wrong("Error: a b".into()));
        assert_eq!(outcome(true, "", ""), Outcome::Right);
        assert_eq!(outcome(true, "", "p::t\tin part: no tool\n"), Outcome::Right);
        assert_eq!(outcome(true, "", "p::t\tno | root\n"), Outcome::Undecided("no / root".into()));
    }

    #[test]
    fn the_table_comes_back_and_its_page_adds_up() {
        let mut round = Round { date: "2026-11-30".into(), cause: "a known gap".into(), ..Round::default() };
        round.add(Outcome::Wrong("said no".into()));
        assert!(round.is_known_wrong() && !Round { cause: String::new(), ..round.clone() }.is_known_wrong());
        [Outcome::Right, Outcome::Right].into_iter().for_each(|o| round.add(o));
        assert!(!round.is_known_wrong());
        let mut noisy = Round { date: "2026-12-01".into(), ..Round::default() };
        noisy.add(Outcome::Undecided(NOT_QUIET.into()));
        let table = BTreeMap::from([("a::b".to_owned(), round), ("c::d".to_owned(), noisy)]);
        assert_eq!(read_table(&write_table(&table)), table);
        let page = page(&table);
        for line in [
            "| a | 1 | 3 | 2 | 1 | 0 | 2026-11-30 |",
            "| **all** | 2 | 4 | 2 | 1 | 1 | 2026-11-30 to 2026-12-01 |",
            "No quiet machine: 1 of 4 tries.",
            "| a::b | 1 of 3 | said no | a known gap |",
            "| no quiet machine | c::d |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }

    #[test]
    fn the_page_is_made_of_the_table_that_is_kept() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |file| fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(read(PAGE), page(&read_table(&read(TABLE))), "script/truth --keep writes both");
    }

    #[test]
    fn statements_are_the_tests_with_the_label() {
        let list = r#"{"rust-suites": {"p::it": {"package-name": "p", "binary-path": "/b", "cwd": "/c", "testcases": {
            "truth::g::one": {"ignored": false, "filter-match": {"status": "matches"}}, "g::two": {"ignored": false},
            "truth::g::three": {"ignored": true}, "truth::tests::four": {"ignored": false, "filter-match": {"status": "mismatch"}}}}}}"#;
        let found = statements(list).unwrap();
        assert_eq!(found.iter().map(|s| (s.name(), s.group())).collect::<Vec<_>>(), [("g::one", "g")]);
        assert!(statements("{}").is_err());
    }

    #[test]
    fn options_that_are_not_there_are_refused() {
        let parse = |args: &[&str]| Options::parse(&args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
        let all = parse(&["--minutes", "10", "--keep", "locks"]).unwrap();
        assert_eq!((all.minutes, all.is_kept, all.wanted), (Some(10), true, vec!["locks".to_owned()]));
        assert!(parse(&["--minutes", "x"]).is_err() && parse(&["--hours"]).is_err());
    }
}
