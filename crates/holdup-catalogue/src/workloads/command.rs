//! The parameters of `command`.

use crate::parameters::parameters;
use crate::{CommandLine, Nanoseconds};

parameters! {
    /// What a plan sets of `command`.
    "command"

    /// the program and its arguments, as a list or after `--`
    command: CommandLine,
    /// the longest that the program may run
    timeout: Option<Nanoseconds> [1..=i64::MAX],
    /// the exit code that counts as success
    expect_exit: u32 [0..=255] = "0",
}
