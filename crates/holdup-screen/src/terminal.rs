//! The terminal: raw, on its second screen, and put back however the program ends.

use crate::{State, draw};
use holdup_model::Problem;
use ratatui::Terminal as Screen;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use std::io::{IsTerminal, Stdout, stdout};
use std::time::Duration;

/// What came from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing in that time.
    Nothing,
    /// A key.
    Key(KeyCode),
    /// Its size changed.
    Resized,
    /// Ctrl-C, or the terminal is gone.
    End,
}

/// The terminal while the screen is on it.
pub struct Terminal {
    screen: Screen<CrosstermBackend<Stdout>>,
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
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            put_back();
            before(panic);
        }));
        enable_raw_mode().map_err(|e| failed("the terminal", &e))?;
        let entered = execute!(stdout(), EnterAlternateScreen, cursor::Hide);
        let screen = entered.and_then(|()| Screen::new(CrosstermBackend::new(stdout())));
        match screen {
            Ok(screen) => Ok(Terminal { screen }),
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
        match event::poll(wait) {
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
