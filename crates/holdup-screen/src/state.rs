//! What is shown, and what keys do to it.

use crossterm::event::KeyCode;
use holdup_live::lists::{self, List, Row};
use holdup_live::{Bar, Memory, Now};

/// Windows that the sentence is of, and those before them that it is compared with.
const SENTENCE: usize = 10;
const BEFORE: usize = 120;
/// Windows that stacks of single tasks are collected for after they were looked at: each change takes a part of a second, which is
/// in no window.
const STACKS_FOR: usize = 10;

/// What the program is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    None,
    /// Write a bundle of what is in memory.
    Record,
    /// End.
    Quit,
}

/// What the lower part shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    List,
    /// More about the chosen row.
    More,
    Help,
}

/// The state of the screen.
pub struct State {
    /// What is watched, in words.
    pub(crate) watched: String,
    /// True if it may use colours.
    pub(crate) has_colour: bool,
    pub(crate) now: Option<Now>,
    pub(crate) bars: Vec<Bar>,
    pub(crate) reach_s: f64,
    pub(crate) window_s: f64,
    /// Why nothing is watched, if so.
    pub(crate) gone: Option<String>,
    /// Collectors that do not work here, each with why.
    pub(crate) missing: Vec<String>,
    pub(crate) is_paused: bool,
    pub(crate) list: usize,
    /// The column that rows are sorted by, from 0; the first number at the begin.
    pub(crate) sort: usize,
    pub(crate) chosen: usize,
    pub(crate) filter: String,
    pub(crate) is_filtering: bool,
    pub(crate) below: Below,
    pub(crate) scroll: u16,
    /// What was done last: a file that was written.
    pub(crate) message: String,
    /// The row that more is shown of: rows move while it is.
    pub(crate) about: String,
    /// Windows that have stacks of single tasks yet.
    stacks_for: usize,
}

impl State {
    /// Nothing seen yet.
    pub fn new(has_colour: bool) -> Self {
        State {
            watched: String::new(),
            has_colour,
            now: None,
            bars: Vec::new(),
            reach_s: 0.0,
            window_s: 0.0,
            gone: None,
            missing: Vec::new(),
            is_paused: false,
            list: 0,
            sort: 1,
            chosen: 0,
            filter: String::new(),
            is_filtering: false,
            below: Below::List,
            scroll: 0,
            message: String::new(),
            about: String::new(),
            stacks_for: 0,
        }
    }

    /// True if call stacks of single tasks are looked at, or were within the last windows.
    pub fn wants_stacks(&self) -> bool {
        self.stacks_for > 0
    }

    /// Watching begins: what, in words, and which collectors do not work here, each with why.
    pub fn begin(&mut self, watched: impl Into<String>, missing: Vec<String>) {
        (self.watched, self.missing, self.gone) = (watched.into(), missing, None);
    }

    /// What was watched is away.
    pub fn gone(&mut self, why: impl Into<String>) {
        self.gone = Some(why.into());
    }

    /// A window ended. While it is paused what is shown stays.
    pub fn window(&mut self, memory: &Memory) {
        self.gone = None;
        if !self.shows_stacks() {
            self.stacks_for = self.stacks_for.saturating_sub(1);
        }
        if self.is_paused {
            return;
        }
        self.now = Now::of(memory, SENTENCE, BEFORE);
        self.bars = memory.bars().cloned().collect();
        self.reach_s = memory.reach_ns() as f64 / 1e9;
        self.window_s = self.bars.last().map_or(0.0, |bar| bar.length_s);
    }

    /// The last windows, as they are shown.
    pub fn now(&self) -> Option<&Now> {
        self.now.as_ref()
    }

    /// What is said at the lower edge until the next key.
    pub fn say(&mut self, message: impl Into<String>) {
        self.message = message.into();
    }

    pub(crate) fn list(&self) -> &'static List {
        &lists::ALL[self.list]
    }

    fn shows_stacks(&self) -> bool {
        self.below == Below::More && self.list().has_stacks
    }

    /// The rows as they are filtered and sorted.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let Some(now) = &self.now else { return Vec::new() };
        let mut rows = self.list().rows(&now.bundle, self.sort);
        if !self.filter.is_empty() {
            let wanted = self.filter.to_lowercase();
            rows.retain(|row| [&row.name, &row.text].iter().any(|text| text.to_lowercase().contains(&wanted)));
        }
        rows
    }

    pub fn key(&mut self, key: KeyCode) -> Act {
        self.message.clear();
        if self.is_filtering {
            self.filter_key(key);
            return Act::None;
        }
        match key {
            KeyCode::Char('q') => return Act::Quit,
            KeyCode::Char('r') => return Act::Record,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') => self.show(if self.below == Below::Help { Below::List } else { Below::Help }),
            KeyCode::Char('/') => {
                self.is_filtering = true;
                self.show(Below::List);
            }
            KeyCode::Char('s') => self.sort = (self.sort + 1) % self.list().columns.len(),
            KeyCode::Char(digit @ '1'..='9') => self.choose_list(digit as usize - '1' as usize),
            KeyCode::Tab => self.choose_list((self.list + 1) % lists::ALL.len()),
            KeyCode::BackTab => self.choose_list((self.list + lists::ALL.len() - 1) % lists::ALL.len()),
            KeyCode::Enter if self.below == Below::List => self.open(),
            KeyCode::Enter => self.show(Below::List),
            KeyCode::Esc if self.below == Below::List => self.filter.clear(),
            KeyCode::Esc => self.show(Below::List),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.go(10),
            KeyCode::PageUp => self.go(-10),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            _ => {}
        }
        Act::None
    }

    fn filter_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => (self.is_filtering, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.len() < 60 => self.filter.push(c),
            _ => {}
        }
        self.chosen = 0;
    }

    fn show(&mut self, below: Below) {
        (self.below, self.scroll) = (below, 0);
    }

    /// Shows more of the chosen row.
    fn open(&mut self) {
        let mut rows = self.rows();
        if !rows.is_empty() {
            self.about = rows.swap_remove(self.chosen.min(rows.len() - 1)).name;
            self.show(Below::More);
            if self.shows_stacks() {
                self.stacks_for = STACKS_FOR;
            }
        }
    }

    /// Shows a list of [`lists::ALL`].
    pub fn choose_list(&mut self, list: usize) {
        if list < lists::ALL.len() {
            (self.list, self.sort, self.chosen) = (list, 1, 0);
            self.filter.clear();
            self.show(Below::List);
        }
    }

    fn go(&mut self, by: isize) {
        if self.below == Below::List {
            let last = self.rows().len().saturating_sub(1);
            self.chosen = self.chosen.saturating_add_signed(by).min(last);
        } else {
            let by = i16::try_from(by).unwrap_or(if by < 0 { i16::MIN } else { 200 });
            self.scroll = self.scroll.saturating_add_signed(by).min(200);
        }
    }
}
