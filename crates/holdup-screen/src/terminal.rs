//! The terminal: raw, on its second screen, and put back however the program ends.

use crate::{State, draw};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Color as AnyColor, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute, queue};
use holdup_model::Problem;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal, Write as _, stdout};
use std::time::Duration;

const ATTRIBUTES: [(Modifier, Attribute); 3] = [
    (Modifier::BOLD, Attribute::Bold),
    (Modifier::UNDERLINED, Attribute::Underlined),
    (Modifier::REVERSED, Attribute::Reverse),
];

/// What came from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing in that time.
    Nothing,
    Key(KeyCode),
    /// Its size changed.
    Resized,
    /// Ctrl-C, or the terminal is gone.
    End,
}

/// The terminal while the screen is on it.
pub struct Terminal {
    shown: Buffer,
}

fn failed(what: &str, e: &io::Error) -> Problem {
    Problem::host(what, e.to_string()).hint("holdup watch --once, or --json-lines, needs no terminal")
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When standard output is none, or cannot be set.
    pub fn take() -> Result<Self, Problem> {
        if !stdout().is_terminal() {
            return Err(Problem::usage("standard output", "it is no terminal")
                .hint("holdup watch --once, or --json-lines, needs none"));
        }
        if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            return Err(Problem::usage("TERM = dumb", "this terminal cannot place characters")
                .hint("holdup watch --once, or --json-lines, needs none"));
        }
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            put_back();
            before(panic);
        }));
        enable_raw_mode().map_err(|e| failed("the terminal", &e))?;
        let terminal = Terminal { shown: Buffer::default() };
        let entered = execute!(stdout(), EnterAlternateScreen, cursor::Hide).and_then(|()| terminal::size());
        entered.map(|_| terminal).map_err(|e| failed("the terminal", &e))
    }

    /// Draws the state. Whether it could: a terminal that is gone cannot.
    pub fn show(&mut self, state: &State) -> bool {
        self.redraw(state).is_ok()
    }

    fn redraw(&mut self, state: &State) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let mut next = Buffer::empty(Rect::new(0, 0, width, height));
        draw(state, next.area, &mut next);
        let mut out = stdout().lock();
        if self.shown.area != next.area {
            queue!(out, terminal::Clear(terminal::ClearType::All))?;
            self.shown = Buffer::empty(next.area);
        }
        out.write_all(&changes(&self.shown, &next)?)?;
        self.shown = next;
        out.flush()
    }

    /// Waits this long for a key.
    pub fn input(&mut self, wait: Duration) -> Input {
        // crossterm reads a terminal that is gone again and again, without an end (0.29, event/source/unix/mio.rs).
        if is_gone(wait) {
            return Input::End;
        }
        match event::poll(Duration::ZERO) {
            Ok(false) => Input::Nothing,
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Release => Input::Nothing,
                Ok(Event::Key(key))
                    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') =>
                {
                    Input::End
                }
                Ok(Event::Key(key)) => Input::Key(key.code),
                Ok(Event::Resize(..)) => Input::Resized,
                Ok(_) => Input::Nothing,
                Err(_) => Input::End,
            },
            Err(_) => Input::End,
        }
    }
}

/// Waits this long for input; whether the terminal is gone. A change of its size ends the wait as well: it is a signal.
fn is_gone(wait: Duration) -> bool {
    let out = stdout();
    let mut fds = [PollFd::new(&out, PollFlags::IN)];
    let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
    let waited = poll(&mut fds, Some(&wait));
    waited.is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Bytes that change what a terminal shows. Colours are numbers ([`Color::Indexed`]).
fn changes(shown: &Buffer, next: &Buffer) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut at, mut look) = (None, None);
    for (x, y, cell) in shown.diff(next) {
        if at != Some((x, y)) {
            queue!(bytes, cursor::MoveTo(x, y))?;
        }
        at = Some((x + 1, y));
        if look != Some((cell.fg, cell.modifier)) {
            look = Some((cell.fg, cell.modifier));
            queue!(bytes, SetAttribute(Attribute::Reset))?;
            if let Color::Indexed(number) = cell.fg {
                queue!(bytes, SetForegroundColor(AnyColor::AnsiValue(number)))?;
            }
            for (modifier, attribute) in ATTRIBUTES {
                if cell.modifier.contains(modifier) {
                    queue!(bytes, SetAttribute(attribute))?;
                }
            }
        }
        queue!(bytes, Print(cell.symbol()))?;
    }
    queue!(bytes, SetAttribute(Attribute::Reset))?;
    Ok(bytes)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        put_back();
    }
}

fn put_back() {
    // A terminal that is gone needs nothing put back.
    let _gone = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _gone = disable_raw_mode();
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    #[test]
    fn only_changes_are_written_with_their_looks() {
        let shown = Buffer::with_lines(["ab一c", "same"]);
        let mut next = Buffer::with_lines(["aB二c", "same"]);
        next[(1, 0)].set_style(Style::new().fg(Color::Indexed(6)));
        next.set_style(Rect::new(0, 1, 2, 1), Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED));
        let bytes = changes(&shown, &next).expect("memory takes all");
        let expect = "\x1b[1;2H\x1b[0m\x1b[38;5;6mB\x1b[0m二\x1b[2;1H\x1b[0m\x1b[1m\x1b[7msa\x1b[0m";
        assert_eq!(String::from_utf8_lossy(&bytes), expect);
        assert_eq!(changes(&next, &next).expect("memory takes all"), b"\x1b[0m");
    }
}
