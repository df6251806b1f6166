//! hackbench and perf bench in the place of this engine.

use super::results::METRICS;
use crate::external::reference_tool::{ReferenceTools, carry, measured};
use holdup_model::{Measurement, Parameters, Problem};

/// Both do fixed work.
pub(crate) const REFERENCE_TOOLS: ReferenceTools = ReferenceTools { metrics: METRICS, translate, derive };

fn translate(tool: &str, own: &Parameters) -> Result<Parameters, Problem> {
    let refuse = |why: &str, hint: &str| Err(Problem::usage(format!("by {tool}"), why).hint(hint));
    let (senders, receivers) = (own.integer("senders")?, own.integer("receivers")?);
    if own.integer("messages")?.unwrap_or(0) == 0 {
        return refuse("it does fixed work", "give messages, such as 100");
    }
    if senders != receivers {
        return refuse("it has as many senders as receivers", "give the same number of both");
    }
    if tool == "perf-bench" && (senders != Some(20) || own.integer("size")? != Some(100)) {
        return refuse(
            "it has 20 senders in a group and messages of 100 bytes",
            "leave senders, receivers and size as they are",
        );
    }
    let mut theirs =
        carry(own, &[("groups", "groups"), ("messages", "loops"), ("sharing", "sharing"), ("placement", "placement")]);
    if tool == "hackbench" {
        theirs.0.extend(carry(own, &[("senders", "senders"), ("size", "size")]).0);
    }
    match own.text("transport")? {
        Some("pipe") => theirs.set("protocol", "pipe"),
        Some("tcp") if tool == "perf-bench" => return refuse("it has no TCP", "transport = socketpair or pipe"),
        Some("tcp") => theirs.set("protocol", "tcp"),
        _ => theirs.set("protocol", "unix"),
    }
    Ok(theirs)
}

fn derive(given: &[Measurement]) -> Vec<Measurement> {
    let messages = measured(given, "messages_per_s").zip(measured(given, "total_time_s")).map(|(rate, s)| rate * s);
    let cpu = measured(given, "cpu_s").zip(messages);
    cpu.map(|(cpu_s, n)| Measurement::new("cpu_us_per_message", cpu_s * 1e6 / n)).into_iter().collect()
}
