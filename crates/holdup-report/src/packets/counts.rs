//! Counts without totals.

use super::one::WIDE;
use super::{GROUPS, count, notes, title, verdict_sign};
use crate::formats::terminal::TerminalOptions;
use crate::matrix::shorten;
use crate::text::{self, align, wrap};
use holdup_model::captures::{CountRow, CountsComparison, CountsSay, MarkClass};
use holdup_model::text::factor;

pub(super) fn comparison(c: &CountsComparison, options: &TerminalOptions) -> String {
    let columns = options.columns();
    let mut out = options.bold_lines(&wrap(&c.answer, columns, verdict_sign(c.verdict), "  "));
    let traffic = match c.traffic {
        Some((least, most)) if least < most => format!("; rates for traffic ×{least} to ×{most}"),
        Some((least, _)) => format!("; rates for traffic ×{least}"),
        None => String::new(),
    };
    let head = format!("A {}, B {}: counts without totals{traffic}", c.baseline, c.other);
    out.push_str(&wrap(&head, columns, "", ""));
    out.push_str(&format!("\n{}", rows(c, columns >= WIDE)));
    out.push_str(&notes(&c.notes, options));
    out
}

/// Names are cut, and the bunches left out, where the table is not wide.
fn rows(c: &CountsComparison, is_wide: bool) -> String {
    let mut head = vec![String::new(), "A".to_owned(), "B".to_owned(), "counts".to_owned()];
    if c.traffic.is_some() {
        head.extend(["rates", "holds for bunches up to"].map(str::to_owned));
    }
    let mut lines = vec![head];
    for (class, name) in GROUPS {
        let of: Vec<&CountRow> = c.rows.iter().filter(|r| r.mark.class == class).collect();
        if !of.is_empty() {
            lines.push(vec![name.to_owned()]);
        }
        lines.extend(of.into_iter().map(|row| line(row, c.traffic.is_some())));
    }
    if !is_wide {
        for row in lines.iter_mut().filter(|row| row.len() > 1) {
            row[0] = shorten(&row[0], 36);
            row.truncate(5);
        }
    }
    align(&lines, &[], "")
}

fn line(row: &CountRow, with_traffic: bool) -> Vec<String> {
    let sign = match (row.says, row.mark.class) {
        (CountsSay::Higher, MarkClass::Trouble) => "▲",
        (CountsSay::Lower, MarkClass::Trouble) => "▼",
        (CountsSay::Higher, _) => "△",
        (CountsSay::Lower, _) => "▽",
        (CountsSay::Depends, _) => "~",
    };
    let mut line = vec![
        format!("{sign} {}", title(&row.mark)),
        count(row.baseline),
        count(row.other),
        row.ratio_of_counts.map_or_else(|| "–".to_owned(), factor),
    ];
    if with_traffic {
        line.push(match row.ratio_of_rates {
            Some((low, high)) if low < high => format!("{} to {}", factor(low), factor(high)),
            Some((low, _)) => factor(low),
            None => "–".to_owned(),
        });
        line.push(
            row.bunches_of_at_most.map_or_else(|| "–".to_owned(), |n| text::grouped(&format!("{:.0}", n.floor()))),
        );
    }
    line
}
