//! The account of one arm: the wall time of its sessions at work, by state (collector `account`).

pub(crate) mod points;
pub(crate) mod states;

use crate::explanations::grouped;
use crate::watched::{Pieces, Watched, measured};
use crate::words;
use holdup_model::explanation::Missing;
use holdup_model::{Estimate, Trial};
use holdup_stats::{CONFIDENCE, share_of_sums};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

pub const ACCOUNT: &str = "account";
/// Its item with the states.
pub const ITEM: &str = "account_s";
/// What its shares are of.
pub(crate) const OF: &str = "the time of sessions at work";
/// PostgreSQL's processes that serve a client.
pub const BACKEND: &str = "client backend";
/// A kind of PostgreSQL's own processes is named that has this part of all CPU time.
const MAINTENANCE_SHARE: f64 = 0.03;
/// A backend that waits for its client's next statement is not at work.
pub const IDLE: &str = "Client:ClientRead";

/// What an entry of the account is of: `KIND | STATE | FOR`.
pub struct Entry<'a> {
    /// The kind of process (`client backend`).
    pub kind: &'a str,
    /// `on CPU`, `asleep`, `behind own tasks` and the like.
    pub state: &'a str,
    /// A wait event of PostgreSQL (`Lock:transactionid`), or a system call.
    pub waits_for: &'a str,
}

/// A label up to its first ` | `, and the rest. A live screen takes the labels of a hundred windows apart each second: to look for one
/// character is much faster than to look for three.
fn part(label: &str) -> (&str, &str) {
    let mut from = 0;
    while let Some(at) = label[from..].find('|').map(|at| from + at) {
        if let (Some(before), Some(after)) = (label[..at].strip_suffix(' '), label[at + 1..].strip_prefix(' ')) {
            return (before, after);
        }
        from = at + 1;
    }
    (label, "")
}

impl<'a> Entry<'a> {
    /// Of a label; parts that it has not are empty.
    pub fn of(label: &'a str) -> Self {
        let (kind, rest) = part(label);
        let (state, rest) = part(rest);
        Entry { kind, state, waits_for: part(rest).0 }
    }

    /// What it is in a sentence.
    fn name(&self) -> Cow<'a, str> {
        match self.state {
            "on CPU" => "on a CPU".into(),
            "throttled" => "throttled".into(),
            _ if is_asleep(self) => self.waits_for.into(),
            "waking" => "waking up".into(),
            state => format!("runnable {state}").into(),
        }
    }
}

/// True if a task sleeps, interruptibly or not.
pub fn is_asleep(entry: &Entry<'_>) -> bool {
    entry.state == "asleep" || entry.state == "blocked"
}

/// True if a task is on a CPU.
pub fn is_on_cpu(entry: &Entry<'_>) -> bool {
    entry.state == "on CPU"
}

/// True if a task is runnable and has no CPU.
pub(crate) fn is_runnable(entry: &Entry<'_>) -> bool {
    !is_on_cpu(entry) && !is_asleep(entry)
}

/// True if a task is runnable and tasks of its scheduling class have the CPU.
pub(crate) fn is_queued(entry: &Entry<'_>) -> bool {
    matches!(entry.state, "behind own tasks" | "behind other tasks")
}

/// True if there is an account.
pub(crate) fn is_there(watched: &Watched<'_>) -> bool {
    watched.of_collector(ACCOUNT).flat_map(|c| &c.items).any(|i| i.value.value().is_some())
}

/// Why a state (`throttled`) or a sleep (`mutex`) cannot be in the account: a trace that others recorded does not show all of them.
pub(crate) fn not_seen(watched: &Watched<'_>, what: &str) -> Option<Missing> {
    let items = watched.of_collector(ACCOUNT).flat_map(|c| &c.items);
    let absent = items.filter(|i| i.name == "account_not_seen" && i.label.as_deref() == Some(what));
    absent.filter_map(|i| measured(ACCOUNT, i).err()).next()
}

/// True if the watched processes are a PostgreSQL server with clients: then sessions are its backends.
pub(crate) fn has_backends(watched: &Watched<'_>) -> bool {
    watched.of_collector(ACCOUNT).flat_map(|c| &c.items).any(|i| {
        let label = i.label.as_deref().unwrap_or_default();
        i.name == ITEM && Entry::of(label).kind == BACKEND
    })
}

/// What the sessions are called.
pub(crate) fn sessions(watched: &Watched<'_>) -> &'static str {
    if has_backends(watched) { "sessions" } else { "the watched tasks" }
}

/// What a task sleeps for that waits for a mutex.
pub(crate) const MUTEX: &str = "mutex";

/// True if an entry is time of a session at work. A backend is at work unless it waits for its client; of other programs'
/// tasks it is not known what they sleep for, so those that sleep are not at work, unless they wait for a mutex.
fn is_at_work(entry: &Entry<'_>, has_backends: bool) -> bool {
    if has_backends {
        entry.kind == BACKEND && entry.waits_for != IDLE
    } else {
        entry.state != "asleep" || entry.waits_for == MUTEX
    }
}

/// Says whether an entry is time of a session at work.
pub(crate) fn at_work(watched: &Watched<'_>) -> impl Fn(&Entry<'_>) -> bool + Copy {
    let has_backends = has_backends(watched);
    move |entry| is_at_work(entry, has_backends)
}

/// The processes that PostgreSQL has for itself. Parallel workers are `background worker` as extensions' are, and so are not here.
const MAINTENANCE: [&str; 7] = [
    "archiver",
    "autovacuum launcher",
    "autovacuum worker",
    "background writer",
    "checkpointer",
    "io worker",
    "walwriter",
];

/// The time of PostgreSQL's own processes that is accepted, by kind, s, largest first.
pub(crate) fn of_maintenance(watched: &Watched<'_>, accept: impl Fn(&Entry<'_>) -> bool) -> Vec<(String, f64)> {
    let mut all = watched.by_label(ACCOUNT, ITEM);
    all.retain(|(label, _)| {
        let entry = Entry::of(label);
        MAINTENANCE.contains(&entry.kind) && accept(&entry)
    });
    grouped(&all, |label| Entry::of(label).kind)
}

/// What PostgreSQL's own processes have of all CPU time, in a sentence; `None` where it is little.
pub(crate) fn maintenance_on_cpu(watched: &Watched<'_>) -> Option<String> {
    let all_s = watched.watched_s() * watched.cpus;
    let kinds = of_maintenance(watched, is_on_cpu);
    let share = |s: f64| s / all_s;
    let whole: f64 = kinds.iter().map(|(_, s)| share(*s)).sum();
    let notable = kinds.iter().filter(|(_, s)| share(*s) >= MAINTENANCE_SHARE);
    let notable: Vec<String> = notable.map(|(kind, s)| format!("{kind} {}", words::percent(share(*s)))).collect();
    (all_s > 0.0 && !notable.is_empty()).then(|| {
        let whole = words::percent(whole);
        format!("The server's own processes have {whole} of all CPU time: {}.", notable.join(", "))
    })
}

/// Processes of a kind: `Client backends`.
pub(crate) fn plural(kind: &str) -> String {
    if kind == "watched" {
        "Watched tasks".to_owned()
    } else if kind.ends_with("backend") || kind.ends_with("worker") || kind.ends_with("sender") {
        words::capital(&format!("{kind}s"))
    } else if kind == "(other programs)" {
        "Other programs".to_owned()
    } else {
        format!("Tasks of {kind}")
    }
}

/// True if a kind of process is a session of PostgreSQL.
pub(crate) fn is_backend(kind: &str) -> bool {
    kind == BACKEND
}

/// The time of sessions at work that is accepted in a trial, s.
fn at_work_s(
    watched: &Watched<'_>,
    trial: &Trial,
    has_backends: bool,
    accept: impl Fn(&Entry<'_>) -> bool,
) -> Result<f64, Missing> {
    watched.required(trial, ACCOUNT, ITEM, |label| {
        let entry = Entry::of(label);
        is_at_work(&entry, has_backends) && accept(&entry)
    })
}

/// The CPU time of PostgreSQL's sessions in a trial, s.
pub(crate) fn backends_on_cpu_s(watched: &Watched<'_>, trial: &Trial) -> Result<f64, Missing> {
    at_work_s(watched, trial, true, is_on_cpu)
}

/// The share of the time of sessions at work that is accepted, in each trial.
///
/// # Errors
/// When there is no account.
pub(crate) fn pieces(watched: &Watched<'_>, accept: impl Fn(&Entry<'_>) -> bool) -> Result<Pieces, Missing> {
    let has_backends = has_backends(watched);
    watched.pieces(|trial| {
        let part_s = at_work_s(watched, trial, has_backends, &accept)?;
        Ok((part_s, at_work_s(watched, trial, has_backends, |_| true)?))
    })
}

/// The time of sessions at work by what they wait for, s, largest first.
pub(crate) fn by_wait(watched: &Watched<'_>, accept: impl Fn(&Entry<'_>) -> bool) -> Vec<(String, f64)> {
    by_name(watched, ITEM, accept)
}

fn by_name(watched: &Watched<'_>, item: &str, accept: impl Fn(&Entry<'_>) -> bool) -> Vec<(String, f64)> {
    let at_work = at_work(watched);
    let all = watched.by_label(ACCOUNT, item);
    let accepted = all.iter().filter(|(label, _)| {
        let entry = Entry::of(label);
        at_work(&entry) && accept(&entry)
    });
    grouped(&accepted.cloned().collect::<Vec<_>>(), |label| Entry::of(label).waits_for)
}

/// The time of sessions at work in one window by state, s: on a CPU, runnable behind what, or the wait event or system call of
/// those that sleep.
pub type TimeByState<'a> = BTreeMap<Cow<'a, str>, f64>;

/// The time of sessions at work by state in each trial that has an account; the sequence numbers of the trials first.
///
/// # Errors
/// When there is no account.
pub(crate) fn by_state<'a>(watched: &Watched<'a>) -> Result<(Vec<u32>, Vec<TimeByState<'a>>), Missing> {
    let at_work = at_work(watched);
    watched.of_trials(|trial| {
        let mut times_s = TimeByState::new();
        for (label, seconds) in watched.values(trial, ACCOUNT, ITEM)? {
            let entry = Entry::of(label);
            if seconds > 0.0 && at_work(&entry) {
                *times_s.entry(entry.name()).or_default() += seconds;
            }
        }
        Ok(times_s)
    })
}

/// The shares of these states in the time of sessions at work, with intervals that hold together.
pub(crate) fn shares<'n>(windows: &[TimeByState<'_>], names: &BTreeSet<&'n str>) -> BTreeMap<&'n str, Estimate> {
    let confidence = 1.0 - (1.0 - CONFIDENCE) / names.len().max(1) as f64;
    let wholes: Vec<f64> = windows.iter().map(|times_s| times_s.values().sum()).collect();
    let share = |name: &'n str| {
        let part = |times_s: &TimeByState<'_>| times_s.get(name).copied().unwrap_or(0.0);
        let pieces: Vec<(f64, f64)> = windows.iter().map(part).zip(wholes.iter().copied()).collect();
        Some((name, share_of_sums(&pieces, confidence).ok()?))
    };
    names.iter().filter_map(|name| share(name)).collect()
}

/// holdup's own threads among the tasks that sessions waited behind.
pub(crate) const ITSELF: &str = "holdup itself";

/// The tasks that sessions waited behind, by name, s, largest first; of one state.
pub(crate) fn behind(watched: &Watched<'_>, state: &str) -> Vec<(String, f64)> {
    let all = by_name(watched, "behind_s", |entry| entry.state == state);
    grouped(&all, |name| if name.starts_with("holdup") { ITSELF } else { name })
}

/// The part of the time of sessions at work in which they were runnable without a CPU: what the scheduler has in it.
pub(crate) fn scheduler_share(watched: &Watched<'_>) -> Option<f64> {
    let (part, all) = pieces(watched, is_runnable).ok()?.sums();
    (all > 0.0).then(|| part / all)
}

/// The part of the time of sessions at work that they are on a CPU, and how many are on average.
pub(crate) fn on_cpu(watched: &Watched<'_>) -> Option<(f64, f64)> {
    let on_cpu = pieces(watched, is_on_cpu).ok()?;
    let ((part, all), watched_s) = (on_cpu.sums(), watched.length_s(&on_cpu.trials));
    let share = if all > 0.0 { part / all } else { 0.0 };
    (watched_s > 0.0).then(|| (share, part / watched_s))
}

/// The part of all their time in which PostgreSQL's sessions wait for what their clients send.
fn client_share(watched: &Watched<'_>) -> Option<f64> {
    let labels = watched.by_label(ACCOUNT, ITEM);
    let all = labels.iter().map(|(label, s)| (Entry::of(label), s)).filter(|(entry, _)| is_backend(entry.kind));
    let (idle_s, all_s) = all.fold((0.0, 0.0), |(idle_s, all_s), (entry, s)| {
        (if entry.waits_for == IDLE { idle_s + s } else { idle_s }, all_s + s)
    });
    (all_s > 0.0).then(|| idle_s / all_s)
}

/// `: sessions are on a CPU 93 % of their time at work, and wait for their clients 98 % of all`; empty without an account.
pub(crate) fn on_cpu_in_words(watched: &Watched<'_>) -> String {
    let Some((share, tasks)) = on_cpu(watched) else { return String::new() };
    let sessions = sessions(watched);
    let of_clients = client_share(watched).filter(|share| *share >= 0.5).map(words::percent);
    let of_clients = of_clients.map(|share| format!(", and wait for their clients {share} of all")).unwrap_or_default();
    match tasks < 0.01 {
        true => format!(": {sessions} hardly run{of_clients}"),
        false => format!(": {sessions} are on a CPU {} of their time at work{of_clients}", words::percent(share)),
    }
}
