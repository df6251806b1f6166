//! The tests of holdup in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod bad_input;
mod bisect;
mod boots;
mod calibrated;
mod common;
mod demo;
#[path = "../../holdup-packets/tests/against_tshark/dice.rs"]
mod dice;
mod exporter;
mod exports;
mod guests;
mod hostile_host;
mod hostile_input;
mod hostile_servers;
mod imported;
mod kept;
mod lifecycle;
mod live_server;
#[path = "../../holdup-packets/tests/made/mod.rs"]
mod made;
mod packets;
mod postgres_builds;
mod profiles;
mod readme;
mod record;
#[path = "../../holdup-target/tests/recording/mod.rs"]
mod recording;
mod released;
mod replay;
mod screens;
mod simulated;
mod slurm;
mod ssh;
mod stalls;
mod traces;
mod trees;
mod tune;
mod watching;

/// Runs the tests; in place of `ssh` as one that cuts its line, or as a hostile host, where the environment says so.
fn main() -> std::process::ExitCode {
    if let Ok(log) = std::env::var(ssh::hostile::HOSTILE) {
        return ssh::hostile::run(&log);
    }
    if let Ok(asked) = std::env::var(ssh::cutter::CUTTER) {
        return ssh::cutter::run(&asked);
    }
    holdup_testkit::run(holdup_testkit::files!(
        bad_input,
        bisect,
        boots,
        calibrated,
        demo,
        exporter,
        exports,
        guests,
        hostile_host,
        hostile_input,
        hostile_servers,
        imported,
        kept,
        lifecycle,
        live_server,
        packets,
        postgres_builds,
        profiles,
        readme,
        record,
        released,
        replay,
        screens,
        simulated,
        slurm,
        ssh,
        stalls,
        traces,
        trees,
        tune,
        watching
    ))
}
