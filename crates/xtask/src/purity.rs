//! The engines touch nothing: no files, no clock, no environment, no printing, no hash order.

use crate::Repo;
use crate::layers::code_map;
use regex::Regex;

/// What must not stand in the source of an engine, and why.
fn forbidden() -> Vec<(Regex, &'static str)> {
    [
        (r"\bstd::fs\b|\bFile::(open|create)\b", "files"),
        (r"\bInstant\b|\bSystemTime\b", "a clock"),
        (r"\bstd::env\b|\benv::(var|args|current_dir)", "the environment"),
        (r"\bstd::(net|process|thread|os)\b", "the host"),
        (r"\bstd::\{[^}]*\b(fs|env|net|process|thread|os)\b", "the host"),
        (r"\be?print(ln)?!|\bdbg!|\bio::(stdout|stderr|stdin)\b", "printing or reading a terminal"),
        (r"\bHash(Map|Set)\b", "the order of a hash table, which differs from run to run: take a BTreeMap or BTreeSet"),
        (r"\bthread_rng\b|\brand::rng\b|\bgetrandom\b|\bRandomState\b", "chance without a seed"),
        (r"\bunsafe\b\s*(\{|fn|impl)", "unsafe code"),
    ]
    .map(|(pattern, what)| (Regex::new(pattern).expect("the patterns are valid"), what))
    .into()
}

/// Where an engine has threads: their order decides nothing, which tests hold (`crates/holdup-packets/tests/threads.rs`,
/// `answers_stand_in_the_order_of_what_was_asked`).
const WITH_THREADS: &[&str] = &["crates/holdup-history/src/threads.rs", "crates/holdup-packets/src/analyse/threads.rs"];

/// What is wrong with the sources of the engines: the crates of layers 0 and 1 that do not touch the host.
pub fn check(repo: &Repo) -> Vec<String> {
    let map = code_map(repo.text("ARCHITECTURE.md").unwrap_or_default());
    let engines: Vec<&String> =
        map.iter().filter(|(_, place)| place.layer <= 1 && !place.touches_host).map(|(name, _)| name).collect();
    let forbidden = forbidden();
    let mut wrong = Vec::new();
    if engines.len() < 2 {
        wrong.push("ARCHITECTURE.md names fewer than two engines".to_owned());
    }
    for engine in engines {
        let folder = format!("crates/{engine}/src");
        let mut forbids = false;
        for (path, text) in repo.under(&folder) {
            if !path.ends_with(".rs") {
                continue;
            }
            forbids |= path == "lib.rs" && text.contains("#![forbid(unsafe_code)]");
            let may_have_threads = WITH_THREADS.contains(&format!("{folder}/{path}").as_str());
            for (number, line) in code(text) {
                if may_have_threads && line == "use std::thread;" {
                    continue;
                }
                for (pattern, what) in &forbidden {
                    if pattern.is_match(line) {
                        wrong
                            .push(format!("{folder}/{path}:{number}: an engine must not know {what}: {}", line.trim()));
                    }
                }
            }
        }
        if !forbids {
            wrong.push(format!("{folder}/lib.rs: does not forbid unsafe code"));
        }
    }
    wrong
}

/// The lines of a source with their numbers, without comments and without the tests at its end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| *line != "#[cfg(test)]")
        .map(|(i, line)| (i + 1, line.split("//").next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(body: &str) -> usize {
        let map = "| 0 | `a` | x | no | |\n| 1 | `b` | x | no | |\n| 2 | `h` | x | yes | |\n";
        let lib = format!("#![forbid(unsafe_code)]\n{body}");
        check(&Repo::of(&[
            ("ARCHITECTURE.md", map),
            ("crates/a/src/lib.rs", &lib),
            ("crates/b/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("crates/h/src/lib.rs", "use std::fs;"),
        ]))
        .len()
    }

    #[test]
    fn what_touches_the_host_is_found() {
        for line in [
            "use std::fs::File;",
            "use std::{fmt, fs};",
            "let t = std::time::Instant::now();",
            "use std::time::SystemTime;",
            "std::env::var(\"HOME\")",
            "println!(\"{x}\");",
            "eprint!(\"x\")",
            "use std::collections::HashMap;",
            "let s: HashSet<u8> = x;",
            "std::process::exit(1)",
            "unsafe { x() }",
        ] {
            assert_eq!(wrong(line), 1, "{line}");
        }
        for line in
            ["use std::time::Duration;", "// std::fs", "env!(\"X\")", "write!(f, \"print\")", "let unsafety = 1;"]
        {
            assert_eq!(wrong(line), 0, "{line}");
        }
        assert_eq!(wrong("#[cfg(test)]\nmod tests { use std::fs; }"), 0);
        let unguarded = check(&Repo::of(&[("ARCHITECTURE.md", "| 0 | `a` | x | no | |\n| 1 | `b` | x | no | |\n")]));
        assert_eq!(unguarded.len(), 2, "{unguarded:?}");
    }
}
