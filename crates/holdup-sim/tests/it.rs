//! The tests of holdup-sim in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod arm64;
mod eevdf_vectors;
mod extension;
mod invariants;
mod placement;
mod record;
mod replay;
mod slices;
mod theory;
mod workloads;
mod world;
