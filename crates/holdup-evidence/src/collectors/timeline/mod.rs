//! What happened, event by event, until there is no more room.

use crate::collectors::account;
use crate::collectors::switches::{CAUSE_NAMES, OUT_STATE_NAMES};
use crate::kernel::layout::{
    EVENT_SWITCH, EVENT_WAKEUP, Event, OUT_BLOCKED, OUT_KERNEL, OUT_SLEEPING, OUT_THROTTLED, OUT_USER, name,
};
use crate::kernel::{KernelCollector, Part, WindowCounts};
use crate::reading::Produces;
use holdup_model::timeline::{TimelineEvent, TimelineKind, TimelineTask};
use holdup_model::{Collected, EvidenceItem, Meta};
use std::collections::BTreeMap;
pub(crate) static TIMELINE: KernelCollector = KernelCollector { meta: &META, produces: PRODUCES, part: &PART, report };

/// The ring holds some 100,000 events.
static PART: Part = Part { switches: &["want_timeline"], programs: &[], rings: &[("events", 8 << 20)] };

static META: Meta = Meta {
    id: "timeline",
    summary: "switches, wake-ups and faults one by one, for a trace viewer",
    docs: "Every switch from or to a task under test, their wake-ups, and with `faults` and `critical-sections` beside it their \
           page faults and what they held, with times of CLOCK_MONOTONIC. With `account` a sleep has the name of the wait \
           event or system call that the task sleeps in. The ring has room for some 100,000 events; what \
           comes after it is full is counted and lost, so at the begin of the window nothing is missing, and behind \
           the last event nothing is there. `holdup export --format perfetto` writes it for a trace viewer.\n\n\
           Costs more than all other collectors of switches, because every event is written; not for measured arms.\n\n\
           Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 5.15 or later.",
    references: &["kernel/sched/core.c:__schedule, trace_sched_switch; ttwu_do_wakeup, trace_sched_wakeup (v6.18)"],
};

const PRODUCES: Produces = &[("timeline_events", "1", "events that the timeline holds")];

/// `HOLDER` and `WAITER` of state.h.
const HELD_NAMES: [&str; 2] = ["holder", "waiter"];

/// Tasks by their ids, in the order in which they were first seen.
#[derive(Default)]
struct Tasks {
    by_tid: BTreeMap<u32, u32>,
    all: Vec<TimelineTask>,
}

impl Tasks {
    /// The place of one of the event's tasks; `None` for the idle task.
    fn place(&mut self, event: &Event, which: usize) -> Option<u32> {
        let tid = event.tid[which];
        if tid == 0 {
            return None;
        }
        let next = self.all.len() as u32;
        let place = *self.by_tid.entry(tid).or_insert(next);
        if place == next {
            self.all.push(TimelineTask { tid, pid: event.pid[which], name: name(&event.comm[which]) });
        }
        Some(place)
    }
}

/// Where the task was that left, and behind a colon why it left, or what it sleeps for if there is an account.
fn left(event: &Event, window: &WindowCounts) -> String {
    let out = usize::from(event.out_state);
    let Some(state) = OUT_STATE_NAMES.get(out).copied() else { return "not watched".to_owned() };
    let why = match out {
        OUT_USER | OUT_KERNEL | OUT_THROTTLED => CAUSE_NAMES.get(usize::from(event.cause)).map(|c| (*c).to_owned()),
        OUT_SLEEPING | OUT_BLOCKED if event.is_accounted != 0 => {
            Some(account::sleep(window, event.role, event.wait_event, event.syscall))
        }
        _ => None,
    };
    why.map_or_else(|| state.to_owned(), |why| format!("{state}: {why}"))
}

fn event(event: &Event, begin_ns: u64, tasks: &mut Tasks, window: &WindowCounts) -> Option<TimelineEvent> {
    let section = HELD_NAMES.get(usize::from(event.held)).and_then(|held| {
        let section = window.sections.get(usize::from(event.section))?;
        Some(format!("{held} {}", section.name))
    });
    let kind = match usize::from(event.kind) {
        EVENT_SWITCH => {
            let (from, to) = (tasks.place(event, 0), tasks.place(event, 1));
            let left = left(event, window);
            TimelineKind::Switch { from, to, left, section }
        }
        EVENT_WAKEUP => {
            let (task, by) = (tasks.place(event, 0), tasks.place(event, 1));
            TimelineKind::Wakeup { task: task?, by }
        }
        _ => TimelineKind::Fault { task: tasks.place(event, 0)?, length_ns: event.length_ns, section },
    };
    Some(TimelineEvent { at_ns: event.ns.saturating_sub(begin_ns), cpu: event.cpu, kind })
}

fn report(window: &WindowCounts, collected: &mut Collected) -> Result<u64, String> {
    let mut all: Vec<Event> = window.records("events")?;
    all.retain(|event| window.span_ns.contains(&event.ns));
    all.sort_by_key(|event| event.ns);
    let begin_ns = all.first().map_or(0, |e| e.ns);
    let mut tasks = Tasks::default();
    let events: Vec<TimelineEvent> = all.iter().filter_map(|e| event(e, begin_ns, &mut tasks, window)).collect();
    let (count, lost) = (events.len(), window.counts.events_lost);
    collected.items.push(EvidenceItem::new("timeline_events", "1", count as f64));
    if lost > 0 {
        collected.coverage.lost += lost;
        collected.coverage.notes.push(format!("{lost} events came when the ring was full"));
    }
    let timeline = holdup_model::Timeline { begin_ns, end_ns: None, tasks: tasks.all, events, lost, left_out: 0 };
    collected.timeline = Some(timeline);
    Ok(count as u64)
}
