//! Bundles with dates and hosts, and a server to keep them in.

#![allow(dead_code, reason = "each test file uses its share of these")]

#[path = "../../../holdup-bundle/tests/common/mod.rs"]
mod sample;

use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::bundle::Ending;
use holdup_model::{BundleData, Fact, Measurement};
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::{Binaries, Cluster, ClusterOptions};
use holdup_store::{Incoming, Place};
use holdup_testkit::ignore;
use std::path::{Path, PathBuf};

pub(crate) use sample::create;

/// A day, ns.
pub(crate) const DAY: i64 = 86_400_000_000_000;

/// The run of a day on a host, with this throughput.
pub(crate) fn run(day: u32, host: &str, throughput: f64) -> BundleData {
    let mut data = sample::sample(3);
    data.head.run_id = format!("{day:08x}{}", host.bytes().map(|b| format!("{b:02x}")).collect::<String>());
    data.head.created_unix_ns += i64::from(day) * DAY;
    let kernel = if day < 8 { "6.18.5" } else { "6.19.1" };
    for reading in &mut data.environment {
        reading.facts =
            vec![Fact::read("host.name", host, "/proc"), Fact::read("kernel.release", kernel, "uname").steady()];
    }
    for trial in &mut data.trials {
        trial.environment_before.clear();
        // A little noise, the same each time.
        let noise = 1.0 + f64::from((day * 7 + trial.seq * 3) % 11) / 1_000.0;
        if let Some(measurement) = trial.measurements.first_mut() {
            *measurement = Measurement::new("throughput_tps", throughput * noise);
        }
    }
    data
}

/// Writes it into a folder.
pub(crate) fn write(folder: &Path, data: &BundleData) -> PathBuf {
    let path = folder.join(format!("{}.holdup", data.head.run_id));
    sample::write(&path, data).expect("a bundle");
    path
}

/// Sixteen days on one host with a loss of 10 % on the ninth, and three on another one.
pub(crate) fn bundles(folder: &Path) -> Vec<PathBuf> {
    let days = (0..16).map(|day| run(day, "db1", if day < 8 { 1_000.0 } else { 900.0 }));
    days.chain((0..3).map(|day| run(day, "db2", 2_000.0))).map(|data| write(folder, &data)).collect()
}

pub(crate) fn incoming(paths: &[PathBuf]) -> Vec<Incoming> {
    paths.iter().map(|path| Incoming::read(path, None).expect("a bundle")).collect()
}

/// A run that never ended, and the same with all its trials.
pub(crate) fn unfinished(folder: &Path) -> (Incoming, Incoming) {
    let whole = run(99, "db1", 1_000.0);
    let mut half = whole.clone();
    half.trials.truncate(3);
    half.ending = None;
    let read = |data: &BundleData, name: &str| {
        let folder = folder.join(name);
        std::fs::create_dir(&folder).expect("a folder");
        Incoming::read(&write(&folder, data), None).expect("a bundle")
    };
    assert_eq!(whole.ending, Some(Ending::Complete));
    (read(&half, "half"), read(&whole, "whole"))
}

/// A private server; says where there are no programs for one.
pub(crate) fn cluster(workdir: &Path) -> Cluster {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(workdir, PermissionsExt::from_mode(0o755)).expect("its mode");
    let found = Binaries::find(&SearchPath::of_this_host(None), Need::Server);
    let bin = found.unwrap_or_else(|problem| ignore(problem));
    holdup_testkit::needs_a_user_for_postgres();
    let options =
        ClusterOptions { bin, workdir: workdir.to_owned(), max_clients: 80, network: None, cancel: Cancel::default() };
    Cluster::create(&Host::real(), &options).expect("a server")
}

/// The store in a database of a cluster, for a user.
pub(crate) fn place(cluster: &Cluster, database: &str, user: &str) -> Place {
    let text = cluster.connection_string_for(database).replace("user=holdup", &format!("user={user}"));
    Place::of(&format!("{text} sslmode=disable port=5432")).expect("a place")
}
