//! A prediction for a terminal and as JSON.

mod reach;

use crate::formats::terminal::TerminalOptions;
use crate::screen::cut;
use crate::text::{align, capital, clean, count, number, percent, wrap};
use holdup_model::Direction;
use holdup_model::prediction::{HangsOn, Predicted, PredictedRatio, Prediction, PublishedBeside, ScalingBeside};
use holdup_model::published::PublishedRatio;
use serde_json::json;
use std::collections::BTreeMap;

/// The law is said to differ from the simulation from this share on.
const DIFFERS: f64 = 0.1;
/// Columns of the longest bar of a tornado.
const BAR: f64 = 16.0;

/// A prediction for a terminal: what changes, what that depends on, each arm, laws; its beginning on one screen.
pub fn predict_terminal(prediction: &Prediction, options: &TerminalOptions) -> String {
    let width = options.columns();
    let p = prediction;
    let mut out = wrap(
        &format!("Simulated on a machine with {} CPUs, not measured: {}.", p.cpus, p.machine.trim_end_matches('.')),
        width,
        "! ",
        "  ",
    );
    out.push_str(&wrap(&format!("{}, {} ({})", p.plan, p.metric.id, p.metric.unit), width, "", ""));
    for one in &p.published {
        out.push_str(&wrap(&published(one, p.draws), width, "", "  "));
    }
    for ratio in &p.ratios {
        out.push('\n');
        out.push_str(&wrap(&sentence(p, ratio), width, "▸ ", "  "));
        let most = if options.details { usize::MAX } else { 5 };
        out.push_str(&tornado(&ratio.hangs_on[..ratio.hangs_on.len().min(most)]));
    }
    for one in &p.reach {
        out.push('\n');
        out.push_str(&reach::section(one, width));
    }
    out.push_str(&format!("\n{} (median, 5th and 95th percentile)\n", p.metric.id));
    let rows: Vec<Vec<String>> = p
        .arms
        .iter()
        .map(|arm| {
            let Predicted { median, low, high } = arm.value;
            vec![clean(&arm.label), shown(median), shown(low), shown(high)]
        })
        .collect();
    out.push_str(&align(&rows, &[], "  "));
    for law in &p.scaling {
        out.push('\n');
        out.push_str(&wrap(&beside(law), width, "", "  "));
    }
    out.push('\n');
    out.push_str(&wrap(&known(p), width, "", ""));
    out.push_str(&wrap(&format!("The simulation leaves out: {}.", p.leaves_out), width, "", ""));
    if options.details { out } else { cut(out) }
}

pub(crate) fn shown(x: f64) -> String {
    if x.is_finite() { number(x) } else { "–".to_owned() }
}

fn range(p: &Predicted) -> String {
    format!("×{} ({} to {})", shown(p.median), shown(p.low), shown(p.high))
}

fn sentence(p: &Prediction, ratio: &PredictedRatio) -> String {
    let Predicted { median, low, high } = ratio.ratio;
    let (better, worse) = match p.metric.better {
        Direction::Higher => ("more", "less"),
        Direction::Lower => ("longer", "shorter"),
    };
    let verdict = match (low > 1.0, high < 1.0) {
        (true, _) => format!("{} {better} on every machine within the ranges", percent(median - 1.0)),
        (_, true) => format!("{} {worse} on every machine within the ranges", percent(1.0 - median)),
        _ => "the direction depends on costs that are not known".to_owned(),
    };
    format!(
        "{}={} instead of {}: {} {}: {verdict}.",
        clean(&ratio.factor),
        clean(&ratio.level),
        clean(&ratio.baseline),
        p.metric.id,
        range(&ratio.ratio)
    )
}

/// What others found, and whether the machines within the ranges can give it.
fn published(one: &PublishedBeside, draws: u32) -> String {
    let PublishedRatio { levels, at, value, source } = &one.published;
    let joined = |levels: &BTreeMap<String, String>| {
        let each: Vec<String> =
            levels.iter().map(|(name, label)| format!("{}={}", clean(name), clean(label))).collect();
        each.join(" ")
    };
    let instead = match one.baseline.is_empty() {
        true => String::new(),
        false => format!(" instead of {}", one.baseline.iter().map(|label| clean(label)).collect::<Vec<_>>().join(" ")),
    };
    let at = if at.is_empty() { String::new() } else { format!(" at {}", joined(at)) };
    let what = format!("Published: {}{instead}{at} ×{} ({})", joined(levels), shown(*value), clean(source));
    match one.range {
        None => format!("{what}; no two arms of this plan differ so."),
        Some(Predicted { low, high, .. }) => {
            let verdict = match one.is_within() {
                true => "it lies within",
                false => "it lies outside, so these costs do not give it; what the simulation leaves out may",
            };
            let machines = count(draws as usize, "drawn machine");
            format!(
                "{what}; the 5th and 95th percentile of {machines} are ×{} and ×{}: {verdict}.",
                shown(low),
                shown(high)
            )
        }
    }
}

/// What a ratio depends on, as bars from the ratio at the lower end of a parameter's range to that at the upper end.
fn tornado(all: &[HangsOn]) -> String {
    let moved = |h: &HangsOn| (h.at_high / h.at_low).ln().abs();
    let most = all.iter().map(moved).fold(0.0, f64::max);
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|h| {
            let bar = "▪".repeat(((moved(h) / most * BAR).round() as usize).max(1));
            let source = h.source.split_once(':').map_or(h.source.as_str(), |(known, _)| known);
            vec![
                clean(&h.parameter),
                format!("{} to {} ns", h.range_ns.0, h.range_ns.1),
                format!("×{} to ×{}", shown(h.at_low), shown(h.at_high)),
                clean(source),
                bar,
            ]
        })
        .collect();
    align(&rows, &[3, 4], "    ")
}

fn beside(law: &ScalingBeside) -> String {
    let at = if law.at.is_empty() { String::new() } else { format!(" at {}", clean(&law.at)) };
    let over = format!("Over {}{at}", clean(&law.axis));
    if let Some(why) = &law.absent {
        return format!("{over} the Universal Scalability Law could not be fitted: {why}.");
    }
    let points: Vec<String> = law
        .points
        .iter()
        .map(|(load, simulated, law)| format!("{load} → {} ({})", shown(*simulated), shown(*law)))
        .collect();
    let verdict = match law.worst > DIFFERS {
        true => "does not describe what was simulated",
        false => "describes what was simulated",
    };
    format!(
        "{over} the Universal Scalability Law {verdict}: {} apart at most. Simulated (law): {}.",
        percent(law.worst),
        points.join(", ")
    )
}

fn known(p: &Prediction) -> String {
    let (measured, published, assumed) = p.known;
    format!(
        "{} drawn from the ranges of the machine's parameters, of which {measured} are measured, {published} published and \
         {assumed} assumed.",
        capital(&count(p.draws as usize, "machine"))
    )
}

/// A prediction as JSON, schema `holdup.predict/1`.
pub fn predict_json(prediction: &Prediction) -> String {
    let document = json!({ "schema": "holdup.predict/1", "prediction": prediction });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
