//! The record of a simulated machine as evidence of the collector `timeline`.

use holdup_model::timeline::{Timeline, TimelineDoing, TimelineEvent, TimelineKind, TimelineTask};
use holdup_model::{Collected, Coverage, EvidenceItem};
use holdup_sim::locks;
use holdup_sim::record::{Activity, BlockedOn, Recorded, RecordedEvent};
use holdup_sim::stats::SwitchOut;
use holdup_sim::world::{Load, World};
use std::collections::BTreeMap;

pub(super) const ID: &str = "timeline";

/// How many entries a trial's record has room for: as many events as the ring of the real collector holds.
pub(super) const MOST: usize = 100_000;

/// Tasks by their numbers in the simulation, in the order in which the events name them.
struct Tasks<'a> {
    world: &'a World,
    load: &'a Load,
    /// The first task of each process, which gives the process its id.
    first: BTreeMap<u32, u32>,
    places: BTreeMap<u32, u32>,
    all: Vec<TimelineTask>,
}

impl Tasks<'_> {
    fn place(&mut self, task: u32) -> u32 {
        let next = self.all.len() as u32;
        let place = *self.places.entry(task).or_insert(next);
        if place == next {
            let (program, process) = self.world.program_and_process(task);
            // Ids begin at 1: 0 is the idle task.
            let tid = task + 1;
            let pid = self.first.get(&process).map_or(tid, |first| first + 1);
            let program = self.load.programs.get(program as usize).map_or("task", |p| p.name.as_str());
            self.all.push(TimelineTask { tid, pid, name: format!("{program} {tid}") });
        }
        place
    }
}

/// How a task left its CPU, as the collectors of switches name it; behind a colon what it waits for.
fn left(left: SwitchOut, waits: Option<BlockedOn>) -> String {
    let waits = match waits {
        Some(BlockedOn::Message) => ": for a message",
        Some(BlockedOn::Device) => ": for a device",
        Some(BlockedOn::Log) => ": for the log",
        Some(BlockedOn::Lock) => ": for a lock",
        Some(BlockedOn::Other) | None => "",
    };
    format!("{}{waits}", super::evidence::place_of(left))
}

/// What was recorded of a trial whose window was so long and began at `begin_ns` of the machine's clock.
pub(super) fn collected(recorded: &Recorded, world: &World, load: &Load, begin_ns: u64, window_ns: u64) -> Collected {
    let names = locks::names(&load.locks);
    let name = |lock: u32| names.get(lock as usize).cloned().unwrap_or_else(|| format!("lock {lock}"));
    let mut first = BTreeMap::new();
    for (number, task) in load.tasks.iter().enumerate() {
        first.entry(task.process).or_insert(number as u32);
    }
    let mut tasks = Tasks { world, load, first, places: BTreeMap::new(), all: Vec::new() };
    let mut events = Vec::with_capacity(recorded.entries.len());
    for entry in &recorded.entries {
        let kind = match entry.what {
            RecordedEvent::Switch { from, to, left: way, waits, lock } => TimelineKind::Switch {
                from: from.map(|t| tasks.place(t)),
                to: to.map(|t| tasks.place(t)),
                // An idle CPU has no task that left it.
                left: if from.is_some() { left(way, waits) } else { String::new() },
                section: lock.map(|(l, holds)| format!("{} {}", if holds { "holder" } else { "waiter" }, name(l))),
            },
            RecordedEvent::Wakeup { task, by } => {
                TimelineKind::Wakeup { task: tasks.place(task), by: by.map(|t| tasks.place(t)) }
            }
            RecordedEvent::Did { task, doing, length_ns, lock } => TimelineKind::Stretch {
                task: tasks.place(task),
                doing: match doing {
                    Activity::Kernel => TimelineDoing::Kernel,
                    Activity::Spin => TimelineDoing::Spin,
                    Activity::Switch => TimelineDoing::Switch,
                    Activity::Interrupt => TimelineDoing::Interrupt,
                },
                length_ns,
                lock: lock.map(name),
            },
            RecordedEvent::Held { task, lock, length_ns } => {
                TimelineKind::Hold { task: tasks.place(task), lock: name(lock), length_ns }
            }
            RecordedEvent::Faulted { task, length_ns, lock } => {
                let section = lock.map(|l| format!("holder {}", name(l)));
                TimelineKind::Fault { task: tasks.place(task), length_ns, section }
            }
        };
        events.push(TimelineEvent { at_ns: entry.at_ns, cpu: entry.cpu, kind });
    }
    let mut coverage = Coverage { seen: events.len() as u64, lost: recorded.given_up, notes: Vec::new() };
    if recorded.is_full {
        let (end_ms, window_ms) = (recorded.end_ns as f64 / 1e6, window_ns as f64 / 1e6);
        coverage.notes.push(format!(
            "the room of {MOST} events was used up after {end_ms:.3} ms of {window_ms} ms: {} later events are not in it",
            recorded.given_up
        ));
    }
    let items = vec![EvidenceItem::new("timeline_events", "1", events.len() as f64)];
    let end_ns = Some(recorded.end_ns);
    let timeline = Timeline { begin_ns, end_ns, tasks: tasks.all, events, lost: recorded.given_up, left_out: 0 };
    Collected { collector: ID.to_owned(), items, coverage, timeline: Some(timeline), ..Collected::default() }
}
