//! The tests of holdfast in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod c_header;
mod misuse;
mod mutex;
mod others;
mod preload;
mod robust;
