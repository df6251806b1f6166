//! Which instructions of a program hold a lock or wait for one: `cargo run --example sections -- PROGRAM [FUNCTION…]`, with functions
//! that take locks beside those that are known.

#![allow(clippy::print_stdout, reason = "an example for a terminal")]

use holdup_sections::{NamedFunction, Wanted, map};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("usage: sections PROGRAM [FUNCTION…]")?;
    let functions = arguments.map(|name| NamedFunction { name, lock: None }).collect();
    let map = map(&std::fs::read(program)?, &Wanted { shipped: true, functions })?;
    for range in &map.ranges {
        let name = &map.sections[usize::from(range.section)].name;
        let condition = if range.when.is_some() { ", on a condition" } else { "" };
        println!("{:#x}..{:#x} {:?}{condition}: {name}", range.begin, range.end, range.role);
    }
    map.notes.iter().for_each(|note| println!("{note}"));
    Ok(())
}
