//! The account by state over time, as stacked bars with a legend.

use holdup_live::Bar;
use holdup_model::account::StateClass;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use std::collections::BTreeMap;

/// States with colours of their own; the others are one.
const SHOWN: usize = 7;
/// The cells of a window at most.
const WIDEST: usize = 4;
/// The width of the legend.
const LEGEND: u16 = 38;

/// Signs, and numbers of colours in terminals: green, yellow, red, magenta, blue, cyan, light red, dark grey; in the order of
/// the legend. The signs are for terminals without colour.
const LOOKS: [(char, u8); SHOWN + 1] = [('#', 2), ('=', 3), ('+', 1), ('o', 5), ('x', 4), ('-', 6), ('~', 9), ('.', 8)];

struct Look {
    sign: char,
    style: Style,
}

fn look(at: usize, has_colour: bool) -> Look {
    let (sign, colour) = LOOKS[at.min(SHOWN)];
    if has_colour {
        Look { sign: '█', style: Style::new().fg(Color::Indexed(colour)) }
    } else {
        Look { sign, style: Style::new() }
    }
}

/// The states in the order of the legend: on a CPU, runnable, asleep, each the largest first; the small ones are left out.
fn order(bars: &[Bar]) -> Vec<String> {
    let mut sums: BTreeMap<&str, (StateClass, f64)> = BTreeMap::new();
    for (name, class, s) in bars.iter().flat_map(|bar| &bar.states) {
        sums.entry(name).or_insert((*class, 0.0)).1 += s;
    }
    let mut largest: Vec<(&str, (StateClass, f64))> = sums.into_iter().filter(|(_, (_, s))| *s > 0.0).collect();
    largest.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    largest.truncate(SHOWN);
    largest.sort_by(|a, b| a.1.0.cmp(&b.1.0).then(b.1.1.total_cmp(&a.1.1)));
    largest.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// Sessions in each state in one column, in the order of the legend; the last is all others.
fn column(bars: &[Bar], order: &[String]) -> Vec<f64> {
    let length_s: f64 = bars.iter().map(|bar| bar.length_s).sum();
    let mut sessions = vec![0.0; order.len() + 1];
    for (name, _, s) in bars.iter().flat_map(|bar| &bar.states) {
        let at = order.iter().position(|known| known == name).unwrap_or(order.len());
        sessions[at] += s / length_s.max(1e-9);
    }
    sessions
}

/// A round number that is not below this one.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.max(0.1).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(value)
}

/// Draws the bars, the newest at the right edge, and the legend beside them.
pub(crate) fn draw(bars: &[Bar], area: Rect, buffer: &mut Buffer, has_colour: bool) {
    if area.height < 3 || area.width < 40 {
        return;
    }
    let legend = LEGEND.min(area.width / 2);
    let (axis, width) = (5, area.width - legend - 6);
    let order = order(bars);
    // As many windows in a column as make all of them fit, for windows of one length.
    let each = bars.len().div_ceil(usize::from(width)).max(1);
    // Few windows have wide columns.
    let wide = (usize::from(width) / bars.len().max(1)).clamp(1, WIDEST) as u16;
    let columns: Vec<Vec<f64>> = bars.rchunks(each).map(|chunk| column(chunk, &order)).collect();
    let top = round_up(columns.iter().map(|c| c.iter().sum::<f64>()).fold(0.0, f64::max));
    let rows = area.height - 1;
    buffer.set_string(area.x, area.y, format!("{top:>4}"), Style::new());
    buffer.set_string(area.x, area.y + rows - 1, "   0", Style::new());
    for y in 0..rows {
        buffer.set_string(area.x + axis - 1, area.y + y, if has_colour { "│" } else { "|" }, Style::new());
    }
    let right = area.x + axis + width - 1;
    for (n, sessions) in (0..width).map(|n| (n, columns.get(usize::from(n / wide)))) {
        let (x, Some(sessions)) = (right - n, sessions) else { break };
        for y in 0..rows {
            // The state in the middle of the cell.
            let level = (f64::from(rows - 1 - y) + 0.5) / f64::from(rows) * top;
            let mut below = 0.0;
            let at = sessions.iter().position(|s| {
                below += s;
                below > level
            });
            if let Some(at) = at {
                let look = look(if at == order.len() { SHOWN } else { at }, has_colour);
                buffer.set_string(x, area.y + y, look.sign.to_string(), look.style);
            }
        }
    }
    let span_s: f64 = bars.iter().rev().take(each * usize::from(width)).map(|bar| bar.length_s).sum();
    let label = format!("sessions, last {}", crate::numbers::time(span_s));
    buffer.set_stringn(area.x + axis, area.y + rows, label, usize::from(width), Style::new());
    draw_legend(
        &order,
        // A window that does not count has no states.
        columns.iter().find(|sessions| sessions.iter().any(|s| *s > 0.0)),
        Rect { x: area.x + area.width - legend, width: legend, ..area },
        buffer,
        has_colour,
    );
}

fn draw_legend(order: &[String], newest: Option<&Vec<f64>>, area: Rect, buffer: &mut Buffer, has_colour: bool) {
    let has_others = newest.is_some_and(|sessions| sessions.last().is_some_and(|others| *others > 0.005));
    let names = order.iter().map(String::as_str).chain(has_others.then_some("other"));
    for (at, name) in names.enumerate().take(usize::from(area.height)) {
        let look = look(if at == order.len() { SHOWN } else { at }, has_colour);
        let y = area.y + at as u16;
        buffer.set_string(area.x, y, look.sign.to_string(), look.style);
        let number = newest.and_then(|sessions| sessions.get(at)).map_or_else(String::new, |n| format!("{n:.2}"));
        let room = usize::from(area.width).saturating_sub(10);
        buffer.set_stringn(area.x + 2, y, name, room, Style::new());
        buffer.set_string(area.x + area.width - 7, y, format!("{number:>6}"), Style::new());
    }
}
