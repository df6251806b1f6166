//! Tasks that follow the steps of a trace.
//!
//! What a task ran in the trace has the costs of its machine in it: those of system calls, of waking others, of interrupts.
//! So a step costs nothing here beside its time, except for the switch, which the machine of the replay makes anew.

use super::{IDLE, Load, Mode, Segment, World};
use crate::program::{MarkId, Preemption};
use crate::stats::{ReplayStats, SwitchOut};
use holdup_model::{Replay, ReplayStep, SparseHistogram, TaskBegin};
use std::sync::Arc;

/// The mark that counts what tasks ran between two sleeps.
pub(crate) const PHASES: MarkId = 0;

/// How far the tasks of a trace have come.
#[derive(Debug)]
pub(super) struct Followers {
    replay: Arc<Replay>,
    /// By task: its next step.
    next: Vec<u32>,
    /// By task: wake-ups that it has not waited for yet.
    posts: Vec<u32>,
    /// By task: whether it waits for one.
    waits: Vec<bool>,
}

impl World {
    /// The tasks of a trace begin as it says.
    pub(super) fn begin_replay(&mut self, load: &Load) {
        let Some(replay) = &load.replay else { return };
        let count = replay.tasks.len();
        let cpus = self.cpus.len() as u32;
        for (number, task) in replay.tasks.iter().enumerate() {
            let slot = self.timer_slot(number as u32);
            match task.begin {
                TaskBegin::At(ns) => self.agenda.set(slot, ns),
                TaskBegin::Woken => self.agenda.clear(slot),
            }
            let t = &mut self.tasks[number];
            (t.cpu, t.is_new) = (task.cpu % cpus, task.is_new);
        }
        let waits = replay.tasks.iter().map(|task| task.begin == TaskBegin::Woken).collect();
        self.seen.replay =
            Some(Box::new(ReplayStats { waits: vec![SparseHistogram::new(); count], left: count as u32, ended_ns: 0 }));
        self.followers =
            Some(Box::new(Followers { replay: replay.clone(), next: vec![0; count], posts: vec![0; count], waits }));
    }

    /// Whether tasks follow a trace.
    pub(super) fn follows_trace(&self) -> bool {
        self.followers.is_some()
    }

    /// When the last task of a trace ended, ns; `None` while one of them has not, or where there is no trace.
    pub fn replayed_until_ns(&self) -> Option<u64> {
        self.seen.replay.as_ref().filter(|replay| replay.left == 0).map(|replay| replay.ended_ns)
    }

    /// The running task follows its steps until one takes time.
    pub(super) fn follows(&mut self, cpu: u32, task: u32) {
        loop {
            let Some(step) = self.next_step(task) else { return self.ends_replay(cpu, task) };
            match step {
                ReplayStep::Run { ns, switches, in_kernel } => {
                    let left = ns.saturating_sub(u64::from(switches) * self.machine.costs.switch_ns);
                    let mode = if in_kernel { Mode::Kernel } else { Mode::User };
                    let segment = Segment { left, mode, preemption: Preemption::On, ..Segment::default() };
                    return self.begin(cpu, task, segment);
                }
                ReplayStep::Return => {
                    if self.leaves_at_boundary(cpu, task) {
                        return;
                    }
                }
                ReplayStep::Wake(other) => {
                    self.posts(cpu, other);
                    if self.leaves_after_wakeup(cpu, task) {
                        return;
                    }
                }
                ReplayStep::Sleep(ns) => {
                    self.agenda.set(self.timer_slot(task), self.now + ns);
                    return self.pauses(cpu, task);
                }
                ReplayStep::Wait => {
                    let Some(followers) = &mut self.followers else { return };
                    let posts = &mut followers.posts[task as usize];
                    if *posts == 0 {
                        followers.waits[task as usize] = true;
                        return self.pauses(cpu, task);
                    }
                    *posts -= 1;
                    self.counts_phase(task);
                }
            }
        }
    }

    fn next_step(&mut self, task: u32) -> Option<ReplayStep> {
        let followers = self.followers.as_mut()?;
        let next = &mut followers.next[task as usize];
        let step = *followers.replay.tasks[task as usize].steps.get(*next as usize)?;
        *next += 1;
        Some(step)
    }

    /// Wakes a task up, or lets it not wait the next time.
    fn posts(&mut self, cpu: u32, task: u32) {
        let Some(followers) = &mut self.followers else { return };
        if std::mem::take(&mut followers.waits[task as usize]) {
            self.wake(task, Some(cpu));
        } else {
            followers.posts[task as usize] += 1;
        }
    }

    fn leaves_at_boundary(&mut self, cpu: u32, task: u32) -> bool {
        let c = &self.cpus[cpu as usize];
        let leaves = c.need || c.lazy && !self.tasks[task as usize].is_kernel;
        if leaves {
            self.then_user(task);
            self.schedule(cpu, SwitchOut::AtBoundary);
        }
        leaves
    }

    /// Where the trace does not show system calls, a task that wakes another one returns from the kernel next.
    fn leaves_after_wakeup(&mut self, cpu: u32, task: u32) -> bool {
        let Some(followers) = &self.followers else { return false };
        let steps = &followers.replay.tasks[task as usize].steps;
        let next = steps.get(followers.next[task as usize] as usize);
        let stays = matches!(next, Some(ReplayStep::Run { in_kernel: true, .. } | ReplayStep::Return));
        if !stays {
            // What sleeps next does so in the kernel.
            let sleeps = matches!(next, None | Some(ReplayStep::Sleep(_) | ReplayStep::Wait));
            return !sleeps && self.leaves_at_boundary(cpu, task);
        }
        let leaves = self.cpus[cpu as usize].need && self.machine.kernel.preempt.preempts_kernel;
        if leaves {
            self.then_user(task);
            self.schedule(cpu, SwitchOut::InKernel);
        }
        leaves
    }

    /// The task leaves its CPU, and continues with its next step when it is woken.
    fn pauses(&mut self, cpu: u32, task: u32) {
        self.counts_phase(task);
        self.then_user(task);
        self.schedule(cpu, SwitchOut::Blocked);
    }

    fn counts_phase(&mut self, task: u32) {
        self.seen.marks[PHASES as usize].count += 1;
        self.seen.by_task[task as usize] += 1;
    }

    fn ends_replay(&mut self, cpu: u32, task: u32) {
        self.counts_phase(task);
        if let Some(replay) = &mut self.seen.replay {
            replay.left -= 1;
            replay.ended_ns = self.now;
        }
        self.ends(cpu, task);
    }

    /// An interrupt that takes no time, because that is part of what its CPU ran in the trace, wakes a task that follows one.
    pub(super) fn wakes_follower(&mut self, task: u32) {
        let cpu = self.tasks[task as usize].cpu;
        let is_busy = self.cpus[cpu as usize].current != IDLE;
        self.wake(task, None);
        if is_busy && self.cpus[cpu as usize].current != IDLE {
            self.interrupt_returns(cpu);
        }
    }
}
