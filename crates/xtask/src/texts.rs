//! Rules for all texts: length of files and crates, words that mean "later" or that docs/style.md replaces, one title,
//! nothing of one machine.

use crate::Repo;
use regex::Regex;
use std::collections::BTreeMap;

/// Files of which people wrote no line, or that must hold what is forbidden elsewhere.
fn is_made(path: &str) -> bool {
    path.ends_with(".lock")
        || path.ends_with("package-lock.json")
        || path.ends_with(".snap")
        || path.starts_with("crates/holdup-report/assets/")
        || path.contains("/tests/fixtures/")
        || path.contains("/tests/corpus/")
        || path.starts_with("fuzz/corpus/")
}

/// How long a file of code may be.
const MOST_LINES: usize = 600;

/// What a longer file must say, and continue with the reason.
const LONG: &str = "Over 600 lines because";

/// How long the sources of a crate may be.
const MOST_CRATE_LINES: usize = 12_000;

/// Words that docs/style.md replaces, as words of a sentence and as parts of an identifier.
const REPLACED: &str = r#"(?x)
    (?i:(?:^|[^a-z])(?:t[e]lls?|t[o]ld|t[e]lling|who[e]ver|so\ m[a]ny|at\ o[n]ce|comes\ t[o]|stand-i[n]
        |witn[e]ss(?:es)?|he[a]rd|he[a]rs|what[e]ver|g[o]es\ on|still\ g[o]ing\ on)(?:[^a-z]|$))
    | (?i:stand_i[n](?:[^a-z_]|$)|of\ its\ o[w]n(?:[.,;:)|]|$)|(?:^|[^a-z"`:])no[b]ody[^a-z"`:@])
    | (?:T[o]ld|T[e]lls|He[a]rd|Who[e]ver|No[b]ody|StandI[n]|Witn[e]ss|Gl[a]nce)(?:[^a-z]|$)"#;

/// Files that keep the words: history, the page that names them, scripts that use the account of that name, and patches, whose
/// words are those of the project that they are for.
fn may_use_replaced_words(path: &str) -> bool {
    ["docs/journal/", "LICENSE", "CHANGELOG.md", "docs/style.md", "script/capture/", "patches/postgresql-"]
        .iter()
        .any(|begin| path.starts_with(begin))
}

/// Words that stand for work that is not done, and names that belong to one machine. Put together from parts, so that
/// this file does not hold them.
fn forbidden() -> Vec<(Regex, &'static str)> {
    let words = [
        (["\\bto", "do!"].concat(), "unfinished work"),
        (["\\bunimple", "mented!"].concat(), "unfinished work"),
        (["\\bFIX", "ME\\b"].concat(), "unfinished work"),
        (["\\bXX", "X\\b"].concat(), "unfinished work"),
        (["(^|[\\s\"'`(=:<>])/wo", "rk/"].concat(), "a path of one machine"),
        (["\\bregistry\\.np", "mjs\\.org\\b"].concat(), "the host of a registry"),
        (["\\b(static|index)\\.cra", "tes\\.io\\b"].concat(), "the host of a registry"),
        (["\\b(files\\.python", "hosted\\.org|pypi\\.o", "rg)\\b"].concat(), "the host of a registry"),
        (["\\bproxy\\.go", "lang\\.org\\b"].concat(), "the host of a registry"),
    ];
    words.into_iter().map(|(w, what)| (Regex::new(&w).expect("the patterns are valid"), what)).collect()
}

/// What is wrong with the texts.
pub fn check(repo: &Repo) -> Vec<String> {
    let forbidden = forbidden();
    let replaced = Regex::new(REPLACED).expect("the pattern is valid");
    let mut wrong = [long_crates(repo), changelog(repo)].concat();
    for (path, text) in repo.texts() {
        if path.ends_with("package-lock.json") && text.contains("\"resolved\": \"http") {
            wrong.push(format!(
                "{path}: names the hosts that packages were fetched from: npm install --omit-lockfile-registry-resolved"
            ));
        }
        if is_made(path) {
            continue;
        }
        let lines = text.lines().count();
        let is_code = [".rs", ".ts", ".mjs", ".css", ".sh", ".sql"].iter().any(|end| path.ends_with(end));
        if is_code && lines > MOST_LINES && !text.contains(LONG) {
            wrong.push(format!("{path}: {lines} lines, at most {MOST_LINES} (or a comment \"{LONG} …\")"));
        }
        for (number, line) in text.lines().enumerate() {
            for (pattern, what) in &forbidden {
                if pattern.is_match(line) {
                    wrong.push(format!("{path}:{}: {what}: {}", number + 1, line.trim()));
                }
            }
            if !may_use_replaced_words(path) && !line.contains("serde(alias") && replaced.is_match(line) {
                wrong.push(format!("{path}:{}: a word that docs/style.md replaces: {}", number + 1, line.trim()));
            }
        }
        if path.ends_with(".md") {
            let titles = titles(text);
            // The parts of mdBook's summary are titles, too.
            if titles != 1 && path != crate::site::SUMMARY {
                wrong.push(format!("{path}: {titles} titles (lines `# …`), one belongs"));
            }
        }
    }
    wrong
}

/// Headings of CHANGELOG.md that Keep a Changelog has not; script/release looks for them.
fn changelog(repo: &Repo) -> Vec<String> {
    let form = r"^(## \[Unreleased\]|## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d|### (Added|Changed|Deprecated|Removed|Fixed|Security))$";
    let form = Regex::new(form).expect("the pattern is valid");
    let lines = repo.text("CHANGELOG.md").unwrap_or_default().lines();
    let headings = lines.filter(|line| line.starts_with("##"));
    headings
        .filter(|line| !form.is_match(line))
        .map(|line| format!("CHANGELOG.md: no heading of a changelog: {line}"))
        .collect()
}

/// Crates with more than 12,000 lines of sources, for which ARCHITECTURE.md gives no reason.
fn long_crates(repo: &Repo) -> Vec<String> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, text) in repo.texts() {
        let parts: Vec<&str> = path.split('/').collect();
        let is_source = [".rs", ".c", ".h"].iter().any(|end| path.ends_with(end));
        if let (true, ["crates", name, "src", ..]) = (is_source, &parts[..]) {
            *lines.entry(name).or_default() += text.lines().count();
        }
    }
    let reasons = repo.text("ARCHITECTURE.md").unwrap_or_default();
    let is_long = |name: &str, n: usize| {
        n > MOST_CRATE_LINES && !reasons.contains(&format!("`{name}` is over 12,000 lines because"))
    };
    lines
        .into_iter()
        .filter(|(name, n)| is_long(name, *n))
        .map(|(name, n)| {
            format!("crates/{name}: {n} lines of src, at most {MOST_CRATE_LINES} (or a reason in ARCHITECTURE.md)")
        })
        .collect()
}

/// Lines `# …` outside of fenced code.
fn titles(text: &str) -> usize {
    let mut fenced = false;
    text.lines()
        .filter(|line| {
            fenced ^= line.trim_start().starts_with("```");
            !fenced && line.starts_with("# ")
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(path: &str, text: &str) -> usize {
        check(&Repo::of(&[(path, text)])).len()
    }

    #[test]
    fn words_paths_and_hosts_are_found() {
        let join = |parts: &[&str]| parts.concat();
        for text in [
            join(&["to", "do!()"]),
            join(&["unimple", "mented!()"]),
            join(&["// FIX", "ME: later"]),
            join(&["// XX", "X"]),
            join(&["cd /wo", "rk/main"]),
            join(&["\"/wo", "rk/main\""]),
            join(&["https://registry.np", "mjs.org/x"]),
        ] {
            assert_eq!(wrong("a.rs", &text), 1, "{text}");
            assert_eq!(wrong("Cargo.lock", &text), 0, "{text}");
        }
        let inside = ["net/wo", "frame/wo"].map(|begin| join(&[begin, "rk/x"]));
        for text in ["todo list", "mktemp /tmp/a.XXXXXX"].into_iter().chain(inside.iter().map(String::as_str)) {
            assert_eq!(wrong("a.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn long_files_need_a_reason() {
        let long = "x\n".repeat(601);
        assert_eq!(wrong("a.rs", &long), 1);
        assert_eq!(wrong("a.rs", &long[2..]), 0);
        assert_eq!(wrong("a.rs", &format!("// {LONG} it is a table.\n{long}")), 0);
        assert_eq!(wrong("a.snap", &long), 0);
    }

    #[test]
    fn replaced_words_are_found_in_sentences_and_identifiers() {
        let words = [
            "t-old",
            "who-ever",
            "so ma-ny",
            "at on-ce",
            "no-body",
            "is_t-old",
            "T-old",
            "stand_i-n",
            "StandI-n",
            "it te-lls",
        ];
        for word in words.map(|word| word.replace('-', "")) {
            assert_eq!(wrong("a.rs", &format!("// {word} x")), 1, "{word}");
            assert_eq!(wrong("docs/journal/a.md", &format!("# {word}")), 0, "{word}");
        }
        for text in ["hold", "retold", "intellect", "at one", "shoulder"] {
            assert_eq!(wrong("a.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn long_crates_need_a_reason() {
        let half = "x\n".repeat(MOST_LINES);
        let files: Vec<(String, &str)> = (0..21).map(|n| (format!("crates/a/src/{n}.rs"), half.as_str())).collect();
        let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        assert_eq!(check(&Repo::of(&files)).len(), 1);
        assert_eq!(check(&Repo::of(&files[1..])).len(), 0);
        files.push(("ARCHITECTURE.md", "# A\n`a` is over 12,000 lines because it is."));
        assert_eq!(check(&Repo::of(&files)).len(), 0);
    }

    #[test]
    fn headings_of_the_changelog_are_those_of_its_form() {
        assert_eq!(wrong("CHANGELOG.md", "# C\n## [Unreleased]\n### Added\n## [0.1.0] - 2026-11-28\n"), 0);
        for heading in ["## 0.1.0", "## [0.1.0] (unreleased)", "### New"] {
            assert_eq!(wrong("CHANGELOG.md", &format!("# C\n{heading}\n")), 1, "{heading}");
        }
    }

    #[test]
    fn markdown_has_one_title() {
        assert_eq!(wrong("a.md", "# A\n\n```sh\n# comment\n```\n## B\n"), 0);
        assert_eq!(wrong("a.md", "# A\n# B\n"), 1);
        assert_eq!(wrong("a.md", "text\n"), 1);
    }

    #[test]
    fn a_lock_file_that_names_hosts_is_found() {
        assert_eq!(wrong("web/package-lock.json", "\"resolved\": \"https://mirror/x.tgz\""), 1);
        assert_eq!(wrong("web/package-lock.json", "\"integrity\": \"sha512-x\""), 0);
    }
}
