//! A record of what a machine did, event by event, for as long as there is room.
//!
//! A world keeps it on request ([`crate::world::World::record`]), from the opening of the window on. Room is a number of
//! entries. When it is used up the record ends at that time: what was under way is kept up to there, and later entries are
//! counted and dropped, so that the record is complete up to its end.

use crate::stats::SwitchOut;

/// What a task that left its CPU waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedOn {
    /// A message, or room for one.
    Message,
    Device,
    Log,
    Lock,
    /// Its timer, or its children.
    Other,
}

/// What a CPU does for a task beside the task's own code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It is in a system call.
    Kernel,
    /// It spins for a lock.
    Spin,
    /// It switches to the task.
    Switch,
    /// It handles an interrupt that takes time from the task: a tick, a device, another CPU.
    Interrupt,
}

/// What happened. Tasks and locks are numbers of the load; after its locks come those inside of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedEvent {
    /// A CPU switched from one task to another; `None` for the idle task. `waits` is what `from` waits for, `lock` the lock
    /// that it holds (`true`) or waits for.
    Switch { from: Option<u32>, to: Option<u32>, left: SwitchOut, waits: Option<BlockedOn>, lock: Option<(u32, bool)> },
    /// A task became runnable, woken by another one or, with `None`, by an interrupt.
    Wakeup { task: u32, by: Option<u32> },
    /// What a CPU did for its task without interruption, where that was not the task's own code; with the lock that it was
    /// for.
    Did { task: u32, doing: Activity, length_ns: u64, lock: Option<u32> },
    /// A task held a lock, on and off CPUs.
    Held { task: u32, lock: u32, length_ns: u64 },
    /// A task had a page fault, during which it may have been off its CPU; with the lock that it held.
    Faulted { task: u32, length_ns: u64, lock: Option<u32> },
}

impl RecordedEvent {
    /// The same, cut off at this length.
    fn cut(mut self, most_ns: u64) -> RecordedEvent {
        if let RecordedEvent::Did { length_ns, .. }
        | RecordedEvent::Held { length_ns, .. }
        | RecordedEvent::Faulted { length_ns, .. } = &mut self
        {
            *length_ns = most_ns.min(*length_ns);
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it happened or began, ns from the window's opening.
    pub at_ns: u64,
    pub cpu: u32,
    pub what: RecordedEvent,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The entries in the order of their times.
    pub entries: Vec<Entry>,
    /// When the record ends, ns from the window's opening: with the window, or when the room was used up.
    pub end_ns: u64,
    /// True if the room was used up.
    pub is_full: bool,
    /// Entries of the time after that, up to the window's end.
    pub given_up: u64,
}

/// The state of one CPU.
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Its task; `None` for the idle one.
    task: Option<u32>,
    /// Up to when it is recorded.
    until: u64,
    /// True if nothing was recorded since its task came.
    is_fresh: bool,
    /// The activity under way, since when, for which lock.
    piece: Option<(Activity, Option<u32>, u64)>,
}

/// Something that a task does on and off CPUs: a lock that it holds, or a fault.
#[derive(Debug, Clone, Copy)]
struct Open {
    task: u32,
    cpu: u32,
    since: u64,
    lock: Option<u32>,
    is_fault: bool,
}

/// Keeps a record.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    most: usize,
    /// When the window opened; `None` before.
    begin: Option<u64>,
    full_at: Option<u64>,
    entries: Vec<Entry>,
    lanes: Vec<Lane>,
    open: Vec<Open>,
    given_up: u64,
}

impl Recorder {
    pub(crate) fn new(most: usize) -> Self {
        Recorder { most, ..Recorder::default() }
    }

    /// The window opens, with these tasks on the CPUs.
    pub(crate) fn begin(&mut self, now: u64, current: impl Iterator<Item = Option<u32>>) {
        (self.begin, self.full_at, self.given_up) = (Some(now), None, 0);
        self.entries.clear();
        self.lanes = current.map(|task| Lane { task, until: now, is_fresh: true, piece: None }).collect();
        for open in &mut self.open {
            open.since = now;
        }
        for (cpu, lane) in self.lanes.clone().into_iter().enumerate() {
            if lane.task.is_some() {
                let what = RecordedEvent::Switch {
                    from: None,
                    to: lane.task,
                    left: SwitchOut::Blocked,
                    waits: None,
                    lock: None,
                };
                self.moment(now, cpu as u32, what);
            }
        }
    }

    /// Something that has no length.
    pub(crate) fn moment(&mut self, now: u64, cpu: u32, what: RecordedEvent) {
        if self.begin.is_some() {
            self.add(now, now, cpu, what);
        }
    }

    /// Keeps an entry that is over now, where there is room, or where it began while there was.
    fn add(&mut self, now: u64, at: u64, cpu: u32, what: RecordedEvent) {
        let Some(begin) = self.begin else { return };
        if self.full_at.is_none() && self.entries.len() >= self.most {
            self.full_at = Some(now);
        }
        let what = match self.full_at {
            Some(full_at) if at >= full_at => {
                self.given_up += 1;
                return;
            }
            Some(full_at) => what.cut(full_at - at),
            None => what,
        };
        self.entries.push(Entry { at_ns: at - begin, cpu, what });
    }

    /// A CPU has worked for its task from a time on: on `doing`, or on the task's own code and faults.
    pub(crate) fn passed(&mut self, cpu: u32, (from, ns): (u64, u64), doing: Option<(Activity, Option<u32>)>) {
        if self.begin.is_none() {
            return;
        }
        self.gap(cpu, from);
        let lane = self.lanes[cpu as usize];
        let going_on = lane.piece.map(|(doing, lock, _)| (doing, lock));
        if going_on != doing {
            self.finish_piece(cpu);
        }
        let lane = &mut self.lanes[cpu as usize];
        if lane.piece.is_none() {
            lane.piece = doing.map(|(doing, lock)| (doing, lock, from));
        }
        (lane.until, lane.is_fresh) = (from + ns, false);
    }

    /// What a CPU did until a time was no work for its task: the switch to it, or interrupts.
    fn gap(&mut self, cpu: u32, until: u64) {
        let lane = self.lanes[cpu as usize];
        let Some(task) = lane.task.filter(|_| until > lane.until) else { return };
        self.finish_piece(cpu);
        let doing = if lane.is_fresh { Activity::Switch } else { Activity::Interrupt };
        let what = RecordedEvent::Did { task, doing, length_ns: until - lane.until, lock: None };
        self.add(until, lane.until, cpu, what);
        self.lanes[cpu as usize].until = until;
    }

    fn finish_piece(&mut self, cpu: u32) {
        let lane = &mut self.lanes[cpu as usize];
        let until = lane.until;
        if let (Some((doing, lock, since)), Some(task)) = (lane.piece.take(), lane.task) {
            self.add(until, since, cpu, RecordedEvent::Did { task, doing, length_ns: until - since, lock });
        }
    }

    /// A CPU goes to another task, or to none.
    pub(crate) fn switch(&mut self, now: u64, cpu: u32, what: RecordedEvent) {
        let RecordedEvent::Switch { to, .. } = what else { return };
        if self.begin.is_none() {
            return;
        }
        self.gap(cpu, now);
        self.finish_piece(cpu);
        self.lanes[cpu as usize] = Lane { task: to, until: now, is_fresh: true, piece: None };
        self.moment(now, cpu, what);
    }

    /// A task holds a lock from now on, or has a page fault with a lock held or without.
    pub(crate) fn opens(&mut self, now: u64, cpu: u32, task: u32, lock: Option<u32>, is_fault: bool) {
        self.open.push(Open { task, cpu, since: now, lock, is_fault });
    }

    /// The task releases the lock, or the page of its fault is mapped.
    pub(crate) fn ends(&mut self, now: u64, task: u32, lock: Option<u32>, is_fault: bool) {
        let is_it = |o: &Open| o.task == task && o.is_fault == is_fault && (is_fault || o.lock == lock);
        if let Some(place) = self.open.iter().rposition(is_it) {
            let open = self.open.remove(place);
            self.add_open(now, open);
        }
    }

    fn add_open(&mut self, now: u64, open: Open) {
        let Open { task, cpu, since, lock, is_fault } = open;
        let length_ns = now - since;
        match lock {
            Some(lock) if !is_fault => self.add(now, since, cpu, RecordedEvent::Held { task, lock, length_ns }),
            _ => self.add(now, since, cpu, RecordedEvent::Faulted { task, length_ns, lock }),
        }
    }

    /// The window closes: what is under way is recorded up to now.
    pub(crate) fn close(mut self, now: u64) -> Recorded {
        for cpu in 0..self.lanes.len() as u32 {
            self.gap(cpu, now);
            self.finish_piece(cpu);
        }
        for open in std::mem::take(&mut self.open) {
            self.add_open(now, open);
        }
        self.entries.sort_by_key(|e| e.at_ns);
        let end = self.full_at.unwrap_or(now);
        Recorded {
            entries: self.entries,
            end_ns: end - self.begin.unwrap_or(end),
            is_full: self.full_at.is_some(),
            given_up: self.given_up,
        }
    }
}
