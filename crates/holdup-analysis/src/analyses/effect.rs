//! The verdicts: what each level of each factor and axis does to the primary metric.

use super::{Context, slow_trials};
use crate::compare::cell_name;
use crate::index::Index;
use crate::words;
use holdup_model::bundle::BundleHead;
use holdup_model::outcome::{Contrast, FindingVerdict, NoiseSplit};
use holdup_model::text::time_points;
use holdup_model::{Comparison, Direction, Finding, Meta, Verdict};
use std::collections::BTreeSet;

pub static META: Meta = Meta {
    id: "effect",
    summary: "what each level does to the primary metric, with its interval",
    docs: "One verdict for each level of each factor and of each axis, and each workload: the ratio to the \
           baseline, paired by block and pooled over the cells, with its 95 % interval, the equivalence margin \
           and the A/A noise floor. Throughput and latency of the same trials stand together. Where the cells \
           do not agree with the pooled answer, the best and the worst are named.\n\n\
           With the collector account, a throughput that differs comes with where the time went. A unit of work costs the time \
           of all PostgreSQL sessions divided by the throughput, which is the sum of what it costs in each state (waiting for \
           clients is one). The growth of each, as a share of the slower side's cost, is its points: with as many sessions \
           on both sides they add up to the throughput that is lost. Taken in each block, the mean with a t interval; \
           those of all states hold together at 95 %.",
    references: &["docs/statistics.md"],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let mut found: Vec<&Comparison> = context.comparisons.iter().filter(|c| c.headline).collect();
    found.sort_by_key(|c| u8::from(matches!(c.contrast, Contrast::Axis { .. })));
    found.into_iter().map(|c| of_run(context.index, c, context.comparisons)).collect()
}

/// The headline of one comparison within a run, with what must be said of slow trials that it leaves out.
pub(crate) fn of_run(index: &Index<'_>, c: &Comparison, all: &[Comparison]) -> Finding {
    let mut finding = finding(c, all, Unit::of(&index.bundle.head), Some(index.blocks_run()));
    if let Some(caution) = slow_trials::caution(index, c) {
        finding.sentence.push_str(&format!(" {caution}"));
    }
    finding
}

/// What a value is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A block of this run.
    Block,
    /// A run of another tool.
    Run,
}

impl Unit {
    pub(crate) fn of(head: &BundleHead) -> Self {
        if head.is_imported() { Unit::Run } else { Unit::Block }
    }

    fn word(self) -> &'static str {
        if self == Unit::Run { "run" } else { "block" }
    }

    /// Puts its word into what the statistics say, which know blocks.
    pub(crate) fn say(self, comparison: &mut Comparison) {
        if self == Unit::Block {
            return;
        }
        let say = |text: &mut String| *text = text.replace(Unit::Block.word(), self.word());
        if let Verdict::Undecided { reason, .. } = &mut comparison.verdict {
            say(reason);
        }
        for ratio in [&mut comparison.ratio, &mut comparison.mean_ratio].into_iter().flatten() {
            say(&mut ratio.method);
        }
    }
}

/// The headline of one pooled primary comparison; `blocks` are those that were run, where they could all be paired.
pub(crate) fn finding(c: &Comparison, all: &[Comparison], unit: Unit, blocks: Option<u32>) -> Finding {
    let family: Vec<&Comparison> =
        all.iter().filter(|o| o.contrast == c.contrast && o.workload == c.workload).collect();
    let mut sentence = format!("{}: {} of {} ", subject(&c.contrast), words::metric_name(&c.metric), c.workload);
    match &c.ratio {
        Some(ratio) => sentence.push_str(&format!("{}: {}", words::ratio(ratio), answer(c, unit))),
        None => sentence.push_str(&format!("could not be compared: {}", reason(&c.verdict))),
    }
    if let (Some(ratio), Some(mean)) = (&c.ratio, &c.mean_ratio)
        && ratio.n < mean.n
    {
        sentence.push_str(&format!("; slow trials are left out, with them {}", words::ratio_short(mean)));
    }
    let companion = companion(c, &family);
    if let Some(companion) = companion
        && let Some(ratio) = &companion.ratio
    {
        let name = words::metric_name(&companion.metric);
        sentence.push_str(&format!("; {name} of the same trials {}", words::ratio_short(ratio)));
    }
    match c.noise_floor {
        Some(floor) => sentence.push_str(&format!("; this run's noise floor is ±{}.", words::percent(floor))),
        None if unit == Unit::Run || matches!(c.contrast, Contrast::Named { .. }) => sentence.push('.'),
        None => sentence.push_str("; no A/A pair shows this run's noise floor."),
    }
    if let Some(time) = time_points(c) {
        sentence.push_str(&format!(" {time}"));
    }
    let mut trials: BTreeSet<u32> = BTreeSet::new();
    for side in family.iter().filter(|o| o.primary).flat_map(|o| [&o.baseline, &o.level]).flatten() {
        trials.extend(&side.trials);
    }
    Finding {
        analysis: META.id.to_owned(),
        verdict: verdict(c),
        sentence,
        details: details(c, &family, companion, blocks),
        trials: trials.into_iter().collect(),
        headline: true,
    }
}

fn verdict(c: &Comparison) -> FindingVerdict {
    match (&c.ratio, &c.verdict) {
        (_, Verdict::Different) => FindingVerdict::Supported,
        (_, Verdict::Equivalent) => FindingVerdict::Refuted,
        (Some(_), Verdict::Undecided { .. }) => FindingVerdict::Undecided,
        (None, Verdict::Undecided { .. }) => FindingVerdict::Skipped,
    }
}

/// What stands against what.
pub(crate) fn subject(contrast: &Contrast) -> String {
    match contrast {
        Contrast::Factor { factor, baseline, level } => format!("{factor}={level} instead of {baseline}"),
        Contrast::Axis { axis, baseline, level } if axis == "command" => format!("`{level}` instead of `{baseline}`"),
        Contrast::Axis { axis, baseline, level } => {
            if ["clients", "threads", "processes", "connections"].contains(&axis.as_str()) {
                format!("{level} {axis} instead of {baseline}")
            } else {
                format!("{axis}={level} instead of {baseline}")
            }
        }
        Contrast::Same => "the baseline against itself".to_owned(),
        Contrast::Unobserved => "without collectors instead of with them".to_owned(),
        Contrast::Named { baseline, level } => format!("{level} instead of {baseline}"),
    }
}

/// True if a ratio is for the better.
fn better(c: &Comparison, ratio: f64) -> bool {
    match c.metric.better {
        Direction::Higher => ratio > 1.0,
        Direction::Lower => ratio < 1.0,
    }
}

fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Undecided { reason, .. } => reason,
        _ => "",
    }
}

/// The verdict in words.
pub(crate) fn answer(c: &Comparison, unit: Unit) -> String {
    let unit = unit.word();
    match &c.verdict {
        Verdict::Different => {
            let Some(ratio) = &c.ratio else { return "different".to_owned() };
            let way = if better(c, ratio.value) { "better" } else { "worse" };
            let within = ratio.high <= 1.0 + c.margin && ratio.low >= 1.0 / (1.0 + c.margin);
            let though = if within { format!(", though within ±{}", words::percent(c.margin)) } else { String::new() };
            format!("different, {way}{though}")
        }
        Verdict::Equivalent => format!("no difference beyond ±{}", words::percent(c.margin)),
        Verdict::Undecided { reason, blocks_needed } => match blocks_needed {
            Some(1) => format!("undecided ({reason}); about 1 further {unit} would decide"),
            Some(n) => format!("undecided ({reason}); about {n} further {unit}s would decide"),
            None => format!("undecided ({reason}); more {unit}s alone would hardly decide it"),
        },
    }
}

/// Throughput for a latency, and a latency for a throughput: pooled, of the same trials.
fn companion<'a>(c: &Comparison, family: &[&'a Comparison]) -> Option<&'a Comparison> {
    let wanted: &[&str] =
        if c.metric.id.contains("latency") { &["tps", "per_s"] } else { &["latency_mean", "latency"] };
    let mut pooled = family.iter().filter(|o| o.pooled && o.metric.id != c.metric.id);
    wanted
        .iter()
        .find_map(|w| pooled.clone().find(|o| o.metric.id.contains(w)))
        .or_else(|| {
            // Another workload's words: anything that is better the other way round.
            pooled.find(|o| o.metric.better != c.metric.better)
        })
        .copied()
}

fn details(c: &Comparison, family: &[&Comparison], companion: Option<&Comparison>, blocks: Option<u32>) -> Vec<String> {
    let mut details = Vec::new();
    if let (Some(ratio), Some(floor)) = (&c.ratio, c.noise_floor)
        && c.verdict == Verdict::Different
        && ratio.value.ln().abs() < floor.ln_1p()
    {
        details
            .push("The effect is smaller than what the same arm showed against itself: treat it with care.".to_owned());
    }
    details.extend(cells(c, family));
    let of_cells = family.iter().filter(|o| o.primary && !o.pooled);
    details.extend(of_cells.filter_map(|o| Some(format!("{}: {}", cell_name(&o.cell), time_points(o)?))));
    let others: Vec<String> = family
        .iter()
        .filter(|o| o.pooled && !o.primary && o.verdict == Verdict::Different)
        .filter(|o| companion.is_none_or(|c| c.metric.id != o.metric.id))
        .filter_map(|o| {
            let ratio = o.ratio.as_ref()?;
            let way = if better(o, ratio.value) { "better" } else { "worse" };
            Some(format!("{} {} ({way})", words::metric_name(&o.metric), words::ratio_short(ratio)))
        })
        .collect();
    if !others.is_empty() {
        details.push(format!("Also different, corrected for the number of metrics: {}.", words::list(&others)));
    }
    if let Some(ratio) = &c.ratio {
        let paired = c.mean_ratio.as_ref().map_or(ratio.n, |mean| mean.n);
        if let Some(blocks) = blocks.filter(|blocks| *blocks > paired) {
            details.push(format!("Only {paired} of {blocks} blocks have all that is compared here."));
        }
        details.extend(c.noise.as_ref().map(noise));
        details.push(format!("How: {}.", ratio.method));
    }
    details
}

/// Where the noise comes from, largest first.
fn noise(noise: &NoiseSplit) -> String {
    let mut parts = vec![(noise.trial_cv, "between trials"), (noise.block_cv, "between blocks")];
    parts.extend(noise.session_cv.map(|cv| (cv, "between sessions")));
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shares: Vec<String> = parts.iter().map(|(cv, name)| format!("{} {name}", words::percent(*cv))).collect();
    let mut sentence = format!("Noise of a single result: {}", words::list(&shares));
    if let Some(cv) = noise.ratio_session_cv.filter(|cv| *cv > 0.0) {
        sentence.push_str(&format!("; the ratio itself differs by {} from session to session", words::percent(cv)));
    }
    sentence.push('.');
    sentence
}

/// The best and the worst cell, where the cells do not agree.
fn cells(c: &Comparison, family: &[&Comparison]) -> Option<String> {
    let mut cells: Vec<(&Comparison, f64)> = family
        .iter()
        .filter(|o| o.primary && !o.pooled)
        .filter_map(|o| o.ratio.as_ref().map(|r| (*o, r.value)))
        .collect();
    cells.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (low, high) = (cells.first()?, cells.last()?);
    let apart = |a: &Comparison, b: &Comparison| match (&a.ratio, &b.ratio) {
        (Some(a), Some(b)) => a.high < b.low,
        _ => false,
    };
    let stands_out = |o: &Comparison| o.verdict == Verdict::Different && c.verdict != Verdict::Different;
    if !(apart(low.0, high.0) || cells.iter().any(|(o, _)| stands_out(o))) {
        return None;
    }
    let (best, worst) = if better(c, 2.0) { (high, low) } else { (low, high) };
    let show = |o: &Comparison| {
        let ratio = o.ratio.as_ref().map(words::ratio_short).unwrap_or_default();
        format!("{} {ratio}", cell_name(&o.cell))
    };
    Some(format!("The cells do not agree: best at {}, worst at {}.", show(best.0), show(worst.0)))
}
