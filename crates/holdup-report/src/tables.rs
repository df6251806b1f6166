//! The comparisons as rows, the same for every format that has tables.

use crate::text::{self, clean};
use holdup_model::outcome::{Contrast, Side};
use holdup_model::{Analysis, Comparison, Metric, Verdict};

/// What a comparison is called: `autogroup=off against on`.
pub(crate) fn contrast(contrast: &Contrast) -> String {
    clean(&match contrast {
        Contrast::Factor { factor: name, baseline, level } | Contrast::Axis { axis: name, baseline, level } => {
            format!("{name}={level} against {baseline}")
        }
        Contrast::Same => "the baseline against itself (A/A)".to_owned(),
        Contrast::Unobserved => "without collectors against with them".to_owned(),
        Contrast::Named { baseline, level } => format!("{level} against {baseline}"),
    })
}

/// What the two sides are called, the baseline first.
pub(crate) fn sides(contrast: &Contrast) -> (String, String) {
    match contrast {
        Contrast::Factor { baseline, level, .. }
        | Contrast::Axis { baseline, level, .. }
        | Contrast::Named { baseline, level } => (clean(baseline), clean(level)),
        Contrast::Same => ("baseline".to_owned(), "again".to_owned()),
        Contrast::Unobserved => ("observed".to_owned(), "unobserved".to_owned()),
    }
}

/// `clients=2, mode=simple`; `all cells` when pooled.
pub(crate) fn cell(c: &Comparison) -> String {
    // Only a row for several cells has no means.
    if c.pooled && c.baseline.is_none() && c.level.is_none() {
        return "all cells".to_owned();
    }
    let named: Vec<String> = c.cell.iter().map(|(k, v)| format!("{k}={v}")).collect();
    if named.is_empty() { "the only cell".to_owned() } else { clean(&named.join(", ")) }
}

/// The sign of a verdict, which does not need colour: `≠`, `=`, `~`.
pub(crate) fn sign(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Different => "≠",
        Verdict::Equivalent => "=",
        Verdict::Undecided { .. } => "~",
    }
}

pub(crate) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Different => "different",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided { .. } => "undecided",
    }
}

/// A metric with its unit, as it stands in a table's head: `latency_p99_us` alone when the id ends in the unit.
pub(crate) fn metric(metric: &Metric) -> String {
    let (id, unit) = (clean(&metric.id), clean(&metric.unit));
    if unit.is_empty() || id.ends_with(&format!("_{unit}")) { id } else { format!("{id} ({unit})") }
}

/// The mean of a side, `–` where there is none (pooled over cells, or not measured).
pub(crate) fn mean(side: Option<&Side>) -> String {
    side.map_or_else(|| "–".to_owned(), |s| text::number(s.mean))
}

/// The ratio with its interval, `–` without one; the reason stands in the verdict.
pub(crate) fn ratio(c: &Comparison) -> String {
    c.ratio.as_ref().map_or_else(|| "–".to_owned(), text::ratio)
}

/// All comparisons of one contrast in one workload.
pub(crate) struct Group<'a> {
    pub(crate) workload: &'a str,
    pub(crate) contrast: &'a Contrast,
    /// In the order of the table: the primary metric first; for each metric the cells, then the pooled row.
    pub(crate) metrics: Vec<(&'a Metric, Vec<&'a Comparison>)>,
    pub(crate) noise_floor: Option<f64>,
    pub(crate) margin: f64,
}

/// Groups in the order of the analysis: workloads as they first come, contrasts within them likewise.
pub(crate) fn groups(analysis: &Analysis) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for c in &analysis.comparisons {
        let at = groups.iter().position(|g| g.workload == c.workload && *g.contrast == c.contrast);
        let at = at.unwrap_or_else(|| {
            groups.push(Group {
                workload: &c.workload,
                contrast: &c.contrast,
                metrics: Vec::new(),
                noise_floor: c.noise_floor,
                margin: c.margin,
            });
            groups.len() - 1
        });
        let metrics = &mut groups[at].metrics;
        match metrics.iter_mut().find(|(m, _)| m.id == c.metric.id) {
            Some((_, rows)) => rows.push(c),
            None => metrics.push((&c.metric, vec![c])),
        }
    }
    for group in &mut groups {
        for (_, rows) in &mut group.metrics {
            // Means can only be shown cell by cell, so a single cell says all that its pooled row says.
            let cells = rows.iter().filter(|c| !c.pooled).count();
            if cells == 1 {
                rows.retain(|c| !c.pooled);
            }
            rows.sort_by_key(|c| c.pooled);
        }
    }
    // A stable sort, so that workloads keep their order and stay together.
    let order: Vec<&str> = groups.iter().map(|g| g.workload).collect();
    let first = |w: &str| order.iter().position(|o| *o == w);
    groups.sort_by_key(|g| (first(g.workload), rank(g.contrast)));
    groups
}

/// What was asked first, then how axes act, then the checks of the run itself.
fn rank(contrast: &Contrast) -> u8 {
    match contrast {
        Contrast::Factor { .. } | Contrast::Named { .. } => 0,
        Contrast::Axis { .. } => 1,
        Contrast::Same => 2,
        Contrast::Unobserved => 3,
    }
}

/// What the signs mean, in one line.
pub(crate) const LEGEND: &str = "≠ different: the 95 % interval excludes 1; = equivalent: within the margin; ~ undecided. \
                                 ×R (L to H): ratio to the baseline with its interval; – not measured, or not one number.";
