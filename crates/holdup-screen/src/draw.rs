//! One screen.

use crate::numbers::time;
use crate::state::{Below, State};
use crate::{bars, table};
use holdup_live::lists;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Widget, Wrap};

/// The smallest screen that it fits.
const LEAST: (u16, u16) = (60, 16);
/// Lines of the sentence at most, and of what changed.
const SENTENCE: u16 = 4;
const CHANGED: u16 = 2;
const SHOWN_CHANGES: usize = 2;

const HELP: &str = "\
1-9, Tab      which list            s          sort by the next column
Up, Down      choose a row          Enter      more about it; Esc goes back
/             only rows with a text Space      pause, and go on
r             write a bundle of what is in memory, for holdup explain
?             this help             q          end

The sentence is that of `holdup explain` over the last 10 windows. Below it
stands what changed against the windows before them. Bars are sessions at work
by state; the newest is at the right. Numbers of lists are averages over the
last 10 windows: \"asleep 2.50\" means that 2.5 tasks are.";

/// Draws the state into a buffer.
pub fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("holdup watch takes {} by {} characters", LEAST.0, LEAST.1);
        Paragraph::new(text).wrap(Wrap { trim: true }).render(area, buffer);
        return;
    }
    let mut rest = area;
    head(state, take(&mut rest, 1), buffer);
    let sentence =
        Paragraph::new(answer(state)).style(Style::new().add_modifier(Modifier::BOLD)).wrap(Wrap { trim: true });
    let lines = u16::try_from(sentence.line_count(area.width)).unwrap_or(SENTENCE).clamp(1, SENTENCE);
    sentence.render(take(&mut rest, lines), buffer);
    if let Some(changed) = changed(state) {
        let changed = Paragraph::new(changed).wrap(Wrap { trim: true });
        let lines = u16::try_from(changed.line_count(area.width)).unwrap_or(CHANGED).clamp(1, CHANGED);
        changed.render(take(&mut rest, lines), buffer);
    }
    let foot = Rect { y: rest.y + rest.height - 1, height: 1, ..rest };
    rest.height -= 1;
    // What is said of a row takes the room of the bars.
    if state.below != Below::More && state.now.is_some() {
        let of_bars = (rest.height / 2).clamp(5, 16);
        bars::draw(&state.bars, take(&mut rest, of_bars), buffer, state.has_colour);
    }
    tabs(state, take(&mut rest, 1), buffer);
    match state.below {
        Below::List => table::draw(state, rest, buffer),
        Below::Help => Paragraph::new(HELP).scroll((state.scroll, 0)).render(rest, buffer),
        Below::More => more(state, rest, buffer),
    }
    keys(state, foot, buffer);
}

/// Takes lines from above.
fn take(rest: &mut Rect, lines: u16) -> Rect {
    let lines = lines.min(rest.height);
    let taken = Rect { height: lines, ..*rest };
    (rest.y, rest.height) = (rest.y + lines, rest.height - lines);
    taken
}

fn head(state: &State, area: Rect, buffer: &mut Buffer) {
    let explained = state.now.as_ref().and_then(|now| now.explanation.as_ref());
    let cost = explained.map(|arm| arm.cost.trim_end_matches('.').replace("Overhead: ", "overhead "));
    let parts = [
        Some(state.watched.trim_start_matches("the ").replace(" server with ", ", ")).filter(|text| !text.is_empty()),
        // What they cost is more to the point then.
        (state.window_s > 0.0 && !state.wants_stacks()).then(|| format!("{} kept", time(state.reach_s))),
        cost.map(|cost| cost.replace(" of one CPU", " of a CPU").replace("BPF programs", "BPF")),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let mark = match (&state.gone, state.is_paused, state.wants_stacks()) {
        (Some(_), ..) => " NOT WATCHED ",
        (None, true, _) => " PAUSED ",
        (None, false, true) => " WITH STACKS ",
        (None, false, false) => "",
    };
    let style = Style::new().add_modifier(Modifier::REVERSED);
    buffer.set_stringn(area.x, area.y, mark, usize::from(area.width), style);
    let at = mark.len() + usize::from(!mark.is_empty());
    buffer.set_stringn(area.x + at as u16, area.y, text, usize::from(area.width) - at, Style::new());
}

fn answer(state: &State) -> String {
    if let Some(why) = &state.gone {
        return format!("Not watched: {why}. It is looked for every second.");
    }
    let explained = state.now.as_ref().and_then(|now| now.explanation.as_ref());
    match explained {
        Some(arm) => arm.answer.clone(),
        None => "The first window has not ended yet.".to_owned(),
    }
}

fn changed(state: &State) -> Option<String> {
    let now = state.now.as_ref()?;
    if !now.changed.is_empty() {
        let shown: Vec<&str> = now.changed.iter().take(SHOWN_CHANGES).map(String::as_str).collect();
        return Some(format!("Changed: {}.", shown.join("; ")));
    }
    (!state.missing.is_empty()).then(|| format!("Not available here: {}.", state.missing.join("; ")))
}

fn tabs(state: &State, area: Rect, buffer: &mut Buffer) {
    let mut x = area.x;
    let all: usize = lists::ALL.iter().map(|list| list.title.len() + 3).sum();
    let is_narrow = all > usize::from(area.width) + 1;
    for (n, list) in lists::ALL.iter().enumerate() {
        // Where there is no room for all titles, the chosen list has its own.
        let text = match is_narrow && n != state.list {
            true => format!("{}", n + 1),
            false => format!("{} {}", n + 1, list.title),
        };
        let style = match n == state.list {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false if state.has_colour => Style::new().fg(Color::Indexed(6)),
            false => Style::new(),
        };
        let room = usize::from((area.x + area.width).saturating_sub(x));
        x = buffer.set_stringn(x, area.y, text, room, style).0 + 1;
    }
}

fn more(state: &State, area: Rect, buffer: &mut Buffer) {
    let Some(now) = &state.now else { return };
    let lines = state.list().more(&now.bundle, &state.about);
    let lines = if lines.is_empty() { vec!["There is no more about it.".to_owned()] } else { lines };
    let title = Line::from(state.about.clone()).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let text: Text<'_> = std::iter::once(title).chain(lines.into_iter().map(Line::from)).collect();
    let text = Paragraph::new(text).wrap(Wrap { trim: false });
    // One that scrolled beyond the end sees the end.
    let last = u16::try_from(text.line_count(area.width)).unwrap_or(u16::MAX).saturating_sub(area.height);
    text.scroll((state.scroll.min(last), 0)).render(area, buffer);
}

fn keys(state: &State, area: Rect, buffer: &mut Buffer) {
    let text = if !state.message.is_empty() {
        state.message.clone()
    } else if state.is_filtering {
        format!("only rows with: {}_   Enter keeps it, Esc ends it", state.filter)
    } else {
        let filter = if state.filter.is_empty() { String::new() } else { format!(" · rows with `{}`", state.filter) };
        format!("? help · Tab list · s sort · / filter · Enter more · Space pause · r record · q end{filter}")
    };
    buffer.set_stringn(area.x, area.y, text, usize::from(area.width), Style::new());
}

/// The screen as text, of this size, without colours.
pub fn text(state: &State, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(state, area, &mut buffer);
    let line = |y| -> String {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        let line: String = cells.collect();
        format!("{}\n", line.trim_end())
    };
    (0..height).map(line).collect()
}
