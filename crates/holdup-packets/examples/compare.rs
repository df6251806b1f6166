//! What got worse from one capture to another: `cargo run --example compare -- A.pcap B.pcap`. With one file, its marks.

#![allow(clippy::print_stdout, reason = "an example for a terminal")]

use holdup_model::captures::Parts;
use holdup_packets::analyse::{self, Analysis, analyse};
use holdup_packets::capture::{Chain, Reader};
use holdup_packets::compare::{self, compare};
use holdup_packets::summary::summarise;
use std::fs::File;

fn read(path: &str) -> Result<Analysis, Box<dyn std::error::Error>> {
    let mut frames = Chain::one(Reader::new(File::open(path)?)?);
    Ok(analyse(&mut frames, &analyse::Options::default())?.analysis)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let captures = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    for (path, capture) in paths.iter().zip(&captures) {
        let summary = summarise(path, capture, Parts::Flow, 3);
        println!("{path}: {}", summary.answer);
        for line in &summary.marks {
            println!("  {:>8} {}", line.rate.count, line.mark.title);
        }
    }
    if let [a, b, ..] = &captures[..] {
        for found in compare((&paths[0], a), &[(&paths[1], b)], &compare::Options::default()) {
            println!("{}", found.answer);
        }
    }
    Ok(())
}
