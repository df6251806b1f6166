//! The parameters of `command`.

use crate::parameters::{parameters, words};
use crate::{CommandLine, Nanoseconds};
use std::path::PathBuf;

words! {
    /// Whose locks stand behind pthread's functions in the program.
    Holdfast {
        /// Those of its C library.
        Off,
        /// Those of holdfast, by a library that is loaded before the others.
        Preload,
    }
}

parameters! {
    /// What a plan sets of `command`.
    "command"

    /// the program and its arguments, as a list or after `--`
    command: CommandLine,
    /// the folder that the program runs in; two checkouts of one tree are an axis
    directory: Option<PathBuf>,
    /// the longest that the program may run
    timeout: Option<Nanoseconds> [1..=i64::MAX],
    /// the exit code that counts as success
    expect_exit: u32 [0..=255] = "0",
    /// whether holdfast's locks stand behind pthread's functions in programs that glibc loads
    holdfast: Holdfast = "off",
}
