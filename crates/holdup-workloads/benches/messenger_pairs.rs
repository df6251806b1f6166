//! How much faster or slower `messenger` is than hackbench, at the same sizes.
//!
//! `cargo bench -p holdup-workloads --bench messenger_pairs [-- PAIRS [GROUPS [MESSAGES]]]`
//!
//! Whole runs in alternating order. hackbench's time contains the end of its tasks, ours ends with the last message;
//! with more messages the difference vanishes. The last rows are ours against ours, without and with timing.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers on stdout")]

#[path = "../../holdup-locks/benches/by_hand/pairs.rs"]
mod pairs;

use holdup_catalogue::messenger;
use holdup_induce::trial::{self, Trial};
use holdup_model::Parameters;
use std::process::Command;

#[derive(Clone, Copy)]
struct Work {
    groups: i64,
    messages: i64,
    sharing: &'static str,
    transport: &'static str,
}

fn main() {
    // Cargo passes --bench; the numbers are ours.
    let mut numbers = std::env::args().skip(1).filter_map(|a| a.parse::<i64>().ok());
    let count = numbers.next().map_or(21, |n| n.max(15) as usize);
    let (groups, messages) = (numbers.next().unwrap_or(10), numbers.next().unwrap_or(100));
    for sharing in ["processes", "threads"] {
        for transport in ["socketpair", "pipe"] {
            let work = Work { groups, messages, sharing, transport };
            let what = format!("{groups} groups, {messages} messages, {sharing}, {transport}");
            let alone = &mut || ours(work, false).0;
            match hackbench(work) {
                None => println!("{what}: hackbench is not installed, or said nothing that could be read"),
                Some(_) => {
                    let peer = &mut || hackbench(work).unwrap_or(f64::NAN) * 1e3;
                    let runs = pairs::interleaved(count, peer, alone);
                    println!("{what}: {}", pairs::in_words("hackbench", "ms", &runs));
                }
            }
            let runs = pairs::interleaved(count, alone, &mut || ours(work, true).0);
            println!("{what}, timing: {}", pairs::in_words("holdup without timing", "ms", &runs));
            let runs = pairs::interleaved(count, &mut || ours(work, false).1, &mut || ours(work, true).1);
            println!("{what}, timing: {}", pairs::in_words("holdup without timing", "us of CPU per message", &runs));
        }
    }
}

/// Seconds as hackbench says them; `None` when it does not run.
fn hackbench(work: Work) -> Option<f64> {
    let mut command = Command::new("hackbench");
    command.args(["-g", &work.groups.to_string(), "-l", &work.messages.to_string()]);
    command.args((work.sharing == "threads").then_some("-T"));
    command.args((work.transport == "pipe").then_some("-p"));
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("Time: ")?.trim().parse().ok())
}

/// A trial's total time, ms, and its CPU time per message, us, which others on the machine disturb less.
fn ours(work: Work, timing: bool) -> (f64, f64) {
    let mut parameters: Parameters = messenger::Parameters::defaults(2);
    parameters.set("groups", work.groups);
    parameters.set("messages", work.messages);
    parameters.set("sharing", work.sharing);
    parameters.set("transport", work.transport);
    parameters.set("timing", timing);
    let mut prepared = trial::prepare("messenger", &parameters).expect("it can be prepared");
    let result = Trial { warmup_ms: 0, ..Trial::new(&parameters, 0) }.run(&mut *prepared);
    let measurements = result.expect("a trial without trouble").measurements;
    let metric = |id: &str| {
        measurements.iter().find(|m| m.metric == id).and_then(|m| m.value.value()).expect("the work was done")
    };
    (metric("total_time_s") * 1e3, metric("cpu_us_per_message"))
}
