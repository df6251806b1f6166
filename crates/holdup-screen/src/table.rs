//! A list as a table.

use crate::numbers::cell;
use crate::state::State;
use holdup_live::lists::{CellKind, Column, Row};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// The width of a column with numbers, with shares, and with shares of something that has a name.
const NUMBER: usize = 10;
const SHARE: usize = 7;
const NAMED: usize = 26;

/// The width of a column, with room for the sign of the one that rows are sorted by.
fn width(column: &Column) -> usize {
    let least = match column.kind {
        CellKind::Share => SHARE,
        CellKind::Named => NAMED,
        _ => NUMBER,
    };
    least.max(column.name.len() + 1)
}

fn line(columns: &[Column], name: &str, cells: impl Iterator<Item = String>, all: usize) -> String {
    let numbers: usize = columns.iter().skip(1).map(|c| width(c) + 2).sum();
    let room = all.saturating_sub(numbers);
    let shown: String = if name.chars().count() > room {
        name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
    } else {
        format!("{name:room$}")
    };
    let cells = columns.iter().skip(1).zip(cells).map(|(c, text)| format!("  {text:>w$}", w = width(c)));
    std::iter::once(shown).chain(cells).collect()
}

/// Draws the head and as many rows as fit, with the chosen one among them.
pub(crate) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let (list, rows) = (state.list(), state.rows());
    let all = usize::from(area.width);
    let heads = list.columns.iter().enumerate().skip(1).map(|(at, column)| {
        if at == state.sort {
            format!("{}{}", column.name, if state.has_colour { "▼" } else { "*" })
        } else {
            column.name.to_owned()
        }
    });
    let head = line(list.columns, list.columns[0].name, heads, all);
    buffer.set_stringn(area.x, area.y, head, all, Style::new().add_modifier(Modifier::UNDERLINED));
    if rows.is_empty() {
        let why = match (&state.now, state.filter.is_empty()) {
            (None, _) => String::new(),
            (_, true) => list.empty.to_owned(),
            (_, false) => format!("no row has `{}`", state.filter),
        };
        buffer.set_stringn(area.x, area.y + 1, why, all, Style::new());
        return;
    }
    let fits = usize::from(area.height.saturating_sub(1)).max(1);
    let chosen = state.chosen.min(rows.len() - 1);
    let mut draw = |n: usize, at: usize| {
        let style = if n == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        buffer.set_stringn(area.x, area.y + 1 + at as u16, of_row(list.columns, &rows[n], all), all, style);
    };
    // The row of all others stays in sight.
    let (mut fits, mut others) = (fits, rows.len());
    if rows.len() > fits && fits > 1 && rows.last().is_some_and(|row| row.is_rest) {
        (fits, others) = (fits - 1, others - 1);
        draw(others, fits);
    }
    let first = (chosen + 1).min(others).saturating_sub(fits);
    (first..others.min(first + fits)).for_each(|n| draw(n, n - first));
}

/// `Lock:transactionid  64 %`, in the width of its column.
fn named(text: &str, share: f64) -> String {
    let number = format!(" {:>3.0} %", 100.0 * share);
    let room = NAMED - number.len();
    if text.chars().count() <= room {
        return format!("{text}{number}");
    }
    text.chars().take(room - 1).chain(['…']).chain(number.chars()).collect()
}

fn of_row(columns: &[Column], row: &Row, all: usize) -> String {
    let kinds = columns.iter().skip(1).map(|c| c.kind);
    let cells = kinds.zip(&row.numbers).map(|(kind, number): (CellKind, _)| match (kind, number) {
        (CellKind::Named, Some(share)) => named(&row.text, *share),
        _ => cell(kind, *number),
    });
    line(columns, &row.name, cells, all)
}
