//! Little's law of each pgbench trial.

use super::{Analysis, Context, note};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Arm, Finding, Meta, Trial, Value};
use holdup_stats::{LITTLES_LAW_TOLERANCE, littles_law};

/// See [`META`].
pub struct LittlesLaw;

/// What this analysis says about itself.
pub static META: Meta = Meta {
    id: "littles-law",
    summary: "whether clients, throughput and latency of a trial disagree",
    docs: "In a closed loop, clients = throughput × (mean latency + mean think time). pgbench has no think time of its \
           own, but a client waits while its pgbench thread serves others; where that was measured it counts. A trial \
           without a rate in which the two sides lie more than 5 % apart has a wrong number: transactions that were \
           not logged, clients that did not run, or a wrong window. With a rate the loop is open, and the law is not checked.",
    references: &["J. D. C. Little, A Proof for the Queuing Formula L = λW, Operations Research 9(3), 1961"],
};

impl Analysis for LittlesLaw {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn run(&self, context: &Context<'_>) -> Vec<Finding> {
        let (mut checked, mut wrong) = (Vec::new(), Vec::new());
        for arm in context.index.arms() {
            let Some(clients) = closed_loop_clients(context, arm) else { continue };
            for trial in context.index.done(arm.id) {
                let Some(law) = law(trial, clients) else { continue };
                checked.push(trial.seq);
                if !law.holds {
                    wrong.push((trial.seq, arm, law));
                }
            }
        }
        if checked.is_empty() {
            let sentence = "Little's law was not checked: no trial that counts has clients in a closed loop, \
                            throughput and mean latency."
                .to_owned();
            return vec![note(&META, FindingVerdict::Skipped, sentence)];
        }
        checked.sort_unstable();
        let tolerance = words::percent(LITTLES_LAW_TOLERANCE);
        if wrong.is_empty() {
            let sentence = format!(
                "Little's law holds: in {} of {} clients equal throughput times mean latency to within {tolerance}.",
                checked.len(),
                words::count(checked.len(), "trial")
            );
            return vec![Finding { trials: checked, ..note(&META, FindingVerdict::Refuted, sentence) }];
        }
        wrong.sort_by_key(|(seq, ..)| *seq);
        let seqs: Vec<u32> = wrong.iter().map(|(seq, ..)| *seq).collect();
        let sentence = format!(
            "Little's law is violated in {} of {}: throughput times mean latency differs from the number of clients by \
             more than {tolerance} ({}). Numbers of these trials are suspect.",
            wrong.len(),
            words::count(checked.len(), "trial"),
            words::trials(&seqs)
        );
        let details = wrong
            .iter()
            .take(10)
            .map(|(seq, arm, law)| {
                format!(
                    "Trial {seq} ({}): {} clients ran, throughput times latency comes to {}.",
                    arm.label,
                    words::number(law.expected),
                    words::number(law.found)
                )
            })
            .collect();
        vec![Finding { details, trials: seqs, ..note(&META, FindingVerdict::Supported, sentence) }]
    }
}

/// The clients of an arm of pgbench in a closed loop.
fn closed_loop_clients(context: &Context<'_>, arm: &Arm) -> Option<f64> {
    let workload = context.bundle().plan.workload(&arm.workload)?;
    if workload.kind != "pgbench" {
        return None;
    }
    let value =
        |name: &str| arm.axes.get(name).map(|l| &l.value).or_else(|| workload.parameters.get(name)).and_then(plain);
    if value("rate").is_some_and(|rate| rate > 0.0) {
        return None;
    }
    value("clients")
}

fn plain(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(i) => Some(*i as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

fn law(trial: &Trial, clients: f64) -> Option<holdup_stats::LittlesLaw> {
    let (tps, latency_us) = (trial.metric("tps")?, trial.metric("latency_mean_us")?);
    // The time in which a client has nothing under way because pgbench itself is busy with others.
    let think_us = trial.metric("think_mean_us").unwrap_or(0.0);
    littles_law(clients, tps, latency_us / 1e6, think_us / 1e6).ok()
}
