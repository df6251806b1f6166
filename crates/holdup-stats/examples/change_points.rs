//! Change points of series for a comparison with other programs: each line of standard input is a series, numbers between blanks; each line
//! of the output has the places of its changes, the first value of each new level counted from 0.
//!
//! `cargo run --release -p holdup-stats --example change_points [ALPHA [MIN_SEGMENT]] < SERIES`

#![allow(clippy::print_stdout, reason = "an example for a terminal")]

use holdup_stats::change_points::{ChangeOptions, change_points_of_long};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let alpha: f64 = arguments.next().map_or(Ok(0.05), |text| text.parse())?;
    let min_segment = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let permutations = (10.0 / alpha).ceil().max(199.0) as u32;
    let options = ChangeOptions { alpha, permutations, min_segment, ..ChangeOptions::default() };
    for line in std::io::stdin().lines() {
        let line = line?;
        let values = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        match change_points_of_long(&values, options) {
            Ok(found) => println!("{}", found.iter().map(|c| c.index.to_string()).collect::<Vec<_>>().join(" ")),
            Err(no) => println!("- {}", no.reason),
        }
    }
    Ok(())
}
