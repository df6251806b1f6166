//! Several loads on one machine: what each brings keeps its order and gets numbers after those that are there.

use crate::program::{Channel, Op};
use crate::seen::Seen;
use crate::world::Load;
use std::ops::Range;

/// What of a load and of what was seen belongs to one of several workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    programs: Range<usize>,
    tasks: Range<usize>,
    marks: Range<usize>,
    locks: Range<usize>,
    groups: Range<usize>,
}

impl Part {
    /// What was seen of this part; what is of the whole machine stays. Locks inside of locks are left out.
    pub fn of(&self, seen: &Seen) -> Seen {
        Seen {
            roles: seen.roles[self.programs.clone()].to_vec(),
            marks: seen.marks[self.marks.clone()].to_vec(),
            locks: seen.locks[self.locks.clone()].to_vec(),
            by_task: seen.by_task[self.tasks.clone()].to_vec(),
            cpu_ns: seen.cpu_ns[self.tasks.clone()].to_vec(),
            groups: seen.groups[self.groups.clone()].to_vec(),
            parts: Vec::new(),
            ..*seen
        }
    }
}

/// How many of each kind there were before.
struct Before {
    programs: u32,
    locks: u32,
    regions: u32,
    channels: u32,
    devices: u32,
    logs: u32,
    marks: u8,
}

impl Before {
    fn channel(&self, channel: Channel) -> Channel {
        match channel {
            Channel::Of(id) => Channel::Of(id + self.channels),
            Channel::OfCpu(first) => Channel::OfCpu(first + self.channels),
            own => own,
        }
    }

    fn op(&self, op: Op) -> Op {
        match op {
            Op::Lock(lock) => Op::Lock(lock + self.locks),
            Op::LockShared(lock) => Op::LockShared(lock + self.locks),
            Op::Data { lock, lines } => Op::Data { lock: lock + self.locks, lines },
            Op::Unlock(lock) => Op::Unlock(lock + self.locks),
            Op::Touch { region, pages } => Op::Touch { region: region + self.regions, pages },
            Op::Forget(region) => Op::Forget(region + self.regions),
            Op::UsedUp { region, to } => Op::UsedUp { region: region + self.regions, to },
            Op::Found { region, of, to } => Op::Found { region: region + self.regions, of, to },
            Op::Io { device, work } => Op::Io { device: device + self.devices, work },
            Op::Send { to, tag } => Op::Send { to: self.channel(to), tag },
            Op::Transmit { to, tag, work_ns, softirq_ns, waits, onward } => {
                Op::Transmit { to: self.channel(to), tag, work_ns, softirq_ns, waits, onward }
            }
            Op::Receive(from) => Op::Receive(self.channel(from)),
            Op::Take { from, work_ns } => Op::Take { from: self.channel(from), work_ns },
            Op::Append(log) => Op::Append(log + self.logs),
            Op::Flush(log) => Op::Flush(log + self.logs),
            Op::Begin(mark) => Op::Begin(mark + self.marks),
            Op::Done(mark) => Op::Done(mark + self.marks),
            Op::BeginFor(mark) => Op::BeginFor(mark + self.marks),
            Op::DoneFor(mark) => Op::DoneFor(mark + self.marks),
            Op::NextMoment { interval_ns, late, missed } => {
                Op::NextMoment { interval_ns, late: late + self.marks, missed: missed + self.marks }
            }
            Op::Fork(program) => Op::Fork(program + self.programs),
            // These name nothing that has a number, or an operation of the same program.
            Op::Compute(_)
            | Op::System { .. }
            | Op::Sleep(_)
            | Op::Yield
            | Op::IfLost(_)
            | Op::IfTag { .. }
            | Op::Jump(_)
            | Op::Repeat { .. }
            | Op::Chance { .. }
            | Op::ExtendBegin
            | Op::ExtendEnd
            | Op::Join
            | Op::Exit => op,
        }
    }
}

/// Puts a load beside what is there.
pub fn add(all: &mut Load, load: Load) {
    let before = Before {
        programs: all.programs.len() as u32,
        locks: all.locks.len() as u32,
        regions: all.regions.len() as u32,
        channels: all.channels.len() as u32,
        devices: all.devices.len() as u32,
        logs: all.logs.len() as u32,
        marks: all.marks as u8,
    };
    let (tasks, groups) = (all.tasks.len(), all.groups.len());
    // Who is in session 0 is in that of the run; other sessions are their own.
    let sessions = all.tasks.iter().map(|t| t.session).max().unwrap_or(0);
    let processes = all.tasks.iter().map(|t| t.process + 1).max().unwrap_or(0);
    all.most_tasks = all.most_tasks.max(tasks) + load.most_tasks.max(load.tasks.len());
    all.parts.push(Part {
        programs: all.programs.len()..all.programs.len() + load.programs.len(),
        tasks: tasks..tasks + load.tasks.len(),
        marks: all.marks..all.marks + load.marks,
        locks: all.locks.len()..all.locks.len() + load.locks.len(),
        groups: groups..groups + load.groups.len(),
    });
    if before.marks > 0 && load.marks > 0 {
        all.by_task.push(before.marks);
    }
    all.programs.extend(load.programs.into_iter().map(|mut program| {
        program.ops.iter_mut().for_each(|op| *op = before.op(*op));
        program
    }));
    all.tasks.extend(load.tasks.into_iter().map(|mut task| {
        task.program += before.programs;
        task.process += processes;
        task.session += if task.session > 0 { sessions } else { 0 };
        task.group = task.group.map(|group| group + groups as u32);
        task.inbox = task.inbox.map(|channel| channel + before.channels);
        task.peer = task.peer.map(|channel| channel + before.channels);
        task
    }));
    all.locks.extend(load.locks);
    all.regions.extend(load.regions);
    all.channels.extend(load.channels.into_iter().map(|mut channel| {
        channel.carries = channel.carries.map(|mark| mark + before.marks);
        channel
    }));
    all.devices.extend(load.devices);
    all.logs.extend(load.logs.into_iter().map(|mut log| {
        log.device += before.devices;
        log.lock = log.lock.map(|lock| lock + before.locks);
        log
    }));
    all.groups.extend(load.groups.into_iter().map(|mut group| {
        group.parent = group.parent.map(|parent| parent + groups as u32);
        group
    }));
    all.marks += load.marks;
}
