//! Where the time of sessions at work goes, as rows: the same for a terminal, Markdown and the page.

use crate::formats::terminal::TerminalOptions;
use crate::matrix::shorten;
use crate::text::{self, clean, wrap};
use holdup_model::Account;
use holdup_model::account::{AccountState, StateClass, StatePart};
use holdup_model::foreign::markdown as escape;

/// The heads of the columns.
pub(crate) fn head(account: &Account) -> [String; 5] {
    ["state", "share", "95 % interval", "time, s", what(account)].map(str::to_owned)
}

/// Names that a state waits behind, at most.
const NAMES: usize = 5;

/// The widest name of a state on a terminal.
const NAME_COLUMNS: usize = 30;

/// `sessions`, `tasks`.
pub(crate) fn what(account: &Account) -> &str {
    account.of.rsplit(' ').next().unwrap_or_default()
}

/// `9.87 sessions (client backend) are at work on average.`
pub(crate) fn whose(account: &Account) -> String {
    if account.states.is_empty() {
        return format!("No {} were at work.", what(account));
    }
    let kinds: Vec<String> = account.kinds.iter().map(|k| clean(k)).collect();
    format!("{} {} ({}) are at work on average.", few(account.sessions), what(account), kinds.join(", "))
}

/// A row for each state, and one for all of them.
pub(crate) fn rows(account: &Account) -> Vec<[String; 5]> {
    let row = |name: String, share: f64, interval: Option<String>, time_s: f64, sessions: f64| {
        [name, text::tenths(share), interval.unwrap_or_else(|| "–".to_owned()), few(time_s), few(sessions)]
    };
    let of = |s: &AccountState| row(name(s, account), s.share, interval(s), s.time_s, s.sessions);
    let mut rows: Vec<[String; 5]> = account.states.iter().map(of).collect();
    if !rows.is_empty() {
        rows.push(row("all".to_owned(), 1.0, Some(String::new()), account.at_work_s, account.sessions));
    }
    rows
}

/// A state's name; that of small ones together says how many they are.
fn name(state: &AccountState, account: &Account) -> String {
    match state.class {
        StateClass::Other => format!("other ({})", text::count(account.small.len(), "state")),
        StateClass::OnCpu | StateClass::Runnable | StateClass::Asleep => clean(&state.name),
    }
}

/// `11.9 to 12.6`; `None` with one window.
fn interval(state: &AccountState) -> Option<String> {
    Some(format!("{:.1} to {:.1}", state.low? * 100.0, state.high? * 100.0))
}

/// `12.3 % (11.9 to 12.6)`, or without an interval.
pub(crate) fn share(state: &AccountState) -> String {
    let interval = interval(state).map(|i| format!(" ({i})")).unwrap_or_default();
    format!("{}{interval}", text::tenths(state.share))
}

/// A number with at most three decimal places, for columns: `9.87`, `0.031`.
pub(crate) fn few(x: f64) -> String {
    let digits = match x {
        x if x > 0.0 && x < 0.0005 => return "<0.001".to_owned(),
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 0.1 => 2,
        _ => 3,
    };
    format!("{x:.digits$}")
}

/// `cc1 0.31 s`; a number and its unit stay on one line.
fn seconds(name: &str, time_s: f64) -> String {
    format!("{name} {}\u{a0}s", few(time_s))
}

/// What runnable sessions waited behind, by name, and what others did on a CPU, by samples: a sentence for each state.
pub(crate) fn parts(account: &Account) -> Vec<String> {
    let all = account.states.iter().filter(|state| !state.parts.is_empty());
    let sentence = |state: &AccountState| {
        let named = |b: &StatePart| seconds(&clean(&b.name), b.time_s);
        let mut names: Vec<String> = state.parts.iter().take(NAMES).map(named).collect();
        if state.parts.len() > NAMES {
            let rest_s = state.parts.iter().skip(NAMES).map(|b| b.time_s).sum();
            names.push(seconds(&format!("{} others", state.parts.len() - NAMES), rest_s));
        }
        let by = if state.class == StateClass::OnCpu { "samples" } else { "name" };
        format!("{}, by {by}: {}.", text::capital(&clean(&state.name)), names.join(", "))
    };
    all.map(sentence).collect()
}

/// The table for a terminal, below a blank line.
pub(crate) fn terminal(account: &Account, options: &TerminalOptions) -> String {
    let columns = options.columns();
    let mut out = format!("\n{}", options.bold_lines("Where the time goes\n"));
    out.push_str(&wrap(&whose(account), columns, "  ", "  "));
    let rows = rows(account);
    if rows.is_empty() {
        return out;
    }
    let mut lines: Vec<Vec<String>> = vec![head(account).into()];
    lines.extend(rows.into_iter().map(|[name, rest @ ..]| {
        let mut line = vec![shorten(&name, NAME_COLUMNS)];
        line.extend(rest);
        line
    }));
    out.push_str(&text::align(&lines, &[], "  "));
    parts(account).iter().for_each(|line| out.push_str(&wrap(line, columns, "  ", "    ")));
    out
}

/// The table in Markdown.
pub(crate) fn markdown(account: &Account) -> String {
    let mut out = format!("\nWhere the time goes: {}\n", escape(&whose(account)));
    let rows = rows(account);
    if rows.is_empty() {
        return out;
    }
    out.push_str(&format!("\n| {} |\n|---|--:|--:|--:|--:|\n", head(account).join(" | ")));
    for row in rows {
        out.push_str(&format!("| {} |\n", row.map(|cell| escape(&cell)).join(" | ")));
    }
    parts(account).iter().for_each(|line| out.push_str(&format!("\n{}\n", escape(line))));
    out
}
