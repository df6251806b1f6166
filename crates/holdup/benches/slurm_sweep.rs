//! A simulated sweep on a cluster of this machine against the same on this machine alone, in turn.
//!
//! `cargo bench -p holdup --bench slurm_sweep -- TRIALS PAIRS`; `HOLDUP_PROGRAM=FILE` measures another binary, such as
//! the release.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]
#![allow(dead_code, reason = "it uses a part of what tests have in common")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::cluster::{Cluster, missing};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Two for each of the four nodes.
const PARTS: &str = "8";

/// CPU time of the programs that were started here and have ended, s: of the runs, without the parts on nodes.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<f64> =
        text.rsplit_once(") ").unwrap().1.split(' ').map(|field| field.parse().unwrap_or(0.0)).collect();
    // Fields 16 and 17 of proc_pid_stat(5), in ticks.
    (fields[13] + fields[14]) / rustix::param::clock_ticks_per_second() as f64
}

/// Runs it once, on the cluster or not; how long it took and its CPU time, s.
fn run(program: &str, folder: &Path, trials: u32, cluster: Option<&Cluster>) -> (f64, f64) {
    let name = if cluster.is_some() { "cluster.holdup" } else { "alone.holdup" };
    let _absent = std::fs::remove_file(folder.join(name));
    let blocks = (trials / 4).to_string();
    let mut command = Command::new(program);
    command
        .args(["run", "lock-contention", "--target", "sim:server-8", "--threads", "12", "--algorithm", "tas,ticket"])
        .args(["--seed", "7", "--collect", "none", "--duration", "20ms", "--warmup", "1ms", "--blocks", &blocks])
        .args(["--out", name, "--quiet"])
        .current_dir(folder)
        .env("HOLDUP_STATE_DIR", folder.join("state"))
        .env("HOLDUP_CACHE", folder.join("cache"))
        .stdin(Stdio::null());
    if let Some(cluster) = cluster {
        command.args(["--on", "slurm:main", "--parts", PARTS]).env("SLURM_CONF", cluster.conf());
    }
    let (begun, cpu_before_s) = (Instant::now(), cpu_s());
    let output = command.output().unwrap();
    let took_s = begun.elapsed().as_secs_f64();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (took_s, cpu_s() - cpu_before_s)
}

fn main() {
    let numbers: Vec<u32> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let (trials, pairs) = (numbers.first().copied().unwrap_or(20_000), numbers.get(1).copied().unwrap_or(3));
    if let Some(reason) = missing() {
        println!("no cluster here: {reason}");
        return;
    }
    let program = std::env::var("HOLDUP_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_holdup").to_owned());
    let folder = tempfile::Builder::new().prefix("holdup-sweep-").tempdir_in("/dev/shm").unwrap();
    let cluster = Cluster::start(&[], &[]);
    println!("{trials} trials");
    for pair in 0..pairs {
        let mut took_s = [(0.0, 0.0); 2];
        // Each is first in every other pair.
        for side in [pair % 2, 1 - pair % 2] {
            took_s[side as usize] = run(&program, folder.path(), trials, (side == 1).then_some(&cluster));
        }
        let same = std::fs::read(folder.path().join("alone.holdup")).unwrap()
            == std::fs::read(folder.path().join("cluster.holdup")).unwrap();
        assert!(same, "the bundles differ");
        let [(alone_s, alone_cpu_s), (cluster_s, merge_cpu_s)] = took_s;
        println!(
            "alone {alone_s:.1} s ({alone_cpu_s:.1} s of CPU time), cluster {cluster_s:.1} s (following and merging {merge_cpu_s:.1} s \
             of CPU time): {:.2} of alone, {:.2} of half of its CPU time",
            alone_s / cluster_s,
            alone_cpu_s / 2.0 / cluster_s
        );
    }
}
