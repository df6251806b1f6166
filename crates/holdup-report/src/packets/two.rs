//! Two captures.

use super::one::THIN;
use super::{GROUPS, count, notes, quantile, rate, speed, title, value, verdict_sign};
use crate::formats::terminal::TerminalOptions;
use crate::text::{self, align, clean, wrap};
use holdup_model::captures::{
    CaptureComparison, MarkComparison, Moved, QuantileComparison, RateRatio, TotalComparison,
};
use holdup_model::text::{factor, size};

/// From these widths on counts, and the ratio by bytes, have room as well.
const COUNTS: usize = 96;
const BYTES: usize = 116;

pub(super) const LEGEND: &str = "▲ worse · ▼ better · △ more, ▽ less of what is neither · = the same within the margin · ~ undecided; ratios \
                      with 95 % intervals, verdicts after Holm's correction over all rows.";

/// The answer, totals, marks, times and sizes, notes.
pub(super) fn comparison(c: &CaptureComparison, options: &TerminalOptions) -> String {
    let columns = options.columns();
    let mut out = options.bold_lines(&wrap(&c.answer, columns, verdict_sign(c.verdict), "  "));
    for detail in &c.details {
        out.push_str(&wrap(detail, columns, "  ", "  "));
    }
    out.push_str(&tables(c, options));
    out
}

/// All below the answer.
pub(super) fn tables(c: &CaptureComparison, options: &TerminalOptions) -> String {
    let columns = options.columns();
    let mut out = wrap(&format!("A {}, B {}", c.baseline, c.other), columns, "", "");
    out.push_str(&format!("\n{}", totals(&c.totals)));
    if !c.marks.is_empty() {
        out.push_str(&format!("\n{}", options.bold_lines("For each million segments")));
        out.push_str(&marks(&c.marks, columns));
        let margin = format!("{LEGEND} Margin ±{}.", text::percent(c.margin));
        out.push_str(&wrap(&margin, columns, "", ""));
    }
    if !c.quantiles.is_empty() {
        out.push_str(&format!("\n{}", options.bold_lines("Times and sizes")));
        out.push_str(&quantiles(&c.quantiles));
    }
    out.push_str(&notes(&c.notes, options));
    out
}

fn totals(rows: &[TotalComparison]) -> String {
    let mut lines = vec![["", "A", "B", "B / A"].map(str::to_owned).to_vec()];
    lines.extend(total_rows(rows));
    align(&lines, &[3], "")
}

pub(super) fn total_rows(rows: &[TotalComparison]) -> Vec<Vec<String>> {
    let row = |row: &TotalComparison| {
        let number = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), |x| total(&row.name, x));
        let shown = row.ratio.as_ref().map(ratio).unwrap_or_default();
        vec![clean(&row.title), number(row.baseline), number(row.other), shown]
    };
    rows.iter().map(row).collect()
}

/// A total, by the unit at the end of its name.
fn total(name: &str, x: f64) -> String {
    match name {
        "length_s" => text::duration((x * 1e9) as u64),
        "payload_bytes" => size(x as u64),
        "payload_bytes_per_s" => speed(x),
        _ if x >= 100.0 => text::grouped(&format!("{x:.0}")),
        _ if x.fract() == 0.0 => format!("{x:.0}"),
        _ => text::number(x),
    }
}

/// A ratio or its bound; `–` without one.
pub(super) fn ratio(r: &RateRatio) -> String {
    match (&r.ratio, r.at_least, r.at_most) {
        (Some(e), ..) => text::ratio(e),
        (None, Some(x), _) => format!("at least {}", factor(x)),
        (None, None, Some(x)) => format!("at most {}", factor(x)),
        (None, None, None) => "–".to_owned(),
    }
}

/// The sign of a row.
pub(super) fn sign(moved: Moved) -> &'static str {
    match moved {
        Moved::Worse => "▲",
        Moved::Better => "▼",
        Moved::More => "△",
        Moved::Less => "▽",
        Moved::Same => "=",
        Moved::Undecided => "~",
    }
}

fn marks(rows: &[MarkComparison], columns: usize) -> String {
    let (with_counts, with_bytes) = (columns >= COUNTS, columns >= BYTES);
    let mut head = vec![String::new()];
    if with_counts {
        head.extend(["A count", "B count"].map(str::to_owned));
    }
    head.extend(["A", "B", "B / A"].map(str::to_owned));
    if with_bytes {
        head.push("by payload".to_owned());
    }
    let left: Vec<usize> = if with_counts { vec![5, 6] } else { vec![3] };
    let mut lines = vec![head];
    for (class, name) in GROUPS {
        let of: Vec<&MarkComparison> = rows.iter().filter(|m| m.mark.class == class).collect();
        if !of.is_empty() {
            lines.push(vec![name.to_owned()]);
        }
        for m in of {
            let mut line = vec![format!("{} {}", sign(m.moved), title(&m.mark))];
            if with_counts {
                line.extend([count(m.baseline.count), count(m.other.count)]);
            }
            line.extend([rate(m.baseline.per_million_segments), rate(m.other.per_million_segments)]);
            line.push(ratio(&m.per_segment));
            if with_bytes {
                line.push(ratio(&m.per_byte));
            }
            lines.push(line);
        }
    }
    align(&lines, &left, "")
}

fn quantiles(rows: &[QuantileComparison]) -> String {
    let mut lines = vec![["", "A", "B", "B / A"].map(str::to_owned).to_vec()];
    lines.extend(quantile_rows(rows));
    let mut out = align(&lines, &[3], "");
    if rows.iter().any(|row| row.thin) {
        out.push_str(THIN);
    }
    out
}

/// The first row of a distribution has its name.
pub(super) fn quantile_rows(rows: &[QuantileComparison]) -> Vec<Vec<String>> {
    let mut last = "";
    let row = |row: &'_ QuantileComparison, name: String| {
        let star = if row.thin { "*" } else { "" };
        vec![
            format!("  {name:<28}{:>6}{star:1}", quantile(row.quantile)),
            value(&row.name, row.baseline),
            value(&row.name, row.other),
            ratio(&row.shift),
        ]
    };
    let mut lines = Vec::new();
    for one in rows {
        lines.push(row(one, if one.name == last { String::new() } else { clean(&one.title) }));
        last = &one.name;
    }
    lines
}
