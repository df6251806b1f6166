//! Is B different from A? Each line of standard input is a block: a value of A and one of B, in which more is better or worse alike.
//!
//! `cargo run --example compare [MARGIN] < BLOCKS`, with a margin such as 0.02 for "within 2 %".

#![allow(clippy::print_stdout, reason = "an example for a terminal")]

use holdup_stats::{BlockPair, CONFIDENCE, Effect, Verdict, judge};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let margin: f64 = std::env::args().nth(1).map_or(Ok(0.02), |text| text.parse())?;
    let mut pairs = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        let values = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let [a, b] = values[..] else { return Err(format!("`{line}`: two values belong into a line").into()) };
        pairs.push(BlockPair { session: 0, block: u32::try_from(pairs.len())?, a, b });
    }
    let effect = Effect::paired(&pairs)?;
    let ratio = effect.estimate(CONFIDENCE)?;
    println!("B / A: {:.4} ({:.4} to {:.4}), {}", ratio.value, ratio.low, ratio.high, ratio.method);
    let answer = match judge(&effect, margin) {
        Verdict::Different => "different".to_owned(),
        Verdict::Equivalent => format!("equivalent within {} %", 100.0 * margin),
        Verdict::Undecided { reason, blocks_needed: None } => format!("undecided: {reason}"),
        Verdict::Undecided { reason, blocks_needed: Some(n) } => {
            format!("undecided: {reason}; {n} more blocks would decide")
        }
    };
    println!("{answer}");
    Ok(())
}
