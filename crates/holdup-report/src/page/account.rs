//! Where the time of sessions at work goes: the states over the windows, and their table, arm by arm and side by side.

use super::{Chart, Table, short};
use crate::account::{few, head, parts, rows, share, what, whose};
use crate::text::{self, clean};
use holdup_model::account::{AccountState, StateClass};
use holdup_model::explanation::ArmExplanation;
use holdup_model::{Account, Explanation};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One arm on the page.
pub(crate) struct TimeOfArm {
    pub(crate) label: String,
    pub(crate) whose: String,
    /// The states over the windows; `None` where no session was at work.
    pub(crate) chart: Option<Chart>,
    pub(crate) table: Table,
    pub(crate) parts: Vec<String>,
}

/// The page's section; empty without an account.
#[derive(Default)]
pub(crate) struct Time {
    pub(crate) arms: Vec<TimeOfArm>,
    /// The arms side by side, where there are several.
    pub(crate) compared: Option<Table>,
}

/// The section of all arms that have an account.
pub(crate) fn section(explanation: Option<&Explanation>) -> Time {
    let arms = explanation.into_iter().flat_map(|e| &e.arms);
    let arms: Vec<(&ArmExplanation, &Account)> = arms.filter_map(|arm| Some((arm, arm.account.as_ref()?))).collect();
    let accounts: Vec<&Account> = arms.iter().map(|(_, account)| *account).collect();
    let colours = Colours::of(&accounts);
    let one = |(at, (arm, account)): (usize, &(&ArmExplanation, &Account))| TimeOfArm {
        label: clean(&arm.label),
        whose: whose(account),
        chart: (!account.states.is_empty()).then(|| chart((arm, account), arms.len() == 1, &colours, at)),
        table: table(account),
        parts: parts(account),
    };
    let compared = (arms.len() > 1).then(|| compared(&arms));
    Time { arms: arms.iter().enumerate().map(one).collect(), compared }
}

fn table(account: &Account) -> Table {
    let [first, others @ ..] = head(account);
    let mut table = Table::numbers(first, others);
    rows(account).into_iter().for_each(|row| table.row(row.into()));
    table
}

/// Wait events by their time in all arms, so that each has one colour on the page.
struct Colours<'a>(BTreeMap<&'a str, usize>);

/// The states of those that are runnable, each with a colour of its own on every page.
const RUNNABLE: [&str; 5] = [
    "runnable behind own tasks",
    "runnable behind other tasks",
    "runnable behind a higher class",
    "throttled",
    "waking up",
];

impl<'a> Colours<'a> {
    fn of(accounts: &[&'a Account]) -> Self {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for state in accounts.iter().flat_map(|a| &a.states).filter(|s| s.class == StateClass::Asleep) {
            *sums.entry(&state.name).or_default() += state.time_s;
        }
        let mut sorted: Vec<(&str, f64)> = sums.into_iter().collect();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        Colours(sorted.into_iter().zip(0..).map(|((name, _), at)| (name, at)).collect())
    }

    /// The number of a state in the colours of its class.
    fn place(&self, state: &AccountState) -> usize {
        match state.class {
            StateClass::Runnable => RUNNABLE.iter().position(|name| *name == state.name).unwrap_or(0),
            StateClass::Asleep => self.0.get(state.name.as_str()).copied().unwrap_or(0),
            StateClass::OnCpu | StateClass::Other => 0,
        }
    }
}

fn chart((arm, account): (&ArmExplanation, &Account), is_one: bool, colours: &Colours<'_>, at: usize) -> Chart {
    let mut begin_s = 0.0;
    let windows: Vec<Value> = account
        .windows
        .iter()
        .map(|w| {
            let from_s = begin_s;
            begin_s += w.length_s;
            json!({"trial": w.trial, "begin": short(from_s), "end": short(begin_s)})
        })
        .collect();
    // The same order in every arm, so that charts can be compared.
    let mut sorted: Vec<&AccountState> = account.states.iter().collect();
    sorted.sort_by_key(|state| (state.class, colours.place(state)));
    let states: Vec<Value> = sorted
        .into_iter()
        .map(|state| {
            let sessions = in_windows(state, account).map(|s| s.map_or(Value::Null, short));
            json!({
                "name": clean(&state.name), "class": state.class, "place": colours.place(state), "share": short(state.share),
                "sessions": sessions.collect::<Vec<_>>(),
            })
        })
        .collect();
    let label = if is_one { String::new() } else { format!(": {}", clean(&arm.label)) };
    Chart {
        id: format!("account-{at}"),
        kind: "account",
        title: format!("{} at work, by state{label}", text::capital(what(account))),
        context: String::new(),
        note: String::new(),
        data: json!({"of": what(account), "windows": windows, "states": states}),
        table: by_window(account),
    }
}

/// The sessions in a state on average, in each window; `None` where a window has no length.
fn in_windows<'a>(state: &'a AccountState, account: &'a Account) -> impl Iterator<Item = Option<f64>> + 'a {
    let windows = state.windows_s.iter().zip(&account.windows);
    windows.map(|(time_s, window)| (window.length_s > 0.0).then(|| time_s / window.length_s))
}

/// The sessions in each state, window by window.
fn by_window(account: &Account) -> Table {
    let heads = account.states.iter().map(|s| clean(&s.name)).chain(["all".to_owned()]);
    let mut table = Table::numbers("window", heads);
    let columns: Vec<Vec<Option<f64>>> = account.states.iter().map(|s| in_windows(s, account).collect()).collect();
    for (at, window) in account.windows.iter().enumerate() {
        let values: Vec<Option<f64>> = columns.iter().map(|c| c.get(at).copied().flatten()).collect();
        let all = values.iter().copied().sum::<Option<f64>>();
        let cells = values.into_iter().chain([all]).map(|v| v.map_or_else(|| "–".to_owned(), few));
        table.row(std::iter::once(window.trial.to_string()).chain(cells).collect());
    }
    table
}

/// The states of an account, small ones too, each by itself.
fn single(account: &Account) -> Vec<&AccountState> {
    account.states.iter().chain(&account.small).filter(|s| s.class != StateClass::Other).collect()
}

/// The share of each state in each arm. What is small in all arms stands together.
fn compared(arms: &[(&ArmExplanation, &Account)]) -> Table {
    let mut table = Table::numbers("state", arms.iter().map(|(arm, _)| clean(&arm.label)));
    let mut names: BTreeMap<(StateClass, &str), f64> = BTreeMap::new();
    for state in arms.iter().flat_map(|(_, a)| &a.states).filter(|s| s.class != StateClass::Other) {
        *names.entry((state.class, state.name.as_str())).or_default() += state.share;
    }
    let mut sorted: Vec<((StateClass, &str), f64)> = names.iter().map(|(key, sum)| (*key, *sum)).collect();
    sorted.sort_by(|a, b| a.0.0.cmp(&b.0.0).then_with(|| b.1.total_cmp(&a.1)));
    let all: Vec<Vec<&AccountState>> = arms.iter().map(|(_, account)| single(account)).collect();
    for ((_, name), _) in sorted {
        // A state that an account does not have took none of its time.
        let cell = |states: &Vec<&AccountState>| {
            states.iter().find(|s| s.name == name).map_or("0.0 %".to_owned(), |s| share(s))
        };
        table.row(std::iter::once(clean(name)).chain(all.iter().map(cell)).collect());
    }
    let is_named = |s: &AccountState| names.contains_key(&(s.class, s.name.as_str()));
    let rest: Vec<f64> =
        all.iter().map(|states| states.iter().filter(|s| !is_named(s)).map(|s| s.share).sum()).collect();
    if rest.iter().any(|share| *share > 0.0) {
        table.row(std::iter::once("other".to_owned()).chain(rest.iter().map(|share| text::tenths(*share))).collect());
    }
    let at_work = arms.iter().map(|(_, account)| few(account.sessions));
    table.row(std::iter::once("at work on average".to_owned()).chain(at_work).collect());
    table
}
