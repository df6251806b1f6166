//! What is known of a task at a moment.

use super::cpu::CLOCKS;
use super::totals::Cause;
use crate::event::{Left, Name};

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// It was not seen yet, or a switch of it is missing.
    #[default]
    Unknown,
    On,
    Waiting,
    Asleep,
    Blocked,
}

#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) name: Name,
    pub(super) is_watched: bool,
    pub(super) is_real_time: bool,
    pub(super) state: State,
    /// Until when its time is charged.
    pub(super) since_ns: u64,
    /// When it came to its CPU, when it left it, when it was woken; `None` where that is not known.
    pub(super) on_since_ns: Option<u64>,
    pub(super) off_since_ns: Option<u64>,
    pub(super) woken_ns: Option<u64>,
    pub(super) last_cpu: Option<u32>,
    /// How it left, for whom, and why.
    pub(super) left: Left,
    pub(super) left_by: Name,
    pub(super) left_cause: Option<Cause>,
    /// The CPU that it waits for, and that one's clocks at the last charge.
    pub(super) wait_cpu: u32,
    pub(super) clocks: [u64; CLOCKS],
    /// The system call that it is in, where these are traced.
    pub(super) call: Option<u32>,
}

impl Default for Task {
    fn default() -> Self {
        Task {
            name: Name::default(),
            is_watched: false,
            is_real_time: false,
            state: State::Unknown,
            since_ns: 0,
            on_since_ns: None,
            off_since_ns: None,
            woken_ns: None,
            last_cpu: None,
            left: Left::Sleeping,
            left_by: Name::default(),
            left_cause: None,
            wait_cpu: 0,
            clocks: [0; CLOCKS],
            call: None,
        }
    }
}
