//! Every `holdup …` line of the README is accepted: runs are planned, the others work on a real bundle.

use crate::common;
use common::{Sandbox, texts};

const README: &str = include_str!("../../../README.md");

/// The words of a shell line up to a comment; the README uses no quotes.
fn words(line: &str) -> Vec<&str> {
    let line = line.split(" #").next().unwrap_or(line);
    line.split_ascii_whitespace().skip(1).collect()
}

fn every_line_of_the_readme_is_accepted() {
    let place = Sandbox::new();
    // The runs that the lines after the first ones speak of.
    for out in ["a.holdup", "mon.holdup", "tue.holdup", "wed.holdup"] {
        let quick = "run lock-contention --threads 1 --algorithm tas,ticket --duration 50ms --warmup 0s --blocks 2";
        let mut args: Vec<&str> = quick.split(' ').collect();
        args.extend(["--quiet", "--out", out]);
        place.expect(0, &args);
    }
    std::fs::create_dir(place.path("plans")).expect("a folder");
    place.write("plans/demo.toml", include_str!("../../../plans/demo.toml"));
    place.write("plans/more-clients.toml", include_str!("../../../plans/more-clients.toml"));
    std::fs::create_dir(place.path("profiles")).expect("a folder");
    place.write("profiles/database.toml", include_str!("../../../profiles/database.toml"));
    let lines: Vec<&str> =
        README.lines().filter_map(|l| l.strip_prefix("    ")).filter(|l| l.starts_with("holdup ")).collect();
    assert!(lines.len() >= 8, "the README shows how to use it: {lines:?}");
    for line in lines {
        let mut args = words(line);
        if ["run", "apply"].contains(&args[0]) && !args.contains(&"--dry-run") {
            args.insert(1, "--dry-run");
        }
        let output = place.output(&args);
        let (out, err) = texts(&output);
        // 3: this host cannot run it (no PostgreSQL, not root), which is an answer; 1: compare found a difference, check a case.
        let code = output.status.code();
        let accepted =
            code == Some(0) || code == Some(3) || (["check", "compare"].contains(&args[0]) && code == Some(1));
        assert!(accepted, "{line}\n{code:?}\n{out}\n{err}");
    }
}

holdup_testkit::tests!(every_line_of_the_readme_is_accepted);
