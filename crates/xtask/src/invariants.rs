//! Every invariant of ARCHITECTURE.md names a test that exists, and so does a page that names one.

use crate::Repo;
use regex::Regex;

/// What is wrong with the invariants.
pub fn check(repo: &Repo) -> Vec<String> {
    let Some(text) = repo.text("ARCHITECTURE.md") else { return vec!["ARCHITECTURE.md is missing".to_owned()] };
    let form = Regex::new(r"^\*\*Invariant:\*\* .+ Test: `([a-z0-9_]+)`\.$").expect("the pattern is valid");
    let mut wrong = Vec::new();
    let mut found = 0;
    for paragraph in text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")) {
        if !paragraph.starts_with("**Invariant") {
            continue;
        }
        found += 1;
        match form.captures(&paragraph) {
            None => {
                wrong.push(format!("ARCHITECTURE.md: is not `**Invariant:** TEXT. Test: NAME`.: {paragraph}"));
            }
            Some(captures) if !exists(repo, &captures[1]) => {
                wrong.push(format!("ARCHITECTURE.md: there is no test `{}`: {paragraph}", &captures[1]));
            }
            Some(_) => {}
        }
    }
    if found == 0 {
        wrong.push("ARCHITECTURE.md: names no invariant".to_owned());
    }
    wrong.extend(of_pages(repo));
    wrong
}

/// Tests that a page names, as `Test: NAME` or `Tests: NAME, NAME`, and that are not there.
fn of_pages(repo: &Repo) -> Vec<String> {
    let form = Regex::new(r"\bTests?:\s+((?:`[a-z0-9_]+`(?:,\s+|\s+and\s+)?)+)").expect("the pattern is valid");
    let named = |text: &str| -> Vec<String> {
        let lists = form
            .captures_iter(text)
            .flat_map(|found| found[1].split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>());
        lists.collect()
    };
    let pages = repo.under("docs").filter(|(name, _)| name.ends_with(".md") && !name.starts_with("journal/"));
    let missing = pages.flat_map(|(page, text)| named(text).into_iter().map(move |name| (page, name)));
    let missing = missing.filter(|(_, name)| !exists(repo, name));
    missing.map(|(page, name)| format!("docs/{page}: there is no test `{name}`")).collect()
}

/// True if a test of this name is in the sources and runs with the others: a function below `#[test]` without
/// `#[ignore]`, or one of the names in `holdup_testkit::tests!` that do not run by hand. What takes root is run with
/// those that are ignored (script/test).
fn exists(repo: &Repo, name: &str) -> bool {
    let attributed = format!(r"#\[test\]\s*((?:#\[[^\n]*\]\s*|//[^\n]*\n\s*)*)fn {name}\(");
    let attributed = Regex::new(&attributed).expect("names are words");
    let listed = Regex::new(r"holdup_testkit::tests!\(([^)]*)\)").expect("the pattern is valid");
    let is_name = |word: &str| word.trim().rsplit("::").next() == Some(name);
    repo.texts().filter(|(path, _)| path.ends_with(".rs")).any(|(_, text)| {
        attributed.captures_iter(text).any(|found| !found[1].contains("#[ignore") || found[1].contains("takes root"))
            || listed.captures_iter(text).any(|found| {
                found[1]
                    .split(';')
                    .filter(|list| !list.contains("by_hand:"))
                    .any(|list| list.split([',', ' ']).any(is_name))
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(architecture: &str, source: &str) -> usize {
        check(&Repo::of(&[("ARCHITECTURE.md", architecture), ("crates/a/src/lib.rs", source)])).len()
    }

    #[test]
    fn invariants_without_their_test_are_found() {
        let good = "# A\n\n**Invariant:** Down is\ndown. Test: `it_is`.\n";
        assert_eq!(wrong(good, "#[test]\nfn it_is() {}"), 0);
        assert_eq!(wrong(good, "#[test]\n#[ignore = \"takes root\"]\nfn it_is() {}"), 0, "script/test runs it");
        assert_eq!(wrong(good, "fn it_is() {}\nholdup_testkit::tests!(a, it_is; by_hand: b);"), 0);
        assert_eq!(wrong(good, "    #[test]\n    #[ignore = \"slow\"]\n    fn it_is() {}"), 1, "never run");
        assert_eq!(wrong(good, "fn it_is() {}\nholdup_testkit::tests!(a; by_hand: it_is);"), 1, "run by hand");
        assert_eq!(wrong(good, "fn it_is() {}"), 1, "not a test");
        assert_eq!(wrong(good, "#[test]\nfn it_is_not() {}"), 1, "another test");
        assert_eq!(wrong("**Invariant:** Down.\n", ""), 1, "no test named");
        assert_eq!(wrong("# A\n", ""), 1, "no invariants");
        let page = ("docs/a.md", "Never. Tests: `it_is`,\n`it_is_gone`.");
        let source = ("crates/a/src/lib.rs", "#[test]\nfn it_is() {}");
        assert_eq!(
            check(&Repo::of(&[("ARCHITECTURE.md", good), source, page])),
            ["docs/a.md: there is no test `it_is_gone`"]
        );
    }
}
