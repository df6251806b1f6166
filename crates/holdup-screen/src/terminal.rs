//! The terminal: raw, on its second screen, and put back however the program ends.

use crate::{State, draw};
use holdup_model::Problem;
use ratatui::Terminal as Screen;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{IsTerminal, Stdout, stdout};
use std::mem::ManuallyDrop;
use std::time::Duration;

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
    /// Not dropped: ratatui would show the cursor, which [`put_back`] does, and panic where even standard error is gone.
    screen: ManuallyDrop<Screen<CrosstermBackend<Stdout>>>,
}

fn failed(what: &str, e: &std::io::Error) -> Problem {
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
        let entered = execute!(stdout(), EnterAlternateScreen, cursor::Hide);
        let screen = entered.and_then(|()| Screen::new(CrosstermBackend::new(stdout())));
        match screen {
            Ok(screen) => Ok(Terminal { screen: ManuallyDrop::new(screen) }),
            Err(e) => {
                put_back();
                Err(failed("the terminal", &e))
            }
        }
    }

    /// Draws the state. Whether it could: a terminal that is gone cannot.
    pub fn show(&mut self, state: &State) -> bool {
        self.screen.draw(|frame| draw(state, frame.area(), frame.buffer_mut())).is_ok()
    }

    /// Waits this long for a key.
    pub fn input(&mut self, wait: Duration) -> Input {
        // crossterm reads a terminal that is gone again and again, without an end (0.28, event/source/unix/mio.rs).
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
