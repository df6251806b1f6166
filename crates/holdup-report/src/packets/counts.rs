//! Counts without totals.

use super::{GROUPS, count, notes, title, verdict_sign};
use crate::formats::terminal::TerminalOptions;
use crate::text::{self, align, wrap};
use holdup_model::captures::{CountRow, CountsComparison, CountsSay, MarkClass};
use holdup_model::text::factor;

pub(super) fn comparison(c: &CountsComparison, options: &TerminalOptions) -> String {
    let columns = options.columns();
    let mut out = options.bold_lines(&wrap(&c.answer, columns, verdict_sign(c.verdict), "  "));
    out.push_str(&wrap(&format!("A {}, B {}: counts without totals", c.baseline, c.other), columns, "", ""));
    out.push_str(&format!("\n{}", rows(c)));
    out.push_str(&notes(&c.notes, options));
    out
}

fn rows(c: &CountsComparison) -> String {
    let mut head = vec![String::new(), "A".to_owned(), "B".to_owned(), "counts".to_owned()];
    if let Some((least, most)) = c.traffic {
        head.push(match least < most {
            true => format!("rates, traffic ×{least} to ×{most}"),
            false => format!("rates, traffic ×{least}"),
        });
        head.push("holds for bunches up to".to_owned());
    }
    let mut lines = vec![head];
    for (class, name) in GROUPS {
        let of: Vec<&CountRow> = c.rows.iter().filter(|r| r.mark.class == class).collect();
        if !of.is_empty() {
            lines.push(vec![name.to_owned()]);
        }
        lines.extend(of.into_iter().map(|row| line(row, c.traffic.is_some())));
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
