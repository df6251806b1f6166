//! The tests of holdup-stats in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod bisection;
mod calibration;
mod cases;
mod change_points;
mod cluster_rates;
mod common;
mod noise;
mod properties;
mod quantile_bands;
mod scaling;
mod tuning;
mod vectors;
