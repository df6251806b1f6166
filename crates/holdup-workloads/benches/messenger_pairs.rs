//! How much faster or slower `messenger` is than hackbench, at the same sizes.
//!
//! `cargo bench -p holdup-workloads --bench messenger_pairs [-- PAIRS [GROUPS [MESSAGES]]]`
//!
//! Whole runs in alternating order. hackbench's time contains the end of its tasks, ours ends with the last message;
//! with more messages the difference vanishes. The last rows are ours against ours, without and with timing.
#![allow(clippy::print_stdout, reason = "a bench tells its numbers on stdout")]

#[path = "by_hand/pairs.rs"]
mod pairs;

use holdup_host::Host;
use holdup_model::{Parameters, Problem, Window};
use holdup_workloads::messenger::setup::defaults;
use holdup_workloads::{Cancel, PostgresOptions, PrepareContext, TrialContext, WindowHooks, find};
use std::process::Command;

struct NoCollectors;

impl WindowHooks for NoCollectors {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: 0 })
    }
}

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
    let mut parameters: Parameters = defaults();
    parameters.set("groups", work.groups);
    parameters.set("messages", work.messages);
    parameters.set("sharing", work.sharing);
    parameters.set("transport", work.transport);
    parameters.set("timing", timing);
    let prepared = find("messenger").expect("the catalogue has it").prepare(PrepareContext {
        host: &Host::real(),
        parameters: &parameters,
        combinations: std::slice::from_ref(&parameters),
        metrics: &[],
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    });
    let result = prepared.expect("it can be prepared").run(TrialContext {
        parameters: &parameters,
        warmup_ns: 0,
        duration_ns: 0,
        seed: 1,
        cancel: Cancel::default(),
        enough: Cancel::default(),
        window: &mut NoCollectors,
    });
    let measurements = result.expect("a trial without trouble").measurements;
    let metric = |id: &str| {
        measurements.iter().find(|m| m.metric == id).and_then(|m| m.value.value()).expect("the work was done")
    };
    (metric("total_time_s") * 1e3, metric("cpu_us_per_message"))
}
