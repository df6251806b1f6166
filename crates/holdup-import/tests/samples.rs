//! Real outputs of the tools, with what must come of them. Where each came from stands beside its name.

#![allow(clippy::unwrap_used, reason = "test code")]

use holdup_import::{Input, KINDS, Results, find, read};
use std::path::{Path, PathBuf};

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(kind)
}

fn import(kind: &str, file: &str) -> Results {
    let bytes = std::fs::read(folder(kind).join(file)).unwrap();
    read(find(kind).unwrap(), &mut Input::new(file, bytes.as_slice())).unwrap()
}

fn values(results: &Results, metric: &str) -> Vec<f64> {
    let of = results.samples.iter().filter(|sample| sample.void.is_none());
    of.flat_map(|sample| &sample.measurements).filter(|m| m.metric == metric).filter_map(|m| m.value.value()).collect()
}

#[test]
fn pgbench_is_read() {
    // PostgreSQL 15.18, `-c 8 -j 2 -T 2 -P 1`.
    let one = import("pgbench", "15-progress.txt");
    assert_eq!(values(&one, "tps"), [1103.301406]);
    assert_eq!(values(&one, "latency_mean_ms"), [7.197]);
    assert_eq!((one.samples[0].labels["clients"].as_str(), one.samples[0].length_ns), ("8", Some(2_000_000_000)));
    // `-c 4 -t 200 -R 400 -L 5`.
    let rate = import("pgbench", "15-rate.txt");
    assert_eq!(values(&rate, "skipped_share"), [0.33375]);
    assert_eq!(values(&rate, "schedule_lag_mean_ms"), [0.871]);
    // `-c 2 -t 30 -l`.
    let log = import("pgbench", "15-log.txt");
    assert_eq!(log.samples[0].histograms[0].histogram.count(), 60);
    // `--aggregate-interval=1`: the last interval is a part of a second.
    let intervals = import("pgbench", "15-aggregate.txt");
    assert_eq!(values(&intervals, "tps"), [(1308.0 + 1485.0 + 1448.0) / 3.0]);
}

#[test]
fn hackbench_is_read() {
    // rt-tests 2.4, `-g 2 -l 50`, three times.
    let all = import("hackbench", "2.4.txt");
    assert_eq!(values(&all, "time_s"), [0.141, 0.111, 0.136]);
    assert_eq!(all.samples[0].labels["groups"], "2");
}

#[test]
fn hyperfine_is_read() {
    // 1.15.0, `-N -r 4 'sleep 0.01' 'sleep 0.02'`.
    let all = import("hyperfine", "1.15.json");
    assert_eq!(values(&all, "time_s").len(), 8);
    assert_eq!(all.samples[7].labels["command"], "sleep 0.02");
}

#[test]
fn cyclictest_is_read() {
    // rt-tests 2.4, `-q -D 2 -t 2 --json=FILE`.
    let json = import("cyclictest", "2.40.json");
    assert_eq!(values(&json, "latency_max_us"), [21193.0, 19698.0]);
    assert_eq!(json.facts[0].value.as_deref(), Some("6.18.44"));
    // `-h 100`: 40 % and 25 % of the wake-ups lie beyond the end, so there is no percentile.
    let histogram = import("cyclictest", "2.40-histogram.txt");
    assert_eq!(values(&histogram, "overflows"), [728.0, 465.0]);
    assert_eq!(values(&histogram, "latency_p99_us"), [0.0; 0]);
    // `-t 12`: ten threads and more have no space after `T:`.
    assert_eq!(import("cyclictest", "2.40-twelve.txt").samples.len(), 12);
}

/// A cut, a changed byte or another tool's file: an error or a result, and never a panic.
#[test]
fn damaged_samples_are_refused_or_read() {
    for kind in KINDS {
        for file in std::fs::read_dir(folder(kind.meta.id)).unwrap().flatten() {
            let bytes = std::fs::read(file.path()).unwrap();
            let step = (bytes.len() / 300).max(1);
            for at in (0..bytes.len()).step_by(step) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x15;
                for part in [&bytes[..at], &damaged] {
                    for kind in KINDS {
                        if let Err(problem) = read(kind, &mut Input::new("it", part)) {
                            assert!(!problem.why.is_empty() && problem.what.starts_with("it"), "{problem}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn another_tools_file_and_a_decimal_comma_are_named() {
    let read = |kind: &str, text: &str| {
        read(find(kind).unwrap(), &mut Input::new("r.txt", text.as_bytes())).unwrap_err().to_string()
    };
    let hackbench = std::fs::read_to_string(folder("hackbench").join("2.4.txt")).unwrap();
    assert!(read("pgbench", &hackbench).contains("it looks like hackbench: holdup import hackbench r.txt"));
    let comma = hackbench.replace("0.141", "0,141");
    let problem = read("hackbench", &comma);
    assert!(problem.contains("r.txt, line 3 (byte ") && problem.contains("LC_ALL=C"), "{problem}");
    assert!(read("pgbench", "").contains("does not look like"), "an empty file");
}
