//! How late a sleep ends.

use super::bench::{on_cpu, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_load::clock::now_ns;
use holdup_model::Problem;
use std::time::Duration;

pub(super) const COST: Cost = Cost {
    name: "timer_slack_ns",
    docs: "how much later than asked for a sleep of 1 ms ends, less syscall_ns, switch_ns and, where it was measured, \
           idle_exit_ns; 8 sleeps in a repeat, with the slack that the process was given",
    measure,
};

const SLEEP: Duration = Duration::from_millis(1);

fn measure(context: &Context) -> Result<Samples, Problem> {
    let known_ns = context.known("syscall_ns")?
        + context.known("switch_ns")?
        + context.measured.get("idle_exit_ns").copied().unwrap_or(0.0);
    on_cpu(context.cpu()?, || {
        repeats("sleeps", || {
            let late = |_| {
                let begin = now_ns();
                std::thread::sleep(SLEEP);
                (now_ns() - begin) as f64 - SLEEP.as_nanos() as f64 - known_ns
            };
            Ok(quiet((0..8).map(late).collect()))
        })
    })
}
