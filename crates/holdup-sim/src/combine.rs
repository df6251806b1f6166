//! Several loads on one machine: each keeps its order and is numbered after those before it.

use crate::program::{Channel, Op, Operand};
use crate::stats::WindowStats;
use crate::world::Load;
use std::ops::Range;

/// Which part of a load and of its counters belongs to one of several workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    programs: Range<usize>,
    tasks: Range<usize>,
    marks: Range<usize>,
    locks: Range<usize>,
    groups: Range<usize>,
}

impl Part {
    /// The counters of this part; those of the whole machine stay. Locks inside other locks are left out.
    pub fn of(&self, seen: &WindowStats) -> WindowStats {
        WindowStats {
            roles: seen.roles[self.programs.clone()].to_vec(),
            marks: seen.marks[self.marks.clone()].to_vec(),
            locks: seen.locks[self.locks.clone()].to_vec(),
            by_task: seen.by_task[self.tasks.clone()].to_vec(),
            cpu_ns: seen.cpu_ns[self.tasks.clone()].to_vec(),
            groups: seen.groups[self.groups.clone()].to_vec(),
            parts: Vec::new(),
            // A trace is alone on its machine.
            replay: None,
            ..*seen
        }
    }
}

/// How many of each kind the load had before.
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
    /// The operation with the numbers that its operands have in the combined load.
    fn moved(&self, mut op: Op) -> Op {
        op.operands(&mut |operand| match operand {
            Operand::Lock(id) => *id += self.locks,
            Operand::Region(id) => *id += self.regions,
            Operand::Device(id) => *id += self.devices,
            Operand::Log(id) => *id += self.logs,
            Operand::Mark(id) => *id += self.marks,
            Operand::Program(id) => *id += self.programs,
            Operand::Channel(Channel::Of(id) | Channel::OfCpu(id)) => *id += self.channels,
            Operand::Channel(_) | Operand::Target(_) => {}
        });
        op
    }
}

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
    // Session 0 is that of the run; each load has its own others.
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
        program.ops.iter_mut().for_each(|op| *op = before.moved(*op));
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
