//! sockperf in the place of this engine.

use super::results::METRICS;
use crate::external::reference_tool::{ReferenceTools, carry, measured};
use holdup_model::{Measurement, Parameters, Problem};

/// sockperf measures the same, but for recorded times.
pub(crate) const REFERENCE_TOOLS: ReferenceTools = ReferenceTools { metrics: METRICS, translate, derive };

fn translate(tool: &str, own: &Parameters) -> Result<Parameters, Problem> {
    let refuse = |why: &str, hint: &str| Err(Problem::usage(format!("by {tool}"), why).hint(hint));
    if own.text("network")? != Some("host") {
        return refuse("it runs in the namespace of the host", "network = host");
    }
    if own.text("sharing")? != Some("processes") {
        return refuse("its ends are two processes", "sharing = processes");
    }
    match (own.text("mode")?, own.text("protocol")?) {
        (Some("playback"), _) => return refuse("a recording is not handed on to it", "take another mode"),
        (_, Some("udp" | "tcp")) => {}
        _ => return refuse("it is run over UDP and TCP only", "protocol = udp or tcp"),
    }
    let mut names = vec![
        ("mode", "mode"),
        ("protocol", "protocol"),
        ("size", "size"),
        ("burst", "burst"),
        ("placement", "placement"),
        ("reply_every", "reply_every"),
    ];
    // 0 is as fast as can be, which is its default.
    if own.integer("rate")?.is_some_and(|rate| rate > 0) {
        names.push(("rate", "rate"));
    }
    Ok(carry(own, &names))
}

fn derive(given: &[Measurement]) -> Vec<Measurement> {
    let received = measured(given, "messages_received").filter(|n| *n > 0.0);
    let cpu = measured(given, "cpu_s").zip(received);
    let cpu = cpu.map(|(cpu_s, n)| Measurement::new("cpu_ns_per_message", cpu_s * 1e9 / n));
    let rate = measured(given, "delivered_per_s").map(|rate| Measurement::new("messages_per_s", rate));
    cpu.into_iter().chain(rate).collect()
}
