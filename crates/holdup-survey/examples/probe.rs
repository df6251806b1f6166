//! One line of JSON for each measurement of the preemption model: `probe [TIMES [SECONDS]]`.

use holdup_survey::probe::{Probe, Quantiles, Waits, probe};
use std::time::Duration;

fn quantiles(of: &Quantiles) -> String {
    format!("[{},{},{},{},{}]", of.p10, of.p25, of.p50, of.p75, of.p90)
}

fn waits(of: &Result<Waits, String>) -> String {
    match of {
        Err(why) => format!("{why:?}"),
        Ok(w) => format!(
            "{{\"samples\":{},\"call_ns\":{},\"kept_ns\":{},\"waited_ns\":{}}}",
            w.samples,
            w.call_ns,
            quantiles(&w.kept),
            quantiles(&w.waited)
        ),
    }
}

fn line(probe: &Probe) -> String {
    let of = &probe.measured;
    format!(
        "{{\"models\":\"{:?}\",\"why\":{:?},\"tick_ns\":{},\"arrival\":\"{:?}\",\"user\":{},\"faults\":{},\"walk\":{},\"poll\":{}}}",
        probe.verdict.models,
        probe.verdict.why,
        of.tick_ns,
        of.arrival,
        waits(&of.user),
        waits(&of.faults),
        waits(&of.walk),
        waits(&of.poll)
    )
}

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() {
    let mut words = std::env::args().skip(1);
    let times: u32 = words.next().and_then(|w| w.parse().ok()).unwrap_or(1);
    let seconds: f64 = words.next().and_then(|w| w.parse().ok()).unwrap_or(2.0);
    for _ in 0..times {
        match probe(Duration::from_secs_f64(seconds)) {
            Ok(probe) => println!("{}", line(&probe)),
            Err(problem) => println!("{{\"problem\":{:?}}}", problem.to_string()),
        }
    }
}
