//! One thing that is watched: its windows, its sums, its flights.

use crate::flights::Flights;
use crate::syslog;
use holdup_live::{Counters, Memory};
use holdup_model::bundle::CollectorState;
use holdup_model::{Availability, TrialStatus};
use holdup_watch::Live;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known of one thing that is watched.
pub struct Target {
    name: String,
    state: Mutex<State>,
}

/// The state of a target between two windows.
pub(crate) struct State {
    pub(crate) memory: Memory,
    pub(crate) counters: Counters,
    /// True if it is watched now.
    pub(crate) is_up: bool,
    /// How often watching began.
    pub(crate) begun: u64,
    /// Windows since the begin, and other changes: what was rendered before is old when this moves.
    pub(crate) generation: u64,
    pub(crate) collectors: Vec<CollectorState>,
    pub(crate) flights: Option<Flights>,
}

impl Target {
    /// Nothing seen yet. `name` is the value of the label `watched`; `memory_bytes` is for its windows, `series` how many
    /// series a family has at most.
    pub fn new(name: impl Into<String>, memory_bytes: usize, series: usize, flights: Option<Flights>) -> Self {
        let name = name.into();
        let counters = Counters::new(name.clone(), series);
        let memory = Memory::new(memory_bytes);
        let state = State { memory, counters, is_up: false, begun: 0, generation: 0, collectors: Vec::new(), flights };
        Target { name, state: Mutex::new(state) }
    }

    /// The value of the label `watched`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What happened while it is watched. Lines that are worth saying come back.
    pub fn take(&self, event: Live) -> Vec<String> {
        let mut state = self.state();
        state.generation += 1;
        match event {
            Live::Begin { bundle, .. } => state.begin(&self.name, *bundle),
            Live::Window(trial) => state.window(&self.name, *trial),
            Live::Gone(why) => state.gone(&self.name, &why),
        }
    }

    /// Asks for a flight now: a signal, a webhook.
    pub fn trigger(&self, unix_ns: i64, reason: &str) -> Vec<String> {
        self.state().with_flights(|flights, memory| flights.ask(memory, unix_ns, reason))
    }

    /// Writes what was asked for and waits for its end, which does not come any more.
    pub fn end(&self) -> Vec<String> {
        self.state().with_flights(Flights::end)
    }

    /// The state. A thread that panicked while it had it leaves it as it was between two assignments.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What its flight recorder says; nothing where there is none.
    fn with_flights(&mut self, act: impl FnOnce(&mut Flights, &mut Memory) -> Vec<String>) -> Vec<String> {
        let State { memory, flights, .. } = self;
        flights.as_mut().map_or_else(Vec::new, |flights| act(flights, memory))
    }

    fn begin(&mut self, name: &str, watch: holdup_model::BundleData) -> Vec<String> {
        (self.is_up, self.begun) = (true, self.begun + 1);
        let mut lines = Vec::new();
        if self.begun > 1 {
            let line = format!("{name}: watched again");
            self.memory.log(watch.head.created_unix_ns, line.clone());
            syslog::warn(&line);
            lines.push(line);
        }
        let limited = watch.collectors.iter().filter_map(|state| Some((&state.id, state.availability.limit()?)));
        lines.extend(limited.map(|(id, reason)| format!("{name}: {id}: {reason}")));
        self.collectors.clone_from(&watch.collectors);
        self.memory.begin(watch);
        lines
    }

    fn window(&mut self, name: &str, trial: holdup_model::Trial) -> Vec<String> {
        let cpus = self.memory.watch().map_or(1, |watch| watch.head.machine.cpus);
        let alone = self.memory.push(trial);
        let Some(trial) = self.memory.windows().next_back().cloned() else { return Vec::new() };
        self.counters.add(&trial, alone.as_ref(), cpus);
        let mut lines = if trial.status == TrialStatus::Done { self.collected(name, &trial) } else { Vec::new() };
        lines.extend(self.with_flights(|flights, memory| flights.window(memory, &trial, alone.as_ref(), cpus)));
        lines
    }

    /// Collectors that stopped working in this window, and those that work again.
    fn collected(&mut self, name: &str, trial: &holdup_model::Trial) -> Vec<String> {
        let mut lines = Vec::new();
        for collected in &trial.evidence {
            let Some(state) = self.collectors.iter_mut().find(|state| state.id == collected.collector) else {
                continue;
            };
            match (collected.absence(), state.availability.is_usable()) {
                (Some(why), true) => {
                    lines.push(format!("{name}: {}: {why}", state.id));
                    state.availability = Availability::unavailable(why);
                }
                (None, false) => {
                    lines.push(format!("{name}: {}: works again", state.id));
                    state.availability = Availability::Ready;
                }
                _ => {}
            }
        }
        for line in &lines {
            self.memory.log(trial.ended_unix_ns, line.clone());
            syslog::warn(line);
        }
        lines
    }

    fn gone(&mut self, name: &str, why: &str) -> Vec<String> {
        let line = format!("{name}: not watched: {why}");
        self.is_up = false;
        self.counters.gone();
        self.memory.log(holdup_watch::unix_ns(), line.clone());
        let mut lines = self.with_flights(Flights::end);
        lines.push(line);
        lines
    }
}
