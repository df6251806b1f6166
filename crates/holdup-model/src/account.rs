//! Where the wall time of sessions at work goes, by state: shares that add up to 1.

use serde::{Deserialize, Serialize};

/// What kind of state it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateClass {
    /// On a CPU.
    OnCpu,
    /// Runnable without a CPU.
    Runnable,
    /// Asleep, interruptibly or not.
    Asleep,
    /// Small states of any class together.
    Other,
}

/// A part of the time in a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatePart {
    /// Of runnable tasks, the name of those that had the CPU; of tasks on a CPU, what they did: `own code`, `page fault`,
    /// `system call read`.
    pub name: String,
    /// For how long, s.
    pub time_s: f64,
}

/// The time in one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountState {
    /// `on a CPU`, `runnable behind other tasks`, or the wait event or system call that it sleeps in.
    pub name: String,
    /// What kind of state it is.
    pub class: StateClass,
    /// The share of the time of sessions at work.
    pub share: f64,
    /// Lower end of its 95 % interval over the windows; `None` with one window.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The time, s.
    pub time_s: f64,
    /// Sessions in this state, on average over the windows.
    pub sessions: f64,
    /// The time in each window, s, in the order of [`Account::windows`].
    pub windows_s: Vec<f64>,
    /// What they were runnable behind, as far as that is not under test itself, or what they did on a CPU, by the samples of all
    /// tasks under test; largest first.
    pub parts: Vec<StatePart>,
}

/// A window of an account.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AccountWindow {
    /// Its trial (`Trial::seq`).
    pub trial: u32,
    /// Its length, s.
    pub length_s: f64,
}

/// The account of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// What the sessions are called: `sessions`, `the watched tasks`.
    pub of: String,
    /// The kinds of processes whose time it is (`client backend`).
    pub kinds: Vec<String>,
    /// The time of sessions at work, s.
    pub at_work_s: f64,
    /// Sessions at work, on average over the windows.
    pub sessions: f64,
    /// The windows in order.
    pub windows: Vec<AccountWindow>,
    /// The states: on a CPU, runnable, asleep, each largest first, and small ones as one. Their shares add up to 1; none
    /// where no session was at work.
    pub states: Vec<AccountState>,
    /// The small states that stand among `states` as one.
    pub small: Vec<AccountState>,
}
