//! All changes of a workload side by side: rows are metrics and cells, columns are changes.

use crate::tables::{self, Group};
use crate::text::{self, clean};
use holdup_model::Comparison;
use holdup_model::outcome::Contrast;

/// Groups that can stand beside each other: the same baseline in every row.
pub(crate) struct Matrix<'a> {
    /// What the column of the baseline is called.
    baseline: String,
    groups: Vec<&'a Group<'a>>,
}

/// The longest name of a column.
const HEAD: usize = 24;

/// The matrices of a workload's groups, each with as many columns as `width` has room for.
pub(crate) fn matrices<'a>(groups: &[&'a Group<'a>], width: usize) -> Vec<Matrix<'a>> {
    // A/A stands beside the factors, on the same baseline.
    let mut sorted: Vec<&'a Group<'a>> = groups.to_vec();
    sorted.sort_by_key(|g| matches!(g.contrast, Contrast::Axis { .. }));
    let mut all: Vec<Matrix<'a>> = Vec::new();
    for group in sorted {
        let baseline = baseline(group.contrast);
        if let Some(last) = all.last_mut()
            && last.baseline == baseline
            && agree(last.groups[0], group)
        {
            last.groups.push(group);
            if last.width() <= width {
                continue;
            }
            last.groups.pop();
        }
        all.push(Matrix { baseline, groups: vec![group] });
    }
    all
}

fn baseline(contrast: &Contrast) -> String {
    match contrast {
        Contrast::Axis { axis, baseline, .. } => clean(&format!("{axis}={baseline}")),
        Contrast::Named { baseline, .. } => shorten(&clean(baseline), 12),
        _ => "baseline".to_owned(),
    }
}

pub(crate) fn head(contrast: &Contrast) -> String {
    label(contrast, HEAD)
}

/// What was compared, in at most `most` columns.
pub(crate) fn label(contrast: &Contrast, most: usize) -> String {
    let name = match contrast {
        Contrast::Factor { factor: name, level, .. } | Contrast::Axis { axis: name, level, .. } => {
            let whole = clean(&format!("{name}={level}"));
            return if text::columns(&whole) <= most { whole } else { end_of(&clean(level), most) };
        }
        Contrast::Same => "baseline again (A/A)".to_owned(),
        Contrast::Unobserved => "without collectors".to_owned(),
        Contrast::Named { level, .. } => level.clone(),
    };
    shorten(&clean(&name), most)
}

/// Levels that are long, such as paths, differ at their end.
fn end_of(text: &str, most: usize) -> String {
    if text::columns(text) <= most {
        return text.to_owned();
    }
    let left_out = text.chars().count().saturating_sub(most.saturating_sub(1));
    std::iter::once('…').chain(text.chars().skip(left_out)).collect()
}

/// True if two groups have the same rows on the same baseline.
fn agree(a: &Group<'_>, b: &Group<'_>) -> bool {
    let rows = |g: &Group<'_>| {
        let all = g.metrics.iter().flat_map(|(m, rows)| rows.iter().map(|c| (m.id.clone(), tables::cell(c))));
        all.collect::<Vec<_>>()
    };
    let means = |g: &Group<'_>| {
        let all = g.metrics.iter().flat_map(|(_, rows)| rows.iter().map(|c| tables::mean(c.baseline.as_ref())));
        all.collect::<Vec<_>>()
    };
    rows(a) == rows(b) && means(a) == means(b)
}

pub(crate) fn shorten(text: &str, columns: usize) -> String {
    if text::columns(text) <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// A ratio with its interval and the sign of its verdict.
fn cell(c: Option<&&Comparison>) -> String {
    match c {
        None => String::new(),
        Some(c) if c.ratio.is_none() => "–".to_owned(),
        Some(c) => format!("{} {}", tables::ratio(c), tables::sign(&c.verdict)),
    }
}

impl Matrix<'_> {
    /// The rows for [`text::align`], the first of which is the head, and the columns to be set to the left.
    fn rows(&self) -> (Vec<Vec<String>>, Vec<usize>) {
        let left = (2..2 + self.groups.len()).collect();
        let mut rows = vec![vec![String::new(), self.baseline.clone()]];
        rows[0].extend(self.groups.iter().map(|g| head(g.contrast)));
        let Some(first) = self.groups.first() else { return (rows, left) };
        for (metric, comparisons) in &first.metrics {
            if !self.has_data(&metric.id) {
                continue;
            }
            let shown = shown(comparisons);
            let name = shorten(&tables::metric(metric), 22);
            if shown.len() > 1 {
                rows.push(vec![name.clone()]);
            }
            for c in &shown {
                let place = tables::cell(c);
                let label = if shown.len() > 1 { format!("  {}", shorten(&place, 20)) } else { name.clone() };
                let mut row = vec![label, tables::mean(c.baseline.as_ref())];
                row.extend(
                    self.groups.iter().map(|g| cell(of(g, &metric.id).iter().find(|c| tables::cell(c) == place))),
                );
                rows.push(row);
            }
        }
        let mut floors = vec!["noise floor".to_owned(), String::new()];
        floors.extend(
            self.groups
                .iter()
                .map(|g| g.noise_floor.map_or_else(|| "not known".to_owned(), |f| format!("±{}", text::percent(f)))),
        );
        rows.push(floors);
        (rows, left)
    }

    /// The matrix as lines.
    pub(crate) fn lines(&self) -> String {
        let (rows, left) = self.rows();
        text::align(&rows, &left, "  ")
    }

    fn width(&self) -> usize {
        self.lines().lines().map(text::columns).max().unwrap_or(0)
    }

    /// True if anything is known of a metric: a ratio, or at least what the baseline measured.
    fn has_data(&self, metric: &str) -> bool {
        let known = |c: &&Comparison| c.ratio.is_some() || c.baseline.is_some();
        self.groups.iter().any(|g| shown(of(g, metric)).iter().any(|c| known(c)))
    }

    /// The metrics that nothing is known of.
    pub(crate) fn without_data(&self) -> Vec<String> {
        let Some(first) = self.groups.first() else { return Vec::new() };
        first.metrics.iter().filter(|(m, _)| !self.has_data(&m.id)).map(|(m, _)| clean(&m.id)).collect()
    }

    /// True if some cells of other metrics are left out of the rows.
    pub(crate) fn leaves_out(&self) -> bool {
        self.groups
            .iter()
            .flat_map(|g| &g.metrics)
            .any(|(_, rows)| rows.iter().any(|c| !c.primary && !c.pooled) && rows.len() > 1)
    }
}

/// The rows of a metric: all cells of the primary one; of the others only the row for all of them.
fn shown<'a, 'g>(comparisons: &'g [&'a Comparison]) -> Vec<&'g &'a Comparison> {
    comparisons.iter().filter(|c| c.primary || c.pooled || comparisons.len() == 1).collect()
}

fn of<'a, 'g>(group: &'g Group<'a>, metric: &str) -> &'g [&'a Comparison] {
    group.metrics.iter().find(|(m, _)| m.id == metric).map(|(_, rows)| rows.as_slice()).unwrap_or_default()
}
