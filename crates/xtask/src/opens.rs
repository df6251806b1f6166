//! Files are opened through `holdup-files`.
//!
//! A direct open of the standard library follows links, waits for a FIFO, opens a device and knows no bound. Where that
//! cannot do harm, the file stands in [`DIRECT`] with the reason.

use crate::Repo;
use regex::Regex;

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
    ("crates/holdup/src/commands/export/parts.rs", "makes the folder that the user named; the files in it are Outputs"),
    (
        "crates/holdup/src/commands/packets/input.rs",
        "only what a capture is and which names are in a folder of captures; they are opened by holdup-files",
    ),
    ("crates/holdup/src/commands/packets/together.rs", "sizes alone"),
    (
        "crates/holdup-bundle/src/write.rs",
        "O_CREAT|O_EXCL, and the removal of what that made; SQLite opens it with SQLITE_OPEN_NOFOLLOW",
    ),
    (
        "crates/holdup-target/src/qemu/",
        "configurations of kernels beneath the cache, which private_folder opened, and of the running kernel",
    ),
    (
        "crates/holdup-target/src/merge.rs",
        "names alone, of a bundle that holdup-bundle made with O_EXCL; a link is refused where a file stands",
    ),
    ("crates/holdup-target/src/sim/calibrate.rs", "the folders above a machine file; the file is an Output"),
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
    for (path, text) in repo.under("crates") {
        let path = format!("crates/{path}");
        let is_of_developers = ["crates/xtask/", "crates/holdup-testkit/", "crates/holdup-induce/"]
            .iter()
            .any(|crate_| path.starts_with(crate_));
        let is_released = path.ends_with(".rs") && path.contains("/src/") && !is_of_developers;
        let is_test = path.contains("/tests/") || path.ends_with("_tests.rs") || path.ends_with("/tests.rs");
        if !is_released || is_test || path.starts_with(LAYER) {
            continue;
        }
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
        for (number, line) in lines {
            let code = line.split("//").next().unwrap_or_default();
            if !opens.is_match(code) {
                continue;
            }
            let is_it = |(place, _): &(&str, &str)| path == *place || place.ends_with('/') && path.starts_with(place);
            match direct.iter().position(is_it) {
                Some(at) => used[at] = true,
                None => wrong.push(format!(
                    "{path}:{}: opens files itself: take holdup-files, or give the reason in {}: {}",
                    number + 1,
                    "crates/xtask/src/opens.rs",
                    line.trim()
                )),
            }
        }
    }
    for ((place, _), used) in direct.iter().zip(used) {
        if !used {
            wrong.push(format!("crates/xtask/src/opens.rs: {place} opens no files itself any more"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

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
