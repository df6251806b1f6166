//! What `wakeup` is made of: [`setup`] reads its parameters, [`worker`] is the measured loop, [`trial`] coordinates,
//! [`results`] turns counts into metrics.

pub(crate) mod results;
pub(crate) mod setup;
pub(crate) mod trial;
mod worker;

use crate::external::reference_tool::{ReferenceTools, carry, measured};
use holdup_model::{Measurement, Parameters, Problem};

/// cyclictest measures the same.
pub(crate) const REFERENCE_TOOLS: ReferenceTools = ReferenceTools { metrics: results::METRICS, translate, derive };

fn translate(tool: &str, own: &Parameters) -> Result<Parameters, Problem> {
    let pinned = own.boolean("pin")?.unwrap_or(true);
    let mut theirs = carry(
        own,
        &[
            ("threads", "threads"),
            ("interval", "interval"),
            ("distance", "distance"),
            ("priority", "priority"),
            ("placement", "placement"),
        ],
    );
    let cpus = own.text("cpus")?.unwrap_or("allowed");
    let placed = own.text("placement")?.is_some_and(|placement| placement != "none");
    match (pinned, cpus) {
        // Thread i on the i-th CPU, as holdup has it.
        (true, "allowed") if !placed => theirs.set("arguments", r#"["--affinity"]"#),
        (true, cpus) if !placed => theirs.set("arguments", format!(r#"["--affinity={cpus}"]"#).as_str()),
        (false, "allowed") | (true, _) => {}
        (false, cpus) => {
            return Err(Problem::usage(
                format!("by {tool}"),
                format!("it cannot leave its threads anywhere on CPUs {cpus}"),
            )
            .hint("pin = on"));
        }
    }
    if own.integer("priority")?.unwrap_or(0) == 0 {
        // Its own default is SCHED_OTHER.
        let mut without = Parameters::default();
        for (name, value) in theirs.0.iter().filter(|(name, _)| *name != "priority") {
            without.set(name, value.clone());
        }
        theirs = without;
    }
    Ok(theirs)
}

fn derive(given: &[Measurement]) -> Vec<Measurement> {
    let per_cycle = |cpu_s: f64, cycles: f64| Measurement::new("cpu_us_per_cycle", cpu_s * 1e6 / cycles);
    let known = measured(given, "cpu_s").zip(measured(given, "cycles"));
    known.map(|(cpu_s, cycles)| per_cycle(cpu_s, cycles)).into_iter().collect()
}
