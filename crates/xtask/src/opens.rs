//! Files are opened through `holdup-files`.
//!
//! A direct open of the standard library follows links, waits for a FIFO, opens a device and knows no bound. Where that
//! cannot do harm, the file stands in [`DIRECT`] with the reason.

use crate::Repo;
use regex::Regex;
use std::collections::BTreeSet;

/// The page with the table of what is acted upon.
const SECURITY: &str = "docs/security.md";

/// Sources that hand on what reads such files.
const HAND_ON: [&str; 2] = ["crates/holdup-host/src/lib.rs", "crates/holdup-host/src/own.rs"];

/// The crate that opens files for the others.
const LAYER: &str = "crates/holdup-files/";

/// Sources that open files themselves, and why that is safe: a file, or a folder with a closing `/`.
pub const DIRECT: &[(&str, &str)] = &[
    (
        "crates/holdup-host/src/fs.rs",
        "the kernel's own files under /proc and /sys, and /dev/cpu_dma_latency; all else goes through holdup-files or \
         openat2 beneath a root",
    ),
    ("crates/holdup-host/src/lock.rs", "makes /run where it is missing; check_ancestors looks at it before it is used"),
    ("crates/holdup-host/src/memory.rs", "the kernel's own file /proc/PID/mem"),
    (
        "crates/holdup-host/src/network/",
        "the kernel's own files under /proc, and a tmpfs that is mounted over /tmp in a mount namespace of holdup's own",
    ),
    ("crates/holdup-host/src/perf_samples/mod.rs", "the kernel's own file /proc/self/mem"),
    (
        "crates/holdup/src/commands/packets/input.rs",
        "only what a capture is and which names are in a folder of captures; they are opened by holdup-files",
    ),
    ("crates/holdup/src/commands/packets/together.rs", "sizes alone"),
    (
        "crates/holdup-target/src/qemu/",
        "configurations of kernels beneath the cache, which private_folder opened, and of the running kernel",
    ),
    ("crates/holdup-guest/src/init.rs", "the first process of a guest: its own /proc, /sys and /dev"),
    ("crates/holdup-guest/src/machine/choose.rs", "/dev/kvm"),
    ("crates/holdup-ssh/src/copy.rs", "the kernel's own file /proc/self/exe"),
    ("crates/holdup-guest/src/image/cache.rs", "beneath the cache, which private_folder opened"),
    (
        "crates/holdup-guest/src/image/template.rs",
        "beneath the cache, which private_folder opened; copies there of programs that were found by type",
    ),
    (
        "crates/holdup-guest/src/image/mod.rs",
        "where links of the user's files lead, their types and names; contents are read by holdup-files",
    ),
    (
        "crates/holdup-guest/src/image/modules.rs",
        "names in a kernel's folder of modules; contents are read by holdup-files",
    ),
    (
        "crates/holdup-guest/src/image/roots.rs",
        "links, types and names of the system's programs; contents are read by holdup-files",
    ),
    (
        "crates/holdup-postgres/src/pgbench/builds.rs",
        "copies from the cache, which private_folder opened, to a PrivateDir that only this user writes to",
    ),
    (
        "crates/holdup-kernels/src/archive/",
        "what is unpacked into a fresh folder beneath the cache: O_EXCL, and no component may be a link",
    ),
    (
        "crates/holdup-kernels/src/build/",
        "folders of builds beneath the cache, which private_folder opened; types and names in a source tree that the user named, whose contents are read by holdup-files",
    ),
    ("crates/holdup-kernels/src/cache/", "beneath the cache, which private_folder opened"),
    ("crates/holdup-kernels/src/debian/", "apt's folder beneath the cache, which private_folder opened"),
    ("crates/holdup-kernels/src/files.rs", "manifests and sizes beneath the cache, which private_folder opened"),
    ("crates/holdup-calibration/src/statements.rs", "/proc/PID"),
    ("crates/holdup-postgres/src/find.rs", "the folders in which distributions put PostgreSQL's programs are listed"),
];

/// What is wrong with the sources of the crates that are released, and with [`DIRECT`] itself.
pub fn check(repo: &Repo) -> Vec<String> {
    check_with(repo, DIRECT)
}

fn check_with(repo: &Repo, direct: &[(&str, &str)]) -> Vec<String> {
    let opens = Regex::new(
        r"\bFile::(open|create|options)\b|\bOpenOptions::new\b|\bDirBuilder::new\b|\bfs::(read|read_to_string|read_dir|write|copy|rename|remove_dir\w*|create_dir\w*|set_permissions|hard_link)\b",
    )
    .expect("the pattern is valid");
    let (mut wrong, mut used) = (Vec::new(), vec![false; direct.len()]);
    for (path, number, code) in released(repo) {
        if path.starts_with(LAYER) || !opens.is_match(code) {
            continue;
        }
        let is_it = |(place, _): &(&str, &str)| path == *place || place.ends_with('/') && path.starts_with(place);
        match direct.iter().position(is_it) {
            Some(at) => used[at] = true,
            None => wrong.push(format!(
                "{path}:{number}: opens files itself: take holdup-files, or give the reason in {}: {}",
                "crates/xtask/src/opens.rs",
                code.trim()
            )),
        }
    }
    for ((place, _), used) in direct.iter().zip(used) {
        if !used {
            wrong.push(format!("crates/xtask/src/opens.rs: {place} opens no files itself any more"));
        }
    }
    wrong
}

/// The lines of sources that are released, without tests and comments: path, number, code.
fn released(repo: &Repo) -> impl Iterator<Item = (String, usize, &str)> {
    let is_released = |path: &str| {
        let is_of_developers = ["xtask/", "holdup-testkit/", "holdup-induce/"].iter().any(|of| path.starts_with(of));
        let is_test = path.contains("/tests/") || path.ends_with("_tests.rs") || path.ends_with("/tests.rs");
        path.ends_with(".rs") && path.contains("/src/") && !is_of_developers && !is_test
    };
    repo.under("crates").filter(move |(path, _)| is_released(path)).flat_map(|(path, text)| {
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").zip(1..);
        lines.map(move |(line, number)| (format!("crates/{path}"), number, line.split("//").next().unwrap_or_default()))
    })
}

/// Differences between the sources that read files which are acted upon and the table in docs/security.md, which names them.
pub fn own_reads(repo: &Repo) -> Vec<String> {
    let call = Regex::new(r"(\bfn )?\b(?:open_own|read_own)\b").expect("the pattern is valid");
    let source = Regex::new(r"`(holdup[\w-]*/src/[\w/]+\.rs)`").expect("the pattern is valid");
    let calls = |code: &str| call.captures_iter(code).any(|found| found.get(1).is_none());
    let callers = released(repo).filter(|(path, _, code)| !HAND_ON.contains(&path.as_str()) && calls(code));
    let callers: BTreeSet<String> = callers.map(|(path, ..)| path).collect();
    let text = repo.text(SECURITY).unwrap_or_default();
    let part = text.split("\n## ").find(|part| part.starts_with("Files that are acted upon")).unwrap_or_default();
    let (mut wrong, mut named) = (Vec::new(), BTreeSet::new());
    for row in part.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let sources: Vec<String> = source.captures_iter(row).map(|found| format!("crates/{}", &found[1])).collect();
        if sources.is_empty() {
            wrong.push(format!("{SECURITY}: no source reads this: name it, or remove the row: {row}"));
        }
        named.extend(sources);
    }
    wrong.extend(callers.difference(&named).map(|path| {
        format!("{path}: acts upon files of holdup's own: add them to \"Files that are acted upon\" in {SECURITY}")
    }));
    wrong.extend(named.difference(&callers).map(|path| {
        format!("{SECURITY}: {path} reads nothing by open_own or read_own: let it do so, or remove it from the table")
    }));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_reads_and_rows_without_each_other_are_found() {
        let calls = "// read_own(\nfn read_own(&self) {}\nfn a() { Folder::open_own(p) }\n#[cfg(test)]\nread_own(";
        let wrong = |source: &str, rows: &str| {
            let page =
                format!("# A\n\n## Files that are acted upon\n\n| file | |\n|---|---|\n{rows}\n## B\n| c | d |\n");
            let files = [
                (SECURITY, &*page),
                ("crates/holdup-a/src/b.rs", source),
                ("crates/holdup-host/src/own.rs", calls),
                ("crates/holdup-a/tests/b.rs", calls),
            ];
            own_reads(&Repo::of(&files))
        };
        let row = "| c | `holdup-a/src/b.rs` |\n";
        assert_eq!(wrong(calls, row), Vec::<String>::new());
        assert!(wrong(calls, "")[0].starts_with("crates/holdup-a/src/b.rs: acts upon files"));
        let without = calls.replace("Folder::open_own(p)", "Folder::open(p)");
        assert!(wrong(&without, row)[0].contains("crates/holdup-a/src/b.rs reads nothing by open_own"));
        assert!(wrong(calls, &format!("{row}| e | |\n"))[0].contains("no source reads this"));
    }

    #[test]
    fn direct_opens_and_superfluous_reasons_are_found() {
        let opening =
            "use std::fs;\nfn a() { fs::read_to_string(p) }\n// fs::read\n#[cfg(test)]\nmod tests { fs::read(p) }";
        let repo = Repo::of(&[
            ("crates/a/src/lib.rs", opening),
            ("crates/a/tests/x.rs", opening),
            ("crates/xtask/src/lib.rs", opening),
            ("crates/holdup-files/src/lib.rs", opening),
            ("crates/b/src/x/y.rs", "let f = File::open(p)?;"),
        ]);
        let wrong = check_with(&repo, &[]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("crates/a/src/lib.rs:2: "), "{wrong:?}");
        let reasons = [("crates/a/src/lib.rs", "r"), ("crates/b/src/x/", "r")];
        assert_eq!(check_with(&repo, &reasons), Vec::<String>::new());
        let one_more = [reasons[0], reasons[1], ("crates/c/", "r")];
        assert_eq!(check_with(&repo, &one_more).len(), 1);
    }
}
