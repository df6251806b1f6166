//! Sessions at work by state, window by window, with the share of each state beside them.

use super::Frame;
use super::canvas::{self, Anchor, Sheet, cut};
use super::scale::{Scale, linear_ticks, number, percent};
use holdup_report::Chart;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Data {
    of: String,
    windows: Vec<Window>,
    states: Vec<State>,
}

#[derive(Deserialize)]
struct Window {
    begin: f64,
    end: f64,
}

#[derive(Deserialize)]
struct State {
    name: String,
    class: String,
    place: usize,
    share: f64,
    sessions: Vec<Option<f64>>,
}

const RUNNABLE: [&str; 5] = ["#f0a830", "#e5701f", "#c62f2b", "#86201c", "#f6d277"];
const ASLEEP: [&str; 8] = ["#3b6fb6", "#8a63c4", "#5aa5dc", "#b48ad8", "#27478a", "#6a3d9a", "#8fb0e6", "#2f86a8"];
/// Between two names.
const LINE: f64 = 15.0;
const SIDE: f64 = 260.0;

impl State {
    fn color(&self) -> &'static str {
        match self.class.as_str() {
            "on_cpu" => "#2f9e62",
            "runnable" => RUNNABLE[self.place % RUNNABLE.len()],
            "asleep" => ASLEEP[self.place % ASLEEP.len()],
            _ => "#9aa3ac",
        }
    }

    fn at(&self, window: usize) -> f64 {
        self.sessions.get(window).copied().flatten().unwrap_or(0.0)
    }
}

pub(super) fn draw(chart: &Chart, data: &Data) -> Option<String> {
    let end = data.windows.last()?.end;
    let all = |window: usize| data.states.iter().map(|s| s.at(window)).sum::<f64>();
    let most = (0..data.windows.len()).map(all).fold(0.0, f64::max);
    let mut sheet = Sheet::new(chart, &[]);
    let high = (data.states.len() as f64 * LINE).max(260.0);
    let frame = Frame { right: canvas::WIDTH - SIDE, ..Frame::below(&sheet, high) };
    let ticks = linear_ticks(most);
    let y = Scale::linear((0.0, ticks.last().copied()?.max(f64::MIN_POSITIVE)), (frame.bottom, frame.top));
    let x = Scale::linear((0.0, end), (frame.left, frame.right));
    let rows: Vec<(f64, String)> = ticks.iter().map(|t| (y.at(*t), number(*t))).collect();
    frame.rows(&mut sheet, &rows, &format!("{} at work", data.of));
    for (i, window) in data.windows.iter().enumerate() {
        let mut from = 0.0;
        for state in &data.states {
            let to = from + state.at(i);
            let gap = if (x.at(window.end) - x.at(window.begin)) < 8.0 { 0.0 } else { 0.6 };
            let wide = x.at(window.end) - x.at(window.begin) - gap;
            sheet.rect((x.at(window.begin), y.at(to)), (wide, y.at(from) - y.at(to)), state.color(), 1.0);
            from = to;
        }
    }
    let step = end / 5.0;
    let columns = (0..=5).map(|i| (x.at(f64::from(i) * step), number((f64::from(i) * step * 10.0).round() / 10.0)));
    frame.columns(&mut sheet, &columns.collect::<Vec<_>>(), "time watched (s)");
    // The states from above, as they lie.
    for (i, state) in data.states.iter().rev().enumerate() {
        let at = frame.top + LINE * (i as f64 + 0.5);
        sheet.rect((frame.right + 14.0, at - 9.0), (11.0, 11.0), state.color(), 1.0);
        let share = percent(state.share);
        let name = cut(&state.name, SIDE - 50.0 - canvas::width(&share));
        sheet.text((frame.right + 31.0, at), Anchor::Start, canvas::INK, &format!("{name} {share}"));
    }
    Some(sheet.finish(frame.bottom + 42.0))
}
