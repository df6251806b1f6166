//! Rules for all texts: length, words that mean "later", one title, nothing of one machine.

use crate::Repo;
use regex::Regex;

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

/// What a longer file must say, and go on to why.
const LONG: &str = "Over 600 lines because";

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
    let mut wrong = Vec::new();
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
        }
        if path.ends_with(".md") {
            let titles = titles(text);
            if titles != 1 {
                wrong.push(format!("{path}: {titles} titles (lines `# …`), one belongs"));
            }
        }
    }
    wrong
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
