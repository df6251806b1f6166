//! Numbers of the pages that are constants of the code.
//!
//! A row of [`TABLE`] has a constant and the words of a page, with `{}` where its value stands. Where the constant changes, or the
//! sentence, the row names the other one.

use crate::Repo;
use regex::Regex;

/// The constant's value as a page counts it.
type PageScale = fn(f64) -> f64;

const ONE: PageScale = |value| value;
const KB: PageScale = |bytes| bytes / 1024.0;
const MB: PageScale = |bytes| bytes / f64::from(1 << 20);
const GB: PageScale = |bytes| bytes / f64::from(1 << 30);
const MEGABYTES: PageScale = |bytes| (bytes / 1e6).round();
const MILLIONS: PageScale = |value| value / 1e6;
const MS: PageScale = |seconds| seconds * 1e3;
const MINUTES: PageScale = |seconds| seconds / 60.0;
const NS_AS_MS: PageScale = |ns| ns / 1e6;
const NS_AS_S: PageScale = |ns| ns / 1e9;
const PER_S: PageScale = |ns| 1e9 / ns;
const PERCENT: PageScale = |share| share * 100.0;

/// Sources, those of crates below `crates/`, a folder for the number of its files but `mod.rs`; constants of Rust, C, TOML or a unit, or
/// options with a default; their scales; pages; words.
#[rustfmt::skip]
const TABLE: &[(&str, &str, PageScale, &str, &str)] = &[
    ("holdup-sql/src/lib.rs", "CONNECT", ONE, "docs/security.md", "| a PostgreSQL server | {} s to connect"),
    ("holdup-sql/src/lib.rs", "GREETING_BYTES", MB, "docs/security.md", "{} MB before the first statement"),
    ("holdup-sql/src/lib.rs", "STATEMENT", ONE, "docs/security.md", "first statement; {} s, "),
    ("holdup-sql/src/lib.rs", "ANSWER_BYTES", MB, "docs/security.md", " s, {} MB, a million rows"),
    ("holdup-sql/src/lib.rs", "MOST_VALUES", MILLIONS, "docs/security.md", "{} million values for a statement"),
    ("holdup-store/src/postgres/mod.rs", "STATEMENT", ONE, "docs/security.md", "of a store {} s and "),
    ("holdup-store/src/postgres/mod.rs", "ANSWER_BYTES", MB, "docs/security.md", " s and {} MB; an hour"),
    ("holdup-store/src/folder.rs", "MOST_OF_BUNDLE", GB, "docs/security.md", "| {} GB for a bundle, "),
    ("holdup-store/src/folder.rs", "MOST_OF_INDEX", MB, "docs/security.md", "{} MB for an entry of the index"),
    ("holdup-store/src/folder.rs", "PATIENCE", MINUTES, "docs/security.md", "{} minutes for the lock"),
    ("holdup-model/src/memory.rs", "DEFAULT_BYTES", MB, "docs/security.md", "{} MB that readers count themselves"),
    ("holdup-model/src/memory.rs", "DEFAULT_BYTES", MB, "docs/security.md", "| {} MB, without an option"),
    ("holdup-bundle/src/open.rs", "MOST_BYTES_OF_A_ROW", MB, "docs/security.md", "a row of a bundle {} MB"),
    ("holdup-bundle/src/open.rs", "MOST_BYTES_OF_A_COPY", GB, "docs/security.md", "{} GB of disk with its journal"),
    ("holdup-files/src/input.rs", "MOST_BYTES_OF_TEXT", MB, "docs/security.md", "`job.json` | {} MB; "),
    ("holdup-host/src/own.rs", "MOST_BYTES", MB, "docs/security.md", " MB; {} MB; "),
    ("holdup-slurm/src/folder.rs", "MOST_BYTES", MB, "docs/security.md", "16 MB; {} MB |"),
    ("holdup-host/src/confined.rs", "DEADLINE", ONE, "docs/security.md", "as its user: {} s, "),
    ("holdup-host/src/confined.rs", "MOST_CPU_S", ONE, "docs/security.md", "{} s of CPU time, "),
    ("holdup-host/src/confined.rs", "MOST_MEMORY", MB, "docs/security.md", "{} MB of memory, "),
    ("holdup-host/src/confined.rs", "MOST_BYTES", MB, "docs/security.md", "an answer of {} MB"),
    ("holdup-survey/src/postgres/files.rs", "MOST_BYTES", MB, "docs/security.md", "{} MB of files"),
    ("holdup-survey/src/postgres/find.rs", "MOST_SERVERS", ONE, "docs/security.md", "; {} servers |"),
    ("holdup-evidence/src/processes.rs", "LARGEST_FILE", MB, "docs/security.md", "{} MB each, one at a time"),
    ("holdup-model/src/wire.rs", "MOST_BYTES", MB, "docs/security.md", "{} MB for a message with trials or a plan"),
    ("holdup-model/src/wire.rs", "MOST_BYTES_OF_OTHERS", MB, "docs/security.md", "or a plan, {} MB for others"),
    ("holdup-target/src/asking.rs", "MOST_BYTES_SAID", MB, "docs/security.md", "{} MB for the notes of an order"),
    ("holdup-target/src/asking.rs", "OPEN_TIMEOUT", MINUTES, "docs/security.md", "{} min to open a session"),
    ("holdup-target/src/asking.rs", "TRIAL_GRACE", MINUTES, "docs/security.md", "{} min beyond the planned time"),
    ("holdup-ssh/src/client.rs", "FIRST_WORD", MINUTES, "docs/security.md", "{} min for its first word"),
    ("holdup-ssh/src/client.rs", "MOST_STDERR_BYTES", MB, "docs/security.md", "commands over ssh, standard error {} MB"),
    ("holdup-ssh/src/client.rs", "SLOWEST_BYTES_PER_S", MB, "docs/security.md", "faster than {} MB/s"),
    ("holdup-ssh/src/line.rs", "MOST_STDERR", KB, "docs/security.md", "the last {} kB of standard error"),
    ("holdup/src/commands/check.rs", "MOST_BYTES_OF_HOST", MB, "docs/security.md", "`check` {} MB in "),
    ("holdup/src/commands/fleet.rs", "GRACE", MINUTES, "docs/security.md", " MB in {} min (and"),
    ("holdup/src/commands/fleet.rs", "GRACE", MINUTES, "docs/security.md", " min and {} min beside what it watches"),
    ("holdup/src/commands/record/over_ssh.rs", "MOST_BYTES_OF_WINDOW", MB, "docs/security.md", "`record` {} MB for each window"),
    ("holdup/src/commands/record/over_ssh.rs", "PREPARING", MINUTES, "docs/security.md", "in {} min and "),
    ("holdup-load/src/service/mod.rs", "MOST_HELLO_BYTES", KB, "docs/security.md", "a hello of {} kB"),
    ("holdup-exporter/src/http/mod.rs", "CONNECTIONS", ONE, "docs/security.md", "at most {} connections, one more ends the oldest"),
    ("holdup-exporter/src/http/mod.rs", "HEAD_BYTES", KB, "docs/security.md", "{} kB for the head of a request"),
    ("holdup-exporter/src/http/mod.rs", "HEAD", ONE, "docs/security.md", "the head of a request in {} s"),
    ("holdup-exporter/src/http/answer.rs", "BODY_BYTES", KB, "docs/security.md", "{} kB for a body"),
    ("holdup-exporter/src/http/answer.rs", "BODY", ONE, "docs/security.md", "for a body in {} s"),
    ("holdup-exporter/src/http/mod.rs", "LIFE", ONE, "docs/security.md", "{} s for a connection"),
    ("holdup-exporter/src/http/mod.rs", "CONNECTIONS", ONE, "docs/exporter.md", "There are at most {} connections"),
    ("holdup-exporter/src/http/mod.rs", "HEAD", ONE, "docs/exporter.md", "A request has {} s to arrive"),
    ("holdup-exporter/src/http/mod.rs", "HEAD_BYTES", KB, "docs/exporter.md", "its head at most {} KB"),
    ("holdup/src/commands/exporter/mod.rs", "series", ONE, "docs/exporter.md", "A metric has at most {} series"),
    ("holdup/src/commands/exporter/mod.rs", "window", ONE, "docs/exporter.md", "**Windows** are {} s"),
    ("holdup/src/commands/exporter/mod.rs", "before", ONE, "docs/exporter.md", "the {} minutes before (`--before`)"),
    ("holdup/src/commands/exporter/mod.rs", "after", ONE, "docs/exporter.md", "the {} s after (`--after`)"),
    ("holdup/src/commands/exporter/mod.rs", "every", ONE, "docs/exporter.md", "one in {} minutes at most"),
    ("holdup/src/commands/exporter/mod.rs", "keep", ONE, "docs/exporter.md", "at most {} GB (`--keep`"),
    ("holdup/src/commands/exporter/mod.rs", "memory", ONE, "docs/exporter.md", "`--memory {}MB`"),
    ("holdup/src/commands/exporter/mod.rs", "memory", ONE, "docs/security.md", "for windows ({} MB)"),
    ("holdup-evidence/src/kernel/fault_slices.rs", "SLICE", MS, "docs/exporter.md", "two of {} ms a second"),
    ("holdup-evidence/src/collectors/cpu_profile/mod.rs", "FREQUENCY_HZ", ONE, "docs/evidence.md", "perf's cpu-clock, {} times a second"),
    ("holdup-evidence/src/collectors/cpu_profile/mod.rs", "STACK_BYTES", KB, "docs/evidence.md", "stacks deeper than {} KB; code"),
    ("holdup-evidence/src/kernel/watch.rs", "SAMPLE_PERIOD_NS", PER_S, "docs/evidence.md", "software event cpu-clock, {} Hz"),
    ("holdup-evidence/src/kernel/load.rs", "MOST_SHARDS", ONE, "docs/evidence.md", "up to {} shards"),
    ("holdup-evidence/src/kernel/cache.rs", "MOST_FILES", ONE, "docs/evidence.md", "At most {} maps and "),
    ("holdup-evidence/src/kernel/cache.rs", "MOST_BYTES_OF_ALL", MB, "docs/evidence.md", " maps and {} MB are"),
    ("holdup-evidence/src/kernel/stats.rs", "SHARE", |share| share * 1e3, "docs/evidence.md", "it is on for {} ms of every second"),
    ("holdup-evidence/src/kernel/residuals.rs", "LINE", ONE, "docs/evidence.md", "the {} bytes of code that have a breakpoint"),
    ("holdup-evidence/src/collectors/critical_sections/residuals.bpf.h", "RESIDUAL_EVERY_NS", PER_S, "docs/evidence.md", "of at most {} holders a second"),
    ("holdup-evidence/src/collectors/critical_sections/residuals.bpf.h", "RESIDUAL_EVERY_NS", PER_S, "docs/explain.md", "up to {} preempted lock holders a second"),
    ("holdup-evidence/src/collectors/critical_sections/residuals.bpf.h", "RESIDUAL_EVERY_NS", PER_S, "README.md", "up to {} lock holders a second"),
    ("holdup-evidence/src/postgres/mod.rs", "ASKING", MS, "docs/evidence.md", "a prepared statement, every {} ms"),
    ("holdup-model/src/plan.rs", "MOST_HZ", ONE, "docs/evidence.md", "another rate, up to {} Hz"),
    ("holdup-watch/src/record.rs", "DEFAULT_WINDOWS", ONE, "docs/explain.md", "cut into windows, {} of a second at least"),
    ("holdup-stats/src/residual.rs", "MIN_RESIDUALS", ONE, "docs/explain.md", "With {} residuals or more"),
    ("holdup-host/src/stalls.rs", "UNEXPLAINED_NS", NS_AS_MS, "docs/principles.md", "no CPU for more than {} ms and "),
    ("holdup-host/src/stalls.rs", "UNEXPLAINED_SHARE", PERCENT, "docs/principles.md", " ms and {} % of the window"),
    ("holdup-model/src/metric.rs", "SAMPLES_BEYOND", ONE, "docs/principles.md", "fewer than {} samples beyond"),
    ("holdup-stats/src/verdict.rs", "MIN_BLOCKS", ONE, "docs/statistics.md", "fewer than {} blocks; or the ratio moved"),
    ("holdup-stats/src/verdict.rs", "POWER", PERCENT, "docs/statistics.md", "a chance of {} %, if the ratio"),
    ("holdup-stats/src/verdict.rs", "MOST_BLOCKS", ONE, "docs/statistics.md", "above {} none is given"),
    ("holdup-plan/src/metrics.rs", "DEFAULT_MARGIN", PERCENT, "docs/statistics.md", "the plan's margin, {} % when it names none"),
    ("holdup-plan/src/design.rs", "MAX_BLOCKS", ONE, "README.md", "at most after {} blocks"),
    ("holdup-plan/src/draft.rs", "MOST_DEPTH", ONE, "docs/plans.md", "Includes nest up to {} deep"),
    ("holdup-plan/src/draft.rs", "MOST_FILES", ONE, "docs/plans.md", " deep, {} files in all"),
    ("holdup-model/src/ends.rs", "MOST_CLIENT_HOSTS", ONE, "docs/hosts.md", "or a list of up to {}:"),
    ("holdup/src/commands/fleet.rs", "MOST_AT_ONCE", ONE, "docs/hosts.md", "ask up to {} hosts at the same time"),
    ("holdup-load/src/peer/client.rs", "ROUND_TRIPS", ONE, "docs/hosts.md", "the client asks {} times"),
    ("holdup/src/cli.rs", "dead_after", ONE, "docs/hosts.md", "silent for `--dead-after` ({}s)"),
    ("holdup/src/cluster.rs", "LEAST_PART", ONE, "docs/slurm.md", "at most one for each {} s of work"),
    ("holdup/src/cluster.rs", "LOOK", ONE, "docs/slurm.md", "before anything is submitted ({} s)"),
    ("holdup/src/cluster.rs", "BESIDE_GUESTS", GB, "docs/slurm.md", "the memory of the guests, and {} GB"),
    ("holdup-slurm/src/limits.rs", "SET_UP_MINUTES", ONE, "docs/slurm.md", "for a simulation), and {} minutes"),
    ("holdup-survey/src/postgres/files.rs", "LONGEST_FILE", MB, "docs/check.md", "at most {} MiB of one"),
    ("holdup-survey/src/postgres/files.rs", "MOST_BYTES", MB, "docs/check.md", "of one and {} MiB of all of a server"),
    ("holdup-host/src/confined.rs", "DEADLINE", ONE, "docs/check.md", "of all of a server, in at most {} s"),
    ("holdup-survey/src/postgres/find.rs", "MOST_SERVERS", ONE, "docs/check.md", "At most {} servers are looked at"),
    ("holdup-survey/src/postgres/find.rs", "MOST_IN_TREE", ONE, "docs/check.md", "in a captured tree at most {} processes"),
    ("holdup/src/commands/tune/confirm.rs", "BLOCKS", ONE, "docs/tune.md", "in up to {} blocks"),
    ("holdup-search/src/tune.rs", "SEARCH_SHARE", PERCENT, "docs/tune.md", "at {} % of the budget"),
    ("holdup/src/commands/bisect/candidates.rs", "MOST_VALUES", ONE, "docs/bisect.md", "where there are more than {};"),
    ("holdup-search/src/ahead.rs", "NICENESS", ONE, "docs/bisect.md", "with a niceness of {}"),
    ("holdup-target/src/sim/timeline.rs", "MOST", ONE, "docs/simulator.md", "There is room for {} events"),
    ("holdup-calibration/src/bench.rs", "LONGEST_NS", NS_AS_S, "docs/simulator.md", "with at most {} s for each of"),
    ("holdup-knobs/src/knobs/", "", ONE, "README.md", "{} [knobs]"),
    ("packaging/systemd/holdup-exporter.service", "MemoryMax", ONE, "docs/exporter.md", "limits memory to {} MB"),
    ("packaging/systemd/holdup-exporter.service", "CPUQuota", ONE, "docs/exporter.md", "CPU time to {} % of one CPU"),
    ("budgets.toml", "release_bytes", MEGABYTES, "docs/performance.md", "| release binary | {} MB;"),
    ("budgets.toml", "release_bytes", MEGABYTES, "docs/install.md", "the program alone ({} MB,"),
];

/// The causes, each in a file with its threshold.
const CAUSES: &str = "crates/holdup-analysis/src/explanations";
/// The page with their table.
const EXPLAIN: &str = "docs/explain.md";

/// Finds constants that are not there, and sentences that say another number.
pub fn check(repo: &Repo) -> Vec<String> {
    let rows = TABLE.iter().filter_map(|(source, name, scale, page, words)| {
        let is_of_crate = source.starts_with("holdup");
        let path = if is_of_crate { format!("crates/{source}") } else { (*source).to_owned() };
        let found =
            if path.ends_with('/') { files_in(repo, &path) } else { repo.text(&path).and_then(|t| constant(t, name)) };
        let Some(value) = found else {
            return Some(format!("{path}: no constant {name}: mend its row in crates/xtask/src/constants.rs"));
        };
        let words = words.replace("{}", &shown(scale(value)));
        (!says(repo, page, &words)).then(|| format!("{page}: by {name} in {path} it must say \"{words}\""))
    });
    rows.chain(thresholds(repo)).collect()
}

/// Thresholds of causes that their rows in the page do not say.
fn thresholds(repo: &Repo) -> impl Iterator<Item = String> {
    let page = repo.text(EXPLAIN).unwrap_or_default();
    repo.under(CAUSES).filter_map(move |(file, text)| {
        let minimum = constant(text, "minimum").filter(|minimum| *minimum > 0.0)?;
        let (cause, share) = (file.trim_end_matches(".rs").replace('_', "-"), shown(PERCENT(minimum)));
        let row = page.lines().find(|line| line.starts_with(&format!("| `{cause}` |")));
        let is_said = row.is_some_and(|row| row.contains(&format!("| {share} % |")));
        (!is_said).then(|| format!("{EXPLAIN}: the row of `{cause}` must say that its threshold is {share} %"))
    })
}

/// True if a page has these words, on one line or over several.
fn says(repo: &Repo, page: &str, words: &str) -> bool {
    let text = repo.text(page).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
}

fn files_in(repo: &Repo, folder: &str) -> Option<f64> {
    let files = repo.under(folder.trim_end_matches('/')).filter(|(name, _)| *name != "mod.rs" && !name.contains('/'));
    Some(files.count() as f64).filter(|count| *count > 0.0)
}

/// The value of a constant in a source.
fn constant(source: &str, name: &str) -> Option<f64> {
    let name = regex::escape(name);
    let patterns = [
        format!(r"\bconst {name}: [^=]+= ([^;]+);"),
        format!(r"#define {name} (\S+)"),
        format!(r"(?m)^{name} ?= ?([\d_]+)[M%]?$"),
        format!(r"\b{name}: ([\d.]+) \}}"),
        format!(r#"default_value(?:_t)? = "?(\d+)[^\]]*\]\s*(?:pub(?:\([a-z]+\))? )?{name}:"#),
    ];
    let found = |pattern: &String| Some(Regex::new(pattern).ok()?.captures(source)?.get(1)?.as_str());
    value(patterns.iter().find_map(found)?)
}

/// The value of an expression of numbers; a duration in seconds, of a range its end.
fn value(text: &str) -> Option<f64> {
    let text = text.rsplit("..=").next()?.trim();
    for operator in [" << ", " * ", " / "] {
        if let Some((a, b)) = text.split_once(operator) {
            let (a, b) = (value(a)?, value(b)?);
            return Some(match operator {
                " << " => a * b.exp2(),
                " * " => a * b,
                _ => a / b,
            });
        }
    }
    for (call, unit_s) in [("Duration::from_secs(", 1.0), ("Duration::from_millis(", 1e-3)] {
        if let Some(count) = text.strip_prefix(call) {
            return Some(value(count.trim_end_matches(')'))? * unit_s);
        }
    }
    text.trim_end_matches("ull").replace('_', "").parse().ok()
}

/// A number as pages write it: thousands have commas.
pub(crate) fn shown(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, rest) = text.find('.').map_or((text, ""), |at| text.split_at(at));
    let digits: Vec<char> = whole.chars().collect();
    let groups: Vec<String> = digits.rchunks(3).rev().map(|group| group.iter().collect()).collect();
    groups.join(",") + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_all_kinds_are_read() {
        let source = "pub(crate) const A: u64 = 64 << 20;\nconst B: Duration = Duration::from_millis(500);\n#define C 50000000ull\n\
                      const D: R = 6..=60;\nK { minimum: 0.05 };\n#[arg(default_value = \"10m\", value_parser = d)]\n    before: Duration,";
        let read = ["A", "B", "C", "D", "minimum", "before", "E"].map(|name| constant(source, name));
        assert_eq!(read, [67_108_864.0, 0.5, 5e7, 60.0, 0.05, 10.0, 0.0].map(|v| Some(v).filter(|v| *v > 0.0)));
        assert_eq!(constant("release_bytes = 26869536\n", "release_bytes").map(MEGABYTES), Some(27.0));
        assert_eq!([1.5, 100_000.0, 64.0].map(shown), ["1.5", "100,000", "64"]);
    }

    #[test]
    fn pages_that_say_another_number_are_found() {
        let page = "| `steal` | a | b | 3 % | c |\nIncludes nest up\nto 8 deep, 9 files in all";
        let cause = ("crates/holdup-analysis/src/explanations/steal.rs", "K { minimum: 0.02 };");
        let draft = ("crates/holdup-plan/src/draft.rs", "const MOST_DEPTH: usize = 8;\nconst MOST_FILES: usize = 32;");
        let wrong = check(&Repo::of(&[("docs/plans.md", page), ("docs/explain.md", page), cause, draft]));
        assert!(wrong.iter().any(|line| line.contains("must say \" deep, 32 files")), "{wrong:#?}");
        assert!(wrong.iter().any(|line| line.contains("`steal` must say that its threshold is 2 %")), "{wrong:#?}");
        assert!(!wrong.iter().any(|line| line.contains("MOST_DEPTH")), "{wrong:#?}");
    }
}
