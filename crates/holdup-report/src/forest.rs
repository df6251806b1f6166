//! The forest plot in text: all answers to the plan's question on one logarithmic axis.

use crate::matrix::{label, shorten};
use crate::tables;
use crate::text::{self, align, clean, columns};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Analysis, Comparison, Direction, Verdict};

/// The narrowest and the widest bar, in columns.
const BAR: (usize, usize) = (13, 40);
/// Ratios beyond this stand at the edge.
const EDGE: f64 = 1000.0;

/// The comparisons that answer the plan's question, those of one metric of one workload together.
pub(crate) fn groups(analysis: &Analysis) -> Vec<Vec<&Comparison>> {
    let mut groups: Vec<Vec<&Comparison>> = Vec::new();
    for c in analysis.comparisons.iter().filter(|c| c.headline) {
        let is_alike = |g: &&mut Vec<&Comparison>| g[0].workload == c.workload && g[0].metric.id == c.metric.id;
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(c),
            None => groups.push(vec![c]),
        }
    }
    groups
}

/// `≠ better`, `= same`, `~ undecided`.
fn answer(c: &Comparison) -> String {
    let word = match (&c.verdict, &c.ratio) {
        (_, None) => return "– no data".to_owned(),
        (Verdict::Different, Some(r)) if (r.value > 1.0) == (c.metric.better == Direction::Higher) => "better",
        (Verdict::Different, _) => "worse",
        (Verdict::Equivalent, _) => "same",
        (Verdict::Undecided { .. }, _) => "undecided",
    };
    format!("{} {word}", tables::sign(&c.verdict))
}

/// The common axis, in logarithms.
struct Axis {
    low: f64,
    high: f64,
    columns: usize,
}

impl Axis {
    fn new<'a>(shown: impl Iterator<Item = &'a Comparison>, columns: usize) -> Self {
        let mut axis = Axis { low: -0.02, high: 0.02, columns };
        for c in shown {
            let floor = c.noise_floor.map(|f| [1.0 / (1.0 + f), 1.0 + f]);
            let ends = c.ratio.as_ref().map(|r| [r.low, r.high]);
            for log in floor.into_iter().chain(ends).flatten().map(log) {
                axis.low = axis.low.min(log);
                axis.high = axis.high.max(log);
            }
        }
        axis
    }

    fn column(&self, ratio: f64) -> usize {
        let share = (log(ratio) - self.low) / (self.high - self.low);
        ((share * (self.columns - 1) as f64).round() as usize).min(self.columns - 1)
    }

    /// `░` the noise floor, `│` no difference, `├─●─┤` the ratio with its interval.
    fn bar(&self, c: &Comparison) -> String {
        let mut cells = vec![' '; self.columns];
        if let Some(floor) = c.noise_floor {
            cells[self.column(1.0 / (1.0 + floor))..=self.column(1.0 + floor)].fill('░');
        }
        cells[self.column(1.0)] = '│';
        if let Some(r) = &c.ratio {
            let (low, high) = (self.column(r.low), self.column(r.high));
            cells[low..=high.max(low)].fill('─');
            cells[low] = '├';
            cells[high] = '┤';
            cells[self.column(r.value)] = '●';
        }
        cells.into_iter().collect()
    }

    /// What stands below the bars: both ends, and 1 where there is room.
    fn labels(&self) -> String {
        let [low, high] = [self.low, self.high].map(|log| format!("×{}", short(log.exp())));
        let one = self.column(1.0);
        let gap = self.columns.saturating_sub(columns(&low) + columns(&high));
        if one > columns(&low) && one + 1 < columns(&low) + gap {
            let before = one - columns(&low);
            return format!("{low}{}1{}{high}", " ".repeat(before), " ".repeat(gap - before - 1));
        }
        format!("{low}{}{high}", " ".repeat(gap))
    }
}

fn log(ratio: f64) -> f64 {
    if ratio.is_nan() { 0.0 } else { ratio.clamp(1.0 / EDGE, EDGE).ln() }
}

fn short(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

/// The plot; empty where nothing was compared.
pub(crate) fn text(groups: &[Vec<&Comparison>], width: usize) -> String {
    let all = || groups.iter().flatten().copied();
    let rows: Vec<[String; 3]> = all().map(|c| [label(&c.contrast, 24), tables::ratio(c), answer(c)]).collect();
    let widest = |i: usize| rows.iter().map(|r| columns(&r[i])).max().unwrap_or(0);
    let used = widest(0) + widest(1) + widest(2) + 8;
    let axis = Axis::new(all(), width.saturating_sub(used).clamp(BAR.0, BAR.1));
    let mut lines = Vec::new();
    let mut rows = rows.into_iter();
    for group in groups {
        lines.push(vec![title(group)]);
        for (c, [name, ratio, answer]) in group.iter().zip(&mut rows) {
            lines.push(vec![format!("  {name}"), axis.bar(c), ratio, answer]);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    lines.push(vec![String::new(), axis.labels(), String::new(), String::new()]);
    align(&lines, &[1, 2, 3], "")
}

/// `select-only: tps (1/s), higher is better; ░ noise floor ±1.1 %`.
fn title(group: &[&Comparison]) -> String {
    let c = group[0];
    let way = if c.metric.better == Direction::Higher { "higher" } else { "lower" };
    let floor = group.iter().filter_map(|c| c.noise_floor).reduce(f64::max);
    let floor =
        floor.map_or_else(|| "no noise floor (no A/A)".to_owned(), |f| format!("░ noise floor ±{}", text::percent(f)));
    let name = format!("{}: {}", clean(&c.workload), tables::metric(&c.metric));
    format!("{}, {way} is better; {floor}", shorten(&name, 34))
}

/// The answer to several comparisons in one sentence.
pub(crate) fn summary(groups: &[Vec<&Comparison>]) -> String {
    let all: Vec<&&Comparison> = groups.iter().flatten().collect();
    let with = |verdict: fn(&Verdict) -> bool| all.iter().filter(|c| c.ratio.is_some() && verdict(&c.verdict)).count();
    let margin = all.iter().map(|c| c.margin).fold(0.0, f64::max);
    let parts = [
        (with(|v| *v == Verdict::Different), "differ".to_owned(), "differs".to_owned()),
        (
            with(|v| *v == Verdict::Equivalent),
            format!("are the same within ±{}", text::percent(margin)),
            format!("is the same within ±{}", text::percent(margin)),
        ),
        (with(|v| matches!(v, Verdict::Undecided { .. })), "are undecided".to_owned(), "is undecided".to_owned()),
        (
            all.iter().filter(|c| c.ratio.is_none()).count(),
            "could not be compared".to_owned(),
            "could not be compared".to_owned(),
        ),
    ];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, many, one)| format!("{n} {}", if n == 1 { one } else { many }))
        .collect();
    format!("Of {} comparisons {}.", all.len(), holdup_model::text::list(&said))
}

/// The blocks that would decide what is undecided; `None` where more blocks would not.
pub(crate) fn blocks_needed(groups: &[Vec<&Comparison>]) -> Option<u32> {
    let needed = |c: &&Comparison| match c.verdict {
        Verdict::Undecided { blocks_needed, .. } => blocks_needed,
        _ => None,
    };
    groups.iter().flatten().filter_map(needed).max()
}

/// True if a finding is the sentence of a comparison, which the plot shows.
pub(crate) fn is_shown(finding: &holdup_model::Finding) -> bool {
    finding.headline && finding.analysis == "effect" && finding.verdict != FindingVerdict::Skipped
}
