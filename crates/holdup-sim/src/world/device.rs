//! Devices, logs on them, and tasks that are made and end.

use super::{LogSpec, Task, TaskSpec, Then, World};
use crate::program::Op;
use crate::random::{Span, Stream};
use crate::stats::SwitchOut;
use std::collections::VecDeque;

/// A device that serves some requests in parallel.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    parallel: u32,
    busy: u32,
    /// Tasks whose requests wait, and how long each will take.
    queue: VecDeque<(u32, u64)>,
}

impl Device {
    pub(super) fn new(parallel: u32) -> Self {
        Device { parallel: parallel.max(1), busy: 0, queue: VecDeque::new() }
    }
}

/// A log: records that tasks append in memory, and that one of them writes for all.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    spec: LogSpec,
    /// The last record.
    appended: u64,
    /// The last record on the device.
    flushed: u64,
    /// The task that writes, and up to which record.
    writer: Option<(u32, u64)>,
    waiters: VecDeque<u32>,
}

impl Log {
    pub(super) fn new(spec: LogSpec) -> Self {
        Log { spec, appended: 0, flushed: 0, writer: None, waiters: VecDeque::new() }
    }
}

/// The parent of a task whose own one has ended.
const ORPHAN: u32 = u32::MAX - 1;

/// The device of a task that waits for none.
const NO_DEVICE: u32 = u32::MAX;

impl World {
    /// The task is in the kernel to ask a device.
    pub(crate) fn asks_device(&mut self, cpu: u32, task: u32) {
        let Op::Io { device, work } = self.code[self.tasks[task as usize].pc as usize - 1] else {
            return self.return_to_user(cpu, task);
        };
        self.ask(cpu, task, device, work, Then::ToUser);
    }

    fn ask(&mut self, cpu: u32, task: u32, device: u32, work: Span, then: Then) {
        let t = &mut self.tasks[task as usize];
        let ns = work.of(t.stream.word());
        t.device = device;
        let d = &mut self.devices[device as usize];
        if d.busy < d.parallel {
            d.busy += 1;
            self.agenda.set(self.timer_slot(task), self.now + ns);
        } else {
            d.queue.push_back((task, ns));
        }
        self.blocks(cpu, task, then);
    }

    /// A task's timer expired: if it was that of a device, the next request is served.
    pub(crate) fn device_is_done(&mut self, task: u32) {
        let device = std::mem::replace(&mut self.tasks[task as usize].device, NO_DEVICE);
        if device == NO_DEVICE {
            return;
        }
        let d = &mut self.devices[device as usize];
        match d.queue.pop_front() {
            Some((next, ns)) => self.agenda.set(self.timer_slot(next), self.now + ns),
            None => d.busy -= 1,
        }
    }

    /// A task writes a record in memory.
    pub(crate) fn append(&mut self, task: u32, log: u32) {
        let l = &mut self.logs[log as usize];
        l.appended += 1;
        self.tasks[task as usize].record = l.appended;
    }

    /// A task wants its last record on the device. Whether it is there already.
    pub(crate) fn flush(&mut self, cpu: u32, task: u32, log: u32) -> bool {
        if let Some(lock) = self.logs[log as usize].spec.lock {
            return self.flush_behind(cpu, task, log, lock);
        }
        if self.logs[log as usize].flushed >= self.tasks[task as usize].record {
            return true;
        }
        self.enter_kernel(cpu, task, self.machine.costs.syscall_ns, Then::Flushes);
        false
    }

    /// The same with a log that has a lock: its holder writes for all, the others sleep until it is free and check again
    /// (PostgreSQL's `XLogFlush()` with `LWLockAcquireOrWait(WALWriteLock)`, src/backend/access/transam/xlog.c, 15 to 18).
    fn flush_behind(&mut self, cpu: u32, task: u32, log: u32, lock: u32) -> bool {
        let is_there = self.logs[log as usize].flushed >= self.tasks[task as usize].record;
        let holds = self.locks[lock as usize].holder == task;
        if is_there && !holds {
            return true;
        }
        // The operation is repeated until the record is there and the lock is released.
        self.tasks[task as usize].pc -= 1;
        match (is_there, holds) {
            (true, _) => self.release(cpu, task, lock),
            (_, false) => self.want(cpu, task, lock, false, true),
            _ => {
                self.enter_kernel(cpu, task, self.machine.costs.syscall_ns, Then::WritesLog);
                false
            }
        }
    }

    /// The task holds the lock of a log and is in the kernel to write it, or has written it.
    pub(crate) fn writes_log(&mut self, cpu: u32, task: u32) {
        let Op::Flush(log) = self.code[self.tasks[task as usize].pc as usize] else {
            return self.return_to_user(cpu, task);
        };
        let l = &mut self.logs[log as usize];
        if let Some((_, up_to)) = l.writer.take() {
            l.flushed = up_to;
            return self.return_to_user(cpu, task);
        }
        l.writer = Some((task, l.appended));
        let spec = l.spec;
        self.ask(cpu, task, spec.device, spec.write, Then::WritesLog);
    }

    /// The task is in the kernel to flush, or has slept there: unless its record is on the device, it writes for all or waits
    /// for the writer. As in the loop of PostgreSQL's `XLogFlush()` with `LWLockAcquireOrWait()`
    /// (src/backend/access/transam/xlog.c, 15 to 18), which first checks whether it is done already.
    pub(crate) fn flushes(&mut self, cpu: u32, task: u32) {
        let Op::Flush(log) = self.code[self.tasks[task as usize].pc as usize - 1] else {
            return self.return_to_user(cpu, task);
        };
        let l = &mut self.logs[log as usize];
        let is_there = l.flushed >= self.tasks[task as usize].record;
        if let Some((writer, up_to)) = l.writer.filter(|(writer, _)| *writer == task || !is_there) {
            if writer != task {
                l.waiters.push_back(task);
                return self.blocks(cpu, task, Then::Flushes);
            }
            // Its write is done: all waiters check again, and the first whose record is missing writes.
            l.flushed = up_to;
            l.writer = None;
            let waiters = std::mem::take(&mut l.waiters);
            let count = waiters.len() as u64;
            for waiter in waiters {
                self.wake(waiter, Some(cpu));
            }
            let ns = count * self.machine.costs.wake_ns;
            return self.enter_kernel(cpu, task, ns, Then::ToUser);
        }
        if is_there {
            return self.return_to_user(cpu, task);
        }
        l.writer = Some((task, l.appended));
        let spec = l.spec;
        self.ask(cpu, task, spec.device, spec.write, Then::Flushes);
    }

    /// The task is in fork(): the child can run.
    pub(crate) fn forks(&mut self, cpu: u32, task: u32) {
        let Op::Fork(program) = self.code[self.tasks[task as usize].pc as usize - 1] else {
            return self.return_to_user(cpu, task);
        };
        if let Some(child) = self.new_task(program, task) {
            self.tasks[task as usize].children += 1;
            self.wake(child, Some(cpu));
        }
        self.enter_kernel(cpu, task, self.machine.costs.wake_ns, Then::ToUser);
    }

    fn new_task(&mut self, program: u32, parent: u32) -> Option<u32> {
        let parent_task = self.tasks[parent as usize];
        let entry = self.entry[program as usize];
        let spec = TaskSpec { policy: parent_task.policy, ..TaskSpec::new(program, parent_task.process) };
        let stream = Stream::new(self.tasks[parent as usize].stream.word());
        let mut task = Task::new(&spec, entry, stream);
        (task.parent, task.cpu) = (parent, parent_task.cpu);
        let free = self.free_tasks.pop();
        if free.is_none() && self.tasks.len() >= self.most_tasks {
            return None;
        }
        let place = self.fair.add_like(parent, free);
        match free {
            Some(place) => self.tasks[place as usize] = task,
            None => {
                self.tasks.push(task);
                self.seen.by_task.push(0);
                self.seen.cpu_ns.push(0);
            }
        }
        self.backend_begins(place);
        Some(place)
    }

    /// A task ends: its number is free again, and a parent that waits for its last child continues.
    pub(crate) fn ends(&mut self, cpu: u32, task: u32) {
        if std::mem::take(&mut self.tasks[task as usize].children) > 0 {
            // Another task may get its number, which is not their parent.
            for child in self.tasks.iter_mut().filter(|t| t.parent == task) {
                child.parent = ORPHAN;
            }
        }
        let parent = self.tasks[task as usize].parent;
        if parent != u32::MAX {
            if parent != ORPHAN {
                let p = &mut self.tasks[parent as usize];
                p.children -= 1;
                if p.children == 0 && std::mem::take(&mut p.joins) {
                    self.wake(parent, Some(cpu));
                }
            }
            self.free_tasks.push(task);
        }
        self.schedule(cpu, SwitchOut::Exited);
    }

    /// A task waits for its children. Whether there are none.
    pub(crate) fn join(&mut self, cpu: u32, task: u32) -> bool {
        let t = &mut self.tasks[task as usize];
        if t.children == 0 {
            return true;
        }
        t.joins = true;
        self.blocks(cpu, task, Then::ToUser);
        false
    }
}
