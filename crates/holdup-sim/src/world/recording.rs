//! What goes into the machine's record. None of it is reached while nothing is recorded.

use super::{IDLE, Mode, Then, World};
use crate::record::{Activity, BlockedOn, Recorded, RecordedEvent, Recorder};
use crate::stats::SwitchOut;

impl World {
    /// Keeps a record of the window that opens next: `most` entries and, when these are used up, what is under way.
    pub fn record(&mut self, most: usize) {
        self.recorder = Some(Box::new(Recorder::new(most)));
    }

    /// The record, up to now; `None` when nothing was recorded. It is over then.
    pub fn recorded(&mut self) -> Option<Recorded> {
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].current != IDLE {
                self.stop(cpu);
                self.arm(cpu);
            }
        }
        self.recorder.take().map(|recorder| recorder.close(self.now))
    }

    /// The program and the process of a task, as the load numbers them; of a task that ended, those of the task that has its number now.
    pub fn program_and_process(&self, task: u32) -> (u32, u32) {
        let task = &self.tasks[task as usize];
        (task.program, task.process)
    }

    /// The window opens.
    #[cold]
    pub(super) fn record_begins(&mut self) {
        let current = self.cpus.iter().map(|c| Some(c.current).filter(|task| *task != IDLE));
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(self.now, current);
        }
    }

    /// The running task has done a part of its segment.
    #[cold]
    pub(super) fn records_work(&mut self, cpu: u32, from: u64, ns: u64) {
        let task = &self.tasks[self.cpus[cpu as usize].current as usize];
        let doing = match (task.segment.mode, task.segment.then) {
            (Mode::User, _) | (Mode::Kernel, Then::Mapped) => None,
            (Mode::Spin, _) => Some((Activity::Spin, Some(task.waiting.lock))),
            (Mode::Kernel, Then::Lock) => Some((Activity::Kernel, Some(task.waiting.lock))),
            (Mode::Kernel, _) => Some((Activity::Kernel, None)),
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.passed(cpu, (from, ns), doing);
        }
    }

    /// A CPU goes from one task to another.
    #[cold]
    pub(super) fn records_switch(&mut self, cpu: u32, from: u32, to: u32, left: SwitchOut) {
        let some = |task: u32| Some(task).filter(|t| *t != IDLE);
        let (mut waits, mut lock) = (None, None);
        if let Some(from) = some(from) {
            let t = &self.tasks[from as usize];
            waits = (left == SwitchOut::Blocked).then_some(match t.segment.then {
                Then::Sends | Then::Receives => BlockedOn::Message,
                Then::AsksDevice => BlockedOn::Device,
                Then::Flushes | Then::WritesLog => BlockedOn::Log,
                Then::Lock => BlockedOn::Lock,
                _ if t.device != u32::MAX => BlockedOn::Device,
                _ => BlockedOn::Other,
            });
            let wanted = Some(t.waiting.lock).filter(|lock| *lock != u32::MAX);
            lock = if t.held > 0 { Some((t.last_lock, true)) } else { wanted.map(|lock| (lock, false)) };
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.switch(self.now, cpu, RecordedEvent::Switch { from: some(from), to: some(to), left, waits, lock });
        }
    }

    /// A task can run.
    #[cold]
    pub(super) fn records_wakeup(&mut self, task: u32, here: Option<u32>) {
        let by = here.map(|cpu| self.cpus[cpu as usize].current).filter(|by| *by != IDLE);
        let cpu = here.unwrap_or(self.tasks[task as usize].cpu);
        if let Some(recorder) = &mut self.recorder {
            recorder.moment(self.now, cpu, RecordedEvent::Wakeup { task, by });
        }
    }

    /// A task takes a lock (`begins`) or releases it.
    #[cold]
    pub(super) fn records_lock(&mut self, cpu: u32, task: u32, lock: u32, begins: bool) {
        self.records_span(cpu, task, Some(lock), begins, false);
    }

    /// A page fault begins, or its page is mapped.
    #[cold]
    pub(super) fn records_fault(&mut self, cpu: u32, task: u32, begins: bool) {
        let t = &self.tasks[task as usize];
        self.records_span(cpu, task, (t.held > 0).then_some(t.last_lock), begins, true);
    }

    fn records_span(&mut self, cpu: u32, task: u32, lock: Option<u32>, begins: bool, is_fault: bool) {
        if let Some(recorder) = &mut self.recorder {
            match begins {
                true => recorder.opens(self.now, cpu, task, lock, is_fault),
                false => recorder.ends(self.now, task, lock, is_fault),
            }
        }
    }
}
