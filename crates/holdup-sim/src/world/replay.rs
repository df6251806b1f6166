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
    /// By task: those that wait until it does.
    behind: Vec<Vec<u32>>,
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
        self.seen.replay = Some(Box::new(ReplayStats {
            waits: vec![SparseHistogram::new(); count],
            is_past_end: false,
            left: count as u32,
            ended_ns: 0,
        }));
        self.followers = Some(Box::new(Followers {
            replay: replay.clone(),
            next: vec![0; count],
            posts: vec![0; count],
            waits,
            behind: vec![Vec::new(); count],
        }));
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
                ReplayStep::WakeAsleep(other) => {
                    if self.has_to_wait_behind(task, other) {
                        return self.waits_behind(cpu, task, other);
                    }
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
                        self.lets_go_on(cpu, task);
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

    /// Whether another task neither waits for a wake-up, nor for this task, nor has ended.
    fn has_to_wait_behind(&self, task: u32, other: u32) -> bool {
        let Some(Followers { replay, next, waits, behind, .. }) = self.followers.as_deref() else { return false };
        let has_ended = next[other as usize] as usize >= replay.tasks[other as usize].steps.len();
        !(waits[other as usize] || has_ended || behind[task as usize].contains(&other))
    }

    /// The running task waits until another one waits for it, and then does the same step again.
    fn waits_behind(&mut self, cpu: u32, task: u32, other: u32) {
        if let Some(followers) = &mut self.followers {
            followers.next[task as usize] -= 1;
            followers.behind[other as usize].push(task);
        }
        self.pauses(cpu, task);
    }

    /// Wakes up those that wait until this task waits.
    fn lets_go_on(&mut self, cpu: u32, task: u32) {
        let Some(followers) = &mut self.followers else { return };
        for other in std::mem::take(&mut followers.behind[task as usize]) {
            self.wake(other, Some(cpu));
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
        let is_cut = self.followers.as_ref().is_some_and(|followers| followers.replay.tasks[task as usize].is_cut);
        if let Some(replay) = &mut self.seen.replay {
            replay.left -= 1;
            replay.is_past_end |= is_cut;
            replay.ended_ns = self.now;
        }
        self.lets_go_on(cpu, task);
        self.ends(cpu, task);
    }

    /// An interrupt wakes a task that follows a trace. The time that it takes is part of what its CPU ran in the trace.
    pub(super) fn wakes_follower(&mut self, task: u32) {
        let cpu = self.tasks[task as usize].cpu;
        let interrupted = self.cpus[cpu as usize].current;
        if interrupted != IDLE {
            let ns = self.machine.costs.interrupt_ns;
            self.stop(cpu);
            let left = &mut self.tasks[interrupted as usize].segment.left;
            *left = left.saturating_sub(ns);
            self.take_time(cpu, ns);
        }
        self.wake(task, None);
        if interrupted != IDLE && self.cpus[cpu as usize].current != IDLE {
            self.interrupt_returns(cpu);
        }
    }
}
