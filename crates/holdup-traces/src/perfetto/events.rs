//! Bundles of events of one CPU, in full and compact (ftrace_event_bundle.proto).

use super::Trouble;
use super::protobuf::{Value, fields, packed};
use crate::event::{Event, IN_INTERRUPT, Left, Name, TaskId, What, waker};
use std::collections::BTreeMap;

/// Fields of a bundle.
mod bundle {
    pub(super) const CPU: u32 = 1;
    pub(super) const EVENT: u32 = 2;
    pub(super) const LOST: u32 = 3;
    pub(super) const COMPACT: u32 = 4;
}

/// Fields of an event: those that all have, and the kinds.
mod event {
    pub(super) const TIME: u32 = 1;
    pub(super) const TID: u32 = 2;
    pub(super) const SWITCH: u32 = 4;
    pub(super) const WAKEUP: u32 = 17;
    pub(super) const WAKING: u32 = 20;
    pub(super) const WAKEUP_NEW: u32 = 114;
    pub(super) const MIGRATE: u32 = 491;
}

/// States of a task that left its CPU, as the kernel has had them since 4.14 (include/linux/sched.h:TASK_REPORT).
const STATES: [(u64, Left); 4] = [
    (0x02, Left::Blocked),
    (0x10 | 0x20, Left::Exited),
    (0x01 | 0x04 | 0x08, Left::Sleeping),
    (0x40 | 0x80, Left::Sleeping),
];
const IN_KERNEL: u64 = 0x100;
/// The bit of preemption before 4.14.
const IN_KERNEL_BEFORE: u64 = 0x800;

fn left(state: u64) -> Left {
    let asleep = STATES.iter().find(|(bits, _)| state & bits != 0).map(|(_, left)| *left);
    asleep.unwrap_or(if state & (IN_KERNEL | IN_KERNEL_BEFORE) != 0 { Left::InKernel } else { Left::UserBoundary })
}

/// What compact switches leave out: who had the CPU.
#[derive(Default)]
pub(super) struct Bundles {
    current: BTreeMap<u32, TaskId>,
}

type Take<'a> = &'a mut dyn FnMut(Event) -> Result<(), Trouble>;

impl Bundles {
    pub(super) fn read(&mut self, body: &[u8], take: Take<'_>) -> Result<(), Trouble> {
        let (mut cpu, mut has_lost, mut events) = (0, false, Vec::new());
        let mut compact = None;
        for field in fields(body) {
            match field? {
                (bundle::CPU, value) => cpu = u32::try_from(value.number()).unwrap_or(u32::MAX),
                (bundle::LOST, value) => has_lost = value.number() != 0,
                (bundle::EVENT, value) => events.extend(one(value.bytes())?),
                (bundle::COMPACT, value) => compact = Some(value.bytes()),
                _ => {}
            }
        }
        if let Some(compact) = compact {
            self.compact(cpu, compact, has_lost, &mut events)?;
        }
        events.sort_by_key(|(at_ns, _)| *at_ns);
        if let Some((at_ns, _)) = events.first().filter(|_| has_lost) {
            take(Event { at_ns: *at_ns, cpu, what: What::Lost { count: 0 } })?;
        }
        for (at_ns, what) in events {
            take(Event { at_ns, cpu, what })?;
        }
        Ok(())
    }

    fn compact(&mut self, cpu: u32, body: &[u8], has_lost: bool, into: &mut Vec<(u64, What)>) -> Result<(), Trouble> {
        let mut columns: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut names = Vec::new();
        for field in fields(body) {
            match field? {
                (5, value) => names.push(Name::of(value.bytes())),
                (number, Value::Bytes(bytes)) => {
                    columns.entry(number).or_default().extend(packed(bytes).ok_or(Trouble::Damaged(0))?);
                }
                (number, Value::Number(one)) => columns.entry(number).or_default().push(one),
            }
        }
        let column = |number: u32| columns.get(&number).map(Vec::as_slice).unwrap_or_default();
        let at = |number: u32, i: usize| column(number).get(i).copied().ok_or(Trouble::Damaged(0));
        let name = |number: u32, i: usize| {
            let place = usize::try_from(at(number, i)?).unwrap_or(usize::MAX);
            names.get(place).copied().ok_or(Trouble::Damaged(0))
        };
        if has_lost {
            self.current.remove(&cpu);
        }
        let mut now = 0_u64;
        for (i, step) in column(1).iter().enumerate() {
            now = now.wrapping_add(*step);
            let to = TaskId { tid: at(3, i)? as u32, priority: at(4, i)? as i64 as i32, name: name(6, i)? };
            // Who left is not said: it is the one that came before. Of the first switch of a CPU it is not known.
            let from = self.current.insert(cpu, to);
            if let Some(from) = from {
                into.push((now, What::Switch { from, left: left(at(2, i)?), to }));
            }
        }
        now = 0;
        for (i, step) in column(7).iter().enumerate() {
            now = now.wrapping_add(*step);
            let task = TaskId { tid: at(8, i)? as u32, priority: at(10, i)? as i64 as i32, name: name(11, i)? };
            into.push((now, What::Waking { task, cpu: at(9, i)? as u32, by: None }));
        }
        Ok(())
    }
}

/// An event in full; `None` for one that is not of the scheduler.
fn one(body: &[u8]) -> Result<Option<(u64, What)>, Trouble> {
    let (mut at_ns, mut tid, mut flags) = (0, 0, 0);
    let mut found = None;
    for field in fields(body) {
        match field? {
            (event::TIME, value) => at_ns = value.number(),
            (event::TID, value) => tid = value.number() as u32,
            (5, value) => flags = value.number(),
            (number @ (event::SWITCH | event::WAKEUP | event::WAKING | event::WAKEUP_NEW | event::MIGRATE), value) => {
                found = Some((number, value.bytes()));
            }
            _ => {}
        }
    }
    let Some((kind, body)) = found else { return Ok(None) };
    let mut numbers = [0_u64; 8];
    let mut names = [Name::default(); 8];
    for field in fields(body) {
        let (number, value) = field?;
        let Some(place) = usize::try_from(number).ok().filter(|place| *place < 8) else { continue };
        match value {
            Value::Number(_) => numbers[place] = value.number(),
            Value::Bytes(bytes) => names[place] = Name::of(bytes),
        }
    }
    let task = |name: usize| TaskId {
        name: names[name],
        tid: numbers[name + 1] as u32,
        priority: Value::Number(numbers[name + 2]).signed(),
    };
    let by = waker(tid, flags & IN_INTERRUPT != 0);
    let cpu = numbers[5] as u32;
    let what = match kind {
        event::SWITCH => What::Switch { from: task(1), left: left(numbers[4]), to: task(5) },
        event::MIGRATE => What::Migrate { tid: task(1).tid, to_cpu: cpu },
        event::WAKING => What::Waking { task: task(1), cpu, by },
        _ => What::Wakeup { task: task(1), cpu, by, is_new: kind == event::WAKEUP_NEW },
    };
    Ok(Some((at_ns, what)))
}
