//! `holdup tune` over knobs of this host, with a program whose cost depends on them.

use crate::common;
use common::{Sandbox, is_root, refused, signal, wait_for};
use holdup_testkit::ignore;

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const BACKGROUND: &str = "/proc/sys/vm/dirty_background_ratio";

/// A program that reads two knobs and prints a cost, with noise of about 1 % from the trial's seed. swappiness 11 is 12 %
/// better, 12 fails; a background share of 7 % is 10 % better at the price of a tail that is 30 % longer, 9 % does nothing.
const PROGRAM: &str = r#"#!/bin/sh
w=$(cat /proc/sys/vm/swappiness)
d=$(cat /proc/sys/vm/dirty_background_ratio)
[ "$w" = 12 ] && { echo 'no such cost' >&2; exit 1; }
exec awk -v s="$HOLDUP_SEED" -v w="$w" -v d="$d" 'BEGIN {
  srand(s % 1000003); r = rand() + rand() + rand(); cost = 100 * (1 + 0.02 * (r - 1.5)); tail = 3 * cost
  if (w == 11) { cost *= 0.88; tail *= 0.88 }
  if (d == 7) { cost *= 0.9; tail *= 1.3 }
  printf "cost=%.6f\ntail=%.6f\n", cost, tail
}'
"#;

const METRICS: &[&str] =
    &["--metric", "cost=regex:cost=([0-9.]+):lower", "--metric", "tail=regex:tail=([0-9.]+):lower"];
const TRIED: &[&str] = &["--try", "swappiness=11,12", "--try", "dirty-background=7%,9%"];

fn sandbox() -> Sandbox {
    let place = Sandbox::new();
    let program = place.write("bench", PROGRAM);
    let mut mode = std::fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    place
}

fn tune<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let head = ["tune", "command", "--budget", "40s", "--duration", "10ms", "--warmup", "0s"];
    head.iter().chain(METRICS).chain(more).copied().chain(["--", "./bench"]).collect()
}

fn knobs() -> [String; 2] {
    [SWAPPINESS, BACKGROUND].map(|path| std::fs::read_to_string(path).unwrap())
}

/// Ends a test that would set knobs of the host where that cannot be.
fn need_root() {
    if !is_root() {
        ignore("setting knobs needs root");
    }
}

fn what_makes_a_program_faster_is_found_and_its_profile_holds_nothing_else() {
    need_root();
    let (place, before) = (sandbox(), knobs());
    let (out, err) = place.expect(1, &tune(TRIED));
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("swappiness=11, dirty-background=7% lower cost of command by "), "{out}\n{err}");
    assert!(out.contains("fresh, interleaved blocks: ratio ×0.7") && out.contains("fails: swappiness=12"), "{out}");
    assert!(out.lines().count() <= 24 && out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert_eq!(knobs(), before, "all knobs are as they were found");
    let profile = std::fs::read_to_string(place.path("tune-1/tuned.toml")).unwrap();
    assert!(profile.contains("# swappiness=11, dirty-background=7% lower cost"), "{profile}");
    assert!(profile.contains("swappiness = \"11\"") && !profile.contains("9%"), "{profile}");
    let (dry, _) = place.expect(0, &["apply", "tune-1/tuned.toml", "--dry-run"]);
    assert!(dry.contains("swappiness"), "{dry}");
    let (conf, _) = place.expect(0, &["export", "profile", "tune-1/tuned.toml", "--format", "sysctl.d"]);
    assert!(conf.contains("vm.swappiness = 11") && conf.contains("vm.dirty_background_ratio = 7"), "{conf}");
}

fn a_guard_keeps_a_setting_out() {
    need_root();
    let place = sandbox();
    let (out, err) = place.expect(1, &tune(&[TRIED, &["--guard", "tail=+5%"]].concat()));
    assert!(out.lines().next().unwrap().starts_with("swappiness=11 lowers cost of command by 1"), "{out}\n{err}");
    assert!(out.contains("guard tail at most 5 % worse: ratio ×0.8"), "{out}");
    // The settings that were found have a tail of 300.
    refused(
        &place,
        2,
        &tune(&[TRIED, &["--guard", "tail<=200"]].concat()),
        &["break it already", "a bound that they keep"],
    );
}

fn where_nothing_is_better_nothing_is_promised() {
    need_root();
    let (place, before) = (sandbox(), knobs());
    let (out, _) = place.expect(0, &tune(&["--try", "dirty-background=9%,11%"]));
    assert!(out.starts_with("The setting that was tried does not improve cost of command by 1 % or more."), "{out}");
    assert!(!place.path("tune-1/tuned.toml").exists());
    assert_eq!(knobs(), before);
}

fn a_search_that_was_killed_goes_on_where_it_was() {
    need_root();
    let (place, before) = (sandbox(), knobs());
    let mut child = place.start(&tune(TRIED));
    let log = place.path("tune-1/search.log");
    let blocks = || std::fs::read_to_string(&log).map_or(0, |text| text.matches("\"entry\":\"block\"").count());
    wait_for("two blocks", || blocks() >= 2);
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    let measured = blocks();
    let (out, _) = place.expect(1, &["tune", "--continue"]);
    assert!(out.starts_with("swappiness=11, dirty-background=7% lower cost"), "{out}");
    assert!(blocks() >= measured && knobs() == before, "the blocks from before count, and all is put back");
    // It has its answer now.
    assert_eq!(place.expect(1, &["tune", "--continue", "tune-1"]).0, out);
}

fn a_plan_says_what_is_tried_and_what_it_starts_from() {
    need_root();
    let (place, before) = (sandbox(), knobs());
    let plan = "[[workload]]\nkind = \"command\"\ncommand = [\"./bench\"]\n[[metric]]\nid = \"cost\"\nprimary = true\n\
                better = \"lower\"\nfrom = { regex = 'cost=([0-9.]+)' }\n[factors]\nswappiness = [13, 11]\n\
                dirty-background = [\"7%\", \"9%\"]\n[design]\nwarmup = \"0s\"\n";
    place.write("p.toml", plan);
    let (out, err) = place.expect(1, &["tune", "p.toml", "--budget", "40s"]);
    assert!(out.starts_with("swappiness=11 lowers cost of command by 1"), "{out}\n{err}");
    assert_eq!(knobs(), before);
    refused(&place, 2, &["tune", "p.toml", "--budget", "40s", "--knobs", "memory"], &["what it varies"]);
}

fn what_cannot_be_searched_is_said_before_anything_runs() {
    let place = sandbox();
    refused(&place, 2, &["tune", "command", "--", "./bench"], &["--budget", "it is missing"]);
    refused(&place, 2, &["tune", "command", "--budget", "soon", "--", "./bench"], &["not a duration"]);
    // Without a knob that can be set there is nothing to try.
    if is_root() {
        let short = ["tune", "wakeup", "--budget", "5s", "--duration", "10s", "--knobs", "memory"];
        refused(&place, 2, &short, &["--budget", "four blocks", "shorter trials"]);
    }
    refused(&place, 2, &tune(&["--knobs", "memmory"]), &["--knobs memmory", "groups: scheduler, memory"]);
    refused(&place, 2, &tune(&["--guard", "speed=5%"]), &["--guard speed", "it measures cost, tail"]);
    refused(&place, 2, &tune(&["--guard", "cost>=5"]), &["lower is better"]);
    refused(&place, 2, &tune(&["--guard", "cost"]), &["METRIC=+5%"]);
    refused(&place, 3, &tune(&["--try", "nonsense=1,2"]), &["--try nonsense", "there is no such knob"]);
    refused(&place, 3, &tune(&["--try", "postgres.work_mem=64MB"]), &["the workload has no PostgreSQL"]);
    refused(&place, 2, &["tune", "--continue"], &["no search"]);
    let threads = ["tune", "lock-contention", "--threads", "1,2", "--budget", "10m", "--try", "swappiness=11"];
    refused(&place, 2, &threads, &["axis threads", "varies settings and nothing else"]);
    assert!(!place.path("tune-1").exists());
    let (out, _) = place.expect(0, &["list", "tunables"]);
    assert!(out.contains("postgres.shared_buffers") && out.contains("autogroup"), "{out}");
}

holdup_testkit::tests!(
    what_cannot_be_searched_is_said_before_anything_runs;
    alone:
    a_plan_says_what_is_tried_and_what_it_starts_from;
    truth:
    what_makes_a_program_faster_is_found_and_its_profile_holds_nothing_else,
    a_guard_keeps_a_setting_out,
    where_nothing_is_better_nothing_is_promised,
    a_search_that_was_killed_goes_on_where_it_was
);
