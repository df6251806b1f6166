//! The account of one arm as a table: every state with its share, and the windows.

use super::{ACCOUNT, Entry, ITEM, at_work, behind, by_state, is_asleep, is_on_cpu, sessions};
use crate::watched::Watched;
use holdup_model::account::{AccountState, AccountWindow, StateClass, StatePart};
use holdup_model::{Account, on_cpu_states};
use holdup_stats::{CONFIDENCE, share_of_sums};
use std::collections::{BTreeMap, BTreeSet};

/// States with a smaller share stand together as one.
const SMALL: f64 = 0.005;

/// The account of an arm; `None` where there is none.
pub(crate) fn of_arm(watched: &Watched<'_>) -> Option<Account> {
    let (trials, times_s) = by_state(watched).ok()?;
    let at_work_s: Vec<f64> = times_s.iter().map(|by_state| by_state.values().sum()).collect();
    let window = |trial: u32| AccountWindow { trial, length_s: watched.length_s(&[trial]) };
    let windows: Vec<AccountWindow> = trials.into_iter().map(window).collect();
    let watched_s: f64 = windows.iter().map(|w| w.length_s).sum();
    let sums = Sums { at_work_s, watched_s };

    let labels = watched.by_label(ACCOUNT, ITEM);
    let (mut kinds, mut named) = (BTreeSet::new(), BTreeMap::new());
    for entry in labels.iter().map(|(label, _)| Entry::of(label)).filter(at_work(watched)) {
        kinds.insert(entry.kind.to_owned());
        named.entry(entry.name()).or_insert(entry);
    }
    let states = named.iter().map(|(name, entry)| {
        let windows_s = times_s.iter().map(|by_state| by_state.get(name).copied().unwrap_or(0.0)).collect();
        let state = sums.state(name, class(entry), windows_s);
        AccountState { parts: parts(watched, entry, state.time_s), ..state }
    });
    let (states, small) = fold(states.collect(), &sums);
    Some(Account {
        of: sessions(watched).to_owned(),
        kinds: kinds.into_iter().collect(),
        at_work_s: sums.at_work_s.iter().sum(),
        sessions: sums.mean(&sums.at_work_s),
        windows,
        states,
        small,
    })
}

/// What the time in a state is made of.
fn parts(watched: &Watched<'_>, entry: &Entry<'_>, time_s: f64) -> Vec<StatePart> {
    let part = |(name, time_s)| StatePart { name, time_s };
    if !is_on_cpu(entry) {
        return behind(watched, entry.state).into_iter().map(part).collect();
    }
    let samples = on_cpu_states::samples(&watched.stacks("cpu-profile", "on_cpu"));
    let all = samples.iter().map(|(_, n)| n).sum::<u64>().max(1) as f64;
    samples.into_iter().map(|(name, n)| part((name, n as f64 / all * time_s))).collect()
}

fn class(entry: &Entry<'_>) -> StateClass {
    if is_on_cpu(entry) {
        StateClass::OnCpu
    } else if is_asleep(entry) {
        StateClass::Asleep
    } else {
        StateClass::Runnable
    }
}

/// The time of sessions at work in each window, and the length of all windows.
struct Sums {
    at_work_s: Vec<f64>,
    watched_s: f64,
}

impl Sums {
    /// How many sessions it is on average that spend this time.
    fn mean(&self, windows_s: &[f64]) -> f64 {
        if self.watched_s > 0.0 { windows_s.iter().sum::<f64>() / self.watched_s } else { 0.0 }
    }

    fn state(&self, name: &str, class: StateClass, windows_s: Vec<f64>) -> AccountState {
        let pieces: Vec<(f64, f64)> = windows_s.iter().copied().zip(self.at_work_s.iter().copied()).collect();
        let interval = share_of_sums(&pieces, CONFIDENCE).ok();
        let (time_s, all_s): (f64, f64) = (windows_s.iter().sum(), self.at_work_s.iter().sum());
        AccountState {
            name: name.to_owned(),
            class,
            share: if all_s > 0.0 { time_s / all_s } else { 0.0 },
            low: interval.as_ref().map(|e| e.low),
            high: interval.as_ref().map(|e| e.high.min(1.0)),
            time_s,
            sessions: self.mean(&windows_s),
            windows_s,
            parts: Vec::new(),
        }
    }
}

/// The states in their order, small ones as one, and these small ones. A single small one stays as it is.
fn fold(mut states: Vec<AccountState>, sums: &Sums) -> (Vec<AccountState>, Vec<AccountState>) {
    states.sort_by(|a, b| a.class.cmp(&b.class).then_with(|| b.time_s.total_cmp(&a.time_s)));
    let (mut shown, small): (Vec<_>, Vec<_>) = states.iter().cloned().partition(|state| state.share >= SMALL);
    if small.len() < 2 {
        return (states, Vec::new());
    }
    let window_s = |at: usize| small.iter().map(|state| state.windows_s[at]).sum();
    let windows_s = (0..sums.at_work_s.len()).map(window_s).collect();
    shown.push(sums.state("other", StateClass::Other, windows_s));
    (shown, small)
}
