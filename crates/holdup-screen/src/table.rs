//! A list as a table.

use crate::numbers::cell;
use crate::state::State;
use holdup_live::lists::{CellKind, Column, Row};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// The width of a column with numbers.
const NUMBER: usize = 10;

fn width(column: &Column) -> usize {
    column.name.len().max(NUMBER)
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
        let why =
            if state.filter.is_empty() { list.empty.to_owned() } else { format!("no row has `{}`", state.filter) };
        buffer.set_stringn(area.x, area.y + 1, why, all, Style::new());
        return;
    }
    let fits = usize::from(area.height.saturating_sub(1)).max(1);
    let chosen = state.chosen.min(rows.len() - 1);
    let first = (chosen + 1).saturating_sub(fits);
    for (n, row) in rows.iter().enumerate().skip(first).take(fits) {
        let style = if n == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        buffer.set_stringn(area.x, area.y + 1 + (n - first) as u16, of_row(list.columns, row, all), all, style);
    }
}

fn of_row(columns: &[Column], row: &Row, all: usize) -> String {
    let kinds = columns.iter().skip(1).map(|c| c.kind);
    let cells = kinds.zip(&row.numbers).map(|(kind, number): (CellKind, _)| cell(kind, *number));
    line(columns, &row.name, cells, all)
}
