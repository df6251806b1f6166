//! The table of docs/platforms.md says of each architecture what the code does.

use crate::Repo;
use regex::Regex;

/// The page with the table.
const PAGE: &str = "docs/platforms.md";

/// An architecture that holdup is built for.
struct Architecture {
    /// In Debian's words, as the head of the table has it.
    debian: &'static str,
    /// In Rust's, as files of folders `arch` are named.
    rust: &'static str,
}

const ARCHITECTURES: [Architecture; 4] = [
    Architecture { debian: "amd64", rust: "x86_64" },
    Architecture { debian: "arm64", rust: "aarch64" },
    Architecture { debian: "s390x", rust: "s390x" },
    Architecture { debian: "riscv64", rust: "riscv64" },
];

/// Where the code says whether an architecture has something.
enum Source {
    /// A constant of the architecture's file in a folder, or of `other.rs` there.
    Constant { folder: &'static str, name: &'static str },
    /// The architecture has a file or a folder of its name there.
    Member { folder: &'static str, is_debians: bool },
    /// A list of a script: what the line that begins so has behind it.
    List { script: &'static str, begin: &'static str },
}

/// Rows of the table, by their first cell.
const FACTS: [(&str, Source); 7] = [
    ("BPF collectors", Source::Constant { folder: "crates/holdup-evidence/src/arch", name: "PROGRAMS" }),
    ("call stacks", Source::Constant { folder: "crates/holdup-evidence/src/arch", name: "PROGRAMS" }),
    ("section maps of its binaries", Source::Member { folder: "crates/holdup-sections/src/arch", is_debians: false }),
    ("guests of it (`--target qemu`)", Source::Member { folder: "crates/holdup-guest/src/arch", is_debians: true }),
    (
        "holdfast: slice extension of rseq",
        Source::Constant { folder: "crates/holdfast/src/arch", name: "HAS_SLICE_EXTENSION" },
    ),
    ("built (`script/build --arch`)", Source::List { script: "script/lib.sh", begin: "architectures=" }),
    ("tests under emulation (`script/test`)", Source::List { script: "script/emulated-tests", begin: "tested=" }),
];

/// What is wrong with the table.
pub fn check(repo: &Repo) -> Vec<String> {
    let rows = rows(repo.text(PAGE).unwrap_or_default());
    let names: Vec<&str> = ARCHITECTURES.iter().map(|arch| arch.debian).collect();
    let mut wrong = Vec::new();
    if rows.first().is_none_or(|(_, cells)| *cells != names) {
        wrong.push(format!("{PAGE}: the head of its table is not | | {} |", names.join(" | ")));
    }
    for (fact, source) in &FACTS {
        let in_code: Result<Vec<bool>, String> = ARCHITECTURES.iter().map(|arch| has(repo, source, arch)).collect();
        match in_code {
            Ok(in_code) => wrong.extend(check_row(&rows, fact, &in_code)),
            Err(why) => wrong.push(format!("{PAGE}, {fact}: {why}")),
        }
    }
    wrong
}

/// The table's rows: the first cell and the others.
fn rows(page: &str) -> Vec<(&str, Vec<&str>)> {
    let lines = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let cells = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    cells.filter(|cells| !cells[0].starts_with('-')).map(|cells| (cells[0], cells[1..].to_vec())).collect()
}

/// A cell begins with `yes` or `no`; what follows is not checked.
fn check_row(rows: &[(&str, Vec<&str>)], fact: &str, in_code: &[bool]) -> Option<String> {
    let words: Vec<&str> = in_code.iter().map(|has| if *has { "yes" } else { "no" }).collect();
    let said: Option<Vec<&str>> = rows.iter().find(|(name, _)| *name == fact).map(|(_, cells)| {
        let word = |cell: &&str| cell.find(|c: char| !c.is_alphabetic()).unwrap_or(cell.len());
        cells.iter().map(|cell| &cell[..word(cell)]).collect()
    });
    (said.as_ref() != Some(&words)).then(|| match said {
        None => format!("{PAGE}: it has no row | {fact} | {} |", words.join(" | ")),
        Some(said) => format!("{PAGE}, {fact}: {}, and the code has {}", said.join(", "), words.join(", ")),
    })
}

/// True if an architecture has something, as the code says.
fn has(repo: &Repo, source: &Source, arch: &Architecture) -> Result<bool, String> {
    match source {
        Source::Constant { folder, name } => {
            let own = format!("{folder}/{}.rs", arch.rust);
            let file = if repo.text(&own).is_some() { own } else { format!("{folder}/other.rs") };
            let text = repo.text(&file).unwrap_or_default();
            let constant =
                Regex::new(&format!(r"const {name}: [^=]*= (true|false|Some|None)\b")).expect("a name is a word");
            let found = constant.captures(text).ok_or_else(|| format!("{file} has no constant {name}"))?;
            Ok(matches!(&found[1], "true" | "Some"))
        }
        Source::Member { folder, is_debians } => {
            let name = if *is_debians { arch.debian } else { arch.rust };
            repo.text(&format!("{folder}/mod.rs")).ok_or_else(|| format!("{folder}/mod.rs is missing"))?;
            Ok(repo.text(&format!("{folder}/{name}.rs")).is_some()
                || repo.text(&format!("{folder}/{name}/mod.rs")).is_some())
        }
        Source::List { script, begin } => {
            let text = repo.text(script).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(begin));
            let list = line.ok_or_else(|| format!("{script} has no line {begin}"))?.trim_matches('"');
            Ok(list.split_whitespace().any(|name| name == arch.debian))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| | amd64 | arm64 | s390x | riscv64 |\n|---|---|---|---|---|\n";
    const COLLECTORS: &str = "| BPF collectors | yes | no: said | no | no |\n";
    const EVIDENCE: [(&str, &str); 2] = [
        ("crates/holdup-evidence/src/arch/x86_64.rs", "const PROGRAMS: Option<Programs> = Some(Programs {"),
        ("crates/holdup-evidence/src/arch/other.rs", "const PROGRAMS: Option<Programs> = None;"),
    ];

    /// What is wrong with the row of the collectors, or the head.
    fn wrong(page: &str, more: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(&str, &str)> = EVIDENCE.iter().chain(more).copied().chain([(PAGE, page)]).collect();
        let mut wrong = check(&Repo::of(&files));
        wrong.retain(|line| line.contains("BPF") || line.contains("head"));
        wrong
    }

    #[test]
    fn a_table_that_differs_from_the_code_is_found() {
        let page = format!("{TABLE}{COLLECTORS}");
        assert_eq!(wrong(&page, &[]), Vec::<String>::new());
        let arm = ("crates/holdup-evidence/src/arch/aarch64.rs", "const PROGRAMS: Option<Programs> = Some(Programs {");
        assert_eq!(
            wrong(&page, &[arm]),
            ["docs/platforms.md, BPF collectors: yes, no, no, no, and the code has yes, yes, no, no"]
        );
        let nothing = ("crates/holdup-evidence/src/arch/aarch64.rs", "");
        assert_eq!(wrong(&page, &[nothing]).len(), 1, "no constant");
        assert_eq!(wrong(TABLE, &[]), ["docs/platforms.md: it has no row | BPF collectors | yes | no | no | no |"]);
        assert_eq!(wrong(&format!("{COLLECTORS}{TABLE}"), &[]).len(), 1, "no head");
        assert_eq!(wrong(&page.replace("| no | no |", "| no |"), &[]).len(), 1, "a cell is missing");
        assert_eq!(wrong(&page.replace("yes", "yesterday"), &[]).len(), 1, "another word");
    }

    #[test]
    fn members_and_lists_are_read() {
        let repo = Repo::of(&[
            ("a/mod.rs", ""),
            ("a/arm64.rs", ""),
            ("b/mod.rs", ""),
            ("b/aarch64/mod.rs", ""),
            ("s", "x\narchitectures=\"arm64 s390x\"\n"),
        ]);
        let of = |source: Source| ARCHITECTURES.iter().map(|arch| has(&repo, &source, arch)).collect::<Vec<_>>();
        let arm = [Ok(false), Ok(true), Ok(false), Ok(false)];
        assert_eq!(of(Source::Member { folder: "a", is_debians: true }), arm);
        assert_eq!(of(Source::Member { folder: "b", is_debians: false }), arm);
        assert_eq!(of(Source::Member { folder: "a", is_debians: false }), [const { Ok(false) }; 4]);
        let list = |begin| of(Source::List { script: "s", begin });
        assert_eq!(list("architectures="), [Ok(false), Ok(true), Ok(true), Ok(false)]);
        assert!(list("others=").iter().all(Result::is_err));
        assert!(of(Source::Member { folder: "c", is_debians: true }).iter().all(Result::is_err));
    }
}
