//! Whether "better" means better: directions that contradict each other, or what a workload says of itself.

use super::{Context, note};
use crate::analyses::effect::subject;
use crate::words;
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::{Comparison, Direction as Better, Finding, Meta, Verdict};

pub static META: Meta = Meta {
    id: "direction",
    summary: "whether better and worse contradict each other or the workload",
    docs: "Tables in which a loss is printed as a gain are a known defect of published comparisons. Two things are looked at. \
           A plan may say which direction of a metric is better; when the workload says the opposite of this metric, that \
           is reported. And throughput and mean latency of the same closed loop cannot both rise or both fall, since their \
           product is the number of clients: when both are different and go the same way, one of them is not what it is \
           called.",
    references: &["docs/statistics.md"],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = turned(context);
    let all = context.comparisons;
    // More clients are another loop: both may rise.
    let is_one_loop = |c: &&Comparison| !matches!(&c.contrast, Contrast::Axis { axis, .. } if axis == "clients");
    let is_throughput = |c: &&Comparison| c.metric.id == "tps" && c.verdict == Verdict::Different;
    findings.extend(all.iter().filter(is_one_loop).filter(is_throughput).filter_map(|throughput| {
        let same_place = |c: &&Comparison| {
            c.metric.id.starts_with("latency_mean")
                && (&c.contrast, &c.workload, &c.cell, c.pooled)
                    == (&throughput.contrast, &throughput.workload, &throughput.cell, throughput.pooled)
        };
        contradiction(throughput, all.iter().find(same_place)?)
    }));
    findings
}

/// Directions that the plan turned round.
fn turned(context: &Context<'_>) -> Vec<Finding> {
    let bundle = context.bundle();
    let turned = bundle.metrics.iter().filter_map(|(workload, own)| {
        let said = bundle.plan.metric_choice(workload, &own.id)?.better?;
        (said != own.better && bundle.plan.workload(workload)?.kind != "command").then(|| {
            let word = |better: Better| match better {
                Better::Higher => "higher",
                Better::Lower => "lower",
            };
            let sentence = format!(
                "The plan says that {} {} of {workload} is better; the workload itself says {}. Every better and worse of this \
                 metric follows the plan.",
                word(said),
                words::metric_name(own),
                word(own.better)
            );
            note(&META, FindingVerdict::Supported, sentence)
        })
    });
    turned.collect()
}

fn contradiction(throughput: &Comparison, latency: &Comparison) -> Option<Finding> {
    let (x, r) = (throughput.ratio.as_ref()?, latency.ratio.as_ref()?);
    if latency.verdict != Verdict::Different || (x.value > 1.0) != (r.value > 1.0) {
        return None;
    }
    let sentence = format!(
        "{}: throughput {} and mean latency {} of {} both {}, which a closed loop cannot do: one of them is not what it is \
         called, or was not measured over the same time.",
        subject(&throughput.contrast),
        words::ratio_short(x),
        words::ratio_short(r),
        throughput.workload,
        if x.value > 1.0 { "rose" } else { "fell" }
    );
    let sides = [&throughput.baseline, &throughput.level];
    let trials = sides.into_iter().flatten().flat_map(|s| s.trials.clone()).collect();
    Some(Finding { trials, ..note(&META, FindingVerdict::Supported, sentence) })
}
