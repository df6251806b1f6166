//! What happened, event by event, until there is no more room.

use crate::collectors::switches::{CAUSE_NAMES, PLACE_NAMES};
use crate::kernel;
use crate::kernel::{
    EVENT_SWITCH, EVENT_WAKEUP, Event, KernelCollector, PLACE_KERNEL, PLACE_THROTTLED, PLACE_USER, Seen, Wants,
    comm_name,
};
use crate::reading::Produces;
use holdup_model::timeline::{TimelineEvent, TimelineKind, TimelineTask};
use holdup_model::{Collected, EvidenceItem, Meta};
use std::collections::BTreeMap;

/// The collector.
pub(crate) static TIMELINE: KernelCollector =
    KernelCollector { meta: &META, produces: PRODUCES, wants: Wants { timeline: true, ..Wants::NONE }, told };

static META: Meta = Meta {
    id: "timeline",
    summary: "switches, wake-ups and faults one by one, for a trace viewer",
    docs: "Every switch from or to a task under test, their wake-ups, and with `faults` and `critical-sections` beside it their \
           page faults and what they held, with times of CLOCK_MONOTONIC. The ring has room for some 100,000 events; what \
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
            self.all.push(TimelineTask { tid, pid: event.pid[which], name: comm_name(&event.comm[which]) });
        }
        Some(place)
    }
}

fn event(event: &Event, begin_ns: u64, tasks: &mut Tasks, sections: &[String]) -> Option<TimelineEvent> {
    let section = HELD_NAMES.get(usize::from(event.held)).and_then(|held| {
        let name = sections.get(usize::from(event.section))?;
        Some(format!("{held} {name}"))
    });
    let kind = match usize::from(event.kind) {
        EVENT_SWITCH => {
            let place = PLACE_NAMES.get(usize::from(event.place)).copied().unwrap_or("not watched");
            let (from, to) = (tasks.place(event, 0), tasks.place(event, 1));
            let cause = CAUSE_NAMES
                .get(usize::from(event.cause))
                .filter(|_| matches!(usize::from(event.place), PLACE_USER | PLACE_KERNEL | PLACE_THROTTLED));
            let left = cause.map_or_else(|| place.to_owned(), |cause| format!("{place}: {cause}"));
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

fn told(seen: &Seen) -> Collected {
    let begin_ns = seen.events.first().map_or(0, |e| e.ns);
    let names: Vec<String> = seen.sections.iter().map(|s| s.name.clone()).collect();
    let mut tasks = Tasks::default();
    let events: Vec<TimelineEvent> =
        seen.events.iter().filter_map(|e| event(e, begin_ns, &mut tasks, &names)).collect();
    let mut collected = Collected { collector: META.id.to_owned(), ..Collected::default() };
    collected.items.push(EvidenceItem::new("timeline_events", "1", events.len() as f64));
    collected.coverage = kernel::coverage(seen, events.len() as u64);
    collected.coverage.lost += seen.events_lost;
    if seen.events_lost > 0 {
        let lost = seen.events_lost;
        collected.coverage.notes.push(format!("{lost} events came when the ring was full"));
    }
    collected.cost = kernel::cost(seen, &mut collected.coverage);
    let timeline = holdup_model::Timeline { begin_ns, end_ns: None, tasks: tasks.all, events, lost: seen.events_lost };
    collected.timeline = Some(timeline);
    collected
}
