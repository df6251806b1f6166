//! Servers that holdup builds, through the command line, as far as nothing is compiled; `script/servers` builds some.

use crate::common;
use common::{Sandbox, refused};

const LEVELS: &str = "postgres.build=stock,patches/lwlock-wait-list-futex";

fn an_empty_cache_says_how_to_build_and_what_there_is_to_build() {
    let place = Sandbox::new();
    let (out, _) = place.expect(0, &["postgres", "list"]);
    assert!(out.contains("holdup postgres build 18") && out.contains("patches/lwlock-wait-list-park"), "{out}");
    let widest = out.lines().map(|line| line.chars().count()).max();
    assert!(out.lines().count() <= 24 && widest <= Some(80), "{out}");
    let (out, _) = place.expect(0, &["postgres", "list", "--json"]);
    assert!(out.contains("\"holdup.servers/1\"") && out.contains("\"servers\": []"), "{out}");
}

fn what_cannot_be_built_is_refused_with_a_hint() {
    let place = Sandbox::new();
    refused(&place, 3, &["postgres", "build", "18", "--offline"], &["18", "hint: without --offline"]);
    refused(&place, 2, &["postgres", "build", "newest"], &["newest"]);
    refused(&place, 2, &["postgres", "build", "18", "patches/faster"], &["patches/faster", "spin-slice-extension"]);
    refused(&place, 2, &["postgres", "build", "18", "faster"], &["faster", "hint: forms: stock"]);
    refused(&place, 2, &["postgres", "rm", "18"], &["18", "hint: holdup postgres list"]);
}

fn a_plan_names_builds_of_one_version_and_no_other_server() {
    let place = Sandbox::new();
    let run = |more: &[&'static str]| [&["run", "pgbench", "--dry-run"], more].concat();
    refused(&place, 2, &run(&["--vary", "postgres.build=stock,faster"]), &["faster", "hint: forms: stock"]);
    let versions = ["--vary", "postgres.version=17,18"];
    refused(&place, 2, &run(&versions), &["one version", "--set postgres.version=17"]);
    holdup_testkit::needs_a_user_for_postgres();
    let (out, _) = place.expect(0, &run(&["--vary", LEVELS]));
    assert!(!out.contains("PostgreSQL setting"), "{out}");
    let with_another = ["run", "pgbench", "--vary", LEVELS, "--pg-bin", "/usr/bin"];
    refused(&place, 2, &with_another, &["postgres.build and --pg-bin", "hint: leave --pg-bin away"]);
    let guests = ["--target", "qemu", "--set", "kernel=host", "--set", "postgres-server=host", "--vary", LEVELS];
    let output = place.output(&run(&guests));
    let (_, err) = common::texts(&output);
    assert!(err.contains("both name the guest's server") || err.contains("qemu-system"), "{err}");
}

holdup_testkit::tests!(
    an_empty_cache_says_how_to_build_and_what_there_is_to_build,
    what_cannot_be_built_is_refused_with_a_hint,
    a_plan_names_builds_of_one_version_and_no_other_server
);
