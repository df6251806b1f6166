//! Prints a page over a synthetic bundle, for a look at it and for the tests in a browser:
//! `cargo run -p holdup-report --example page > page.html`.
#![allow(clippy::print_stdout, reason = "it is a program")]

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let bundle = common::rich();
    println!("{}", holdup_report::html(&bundle, &holdup_analysis::analyse(&bundle)));
}
