//! Tasks that follow the steps of a trace.
//!
//! What a task ran in the trace has the costs of its machine in it: those of system calls, of waking others, of interrupts.
//! So a step costs nothing here beside its time, except for the switch, which the machine of the replay makes anew.

use super::{IDLE, Load, Mode, Segment, World};
use crate::program::{MarkId, Preemption};
use crate::stats::{ReplayStats, SwitchOut};
use holdup_model::{Replay, ReplayStep, SparseHistogram, TaskBegin};
use std::collections::{BTreeMap, VecDeque};
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
    /// By task: those that have something to do once it waits.
    behind: Vec<Vec<u32>>,
    /// By task: whether it does nothing until then.
    stands: Vec<bool>,
    /// By task: what it does later, by the task that is not ready for it.
    later: Vec<BTreeMap<u32, VecDeque<Later>>>,
    /// By task: where what it does later ends, and where it continues then.
    back: Vec<Option<(u32, u32)>>,
}

/// Steps of a task for another one.
#[derive(Debug, Clone, Copy)]
struct Later {
    begin: u32,
    end: u32,
    may_lead: bool,
}

impl Followers {
    /// True if a task waits for a wake-up, or needs none any more; with `may_lead` also whether it has none that it has not waited for.
    fn is_ready(&self, task: usize, may_lead: bool) -> bool {
        self.waits[task]
            || may_lead && self.posts[task] == 0
            || self.next[task] as usize >= self.replay.tasks[task].steps.len()
    }

    /// The next step of a task, at the end of its part for another one the first that it had put off and can do now.
    fn next_step(&mut self, task: usize) -> Option<ReplayStep> {
        if let Some((_, back)) = self.back[task].take_if(|(end, _)| *end == self.next[task]) {
            self.next[task] = back;
        }
        let steps = &self.replay.tasks[task].steps;
        let mut step = steps.get(self.next[task] as usize).copied();
        let is_between = matches!(step, None | Some(ReplayStep::For { .. } | ReplayStep::Wait | ReplayStep::Sleep(_)));
        if is_between && let Some(Later { begin, end, .. }) = self.take_later(task) {
            self.back[task] = Some((end, self.next[task]));
            self.next[task] = begin;
            step = self.replay.tasks[task].steps.get(begin as usize).copied();
        }
        if step.is_some() {
            self.next[task] += 1;
        }
        step
    }

    /// What a task has put off: for each other one the first.
    fn firsts(&self, task: usize) -> impl Iterator<Item = (u32, Later)> {
        self.later[task].iter().filter_map(|(other, parts)| Some((*other, *parts.front()?)))
    }

    /// The first of what a task has put off that another one is ready for.
    fn take_later(&mut self, task: usize) -> Option<Later> {
        let ready = self.firsts(task).filter(|(other, first)| self.is_ready(*other as usize, first.may_lead));
        let (other, first) = ready.min_by_key(|(_, first)| first.begin)?;
        let parts = self.later[task].get_mut(&other)?;
        parts.pop_front();
        if parts.is_empty() {
            self.later[task].remove(&other);
        }
        Some(first)
    }
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
            stands: vec![false; count],
            later: vec![BTreeMap::new(); count],
            back: vec![None; count],
        }));
    }

    /// True if tasks follow a trace.
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
            let Some(step) = self.next_step(task) else {
                if let Some(other) = self.is_behind(task) {
                    return self.stands_behind(cpu, task, other);
                }
                return self.ends_replay(cpu, task);
            };
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
                    if self.is_busy(task, other, false) {
                        self.goes_back(task);
                        return self.stands_behind(cpu, task, other);
                    }
                    self.posts(cpu, other);
                    if self.leaves_after_wakeup(cpu, task) {
                        return;
                    }
                }
                ReplayStep::For { task: other, steps, may_lead } => {
                    if self.is_busy(task, other, may_lead) {
                        self.does_later(task, other, steps, may_lead);
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
                        return self.waits(cpu, task);
                    }
                    *posts -= 1;
                    if *posts == 0 {
                        self.lets_go_on(cpu, task, false);
                    }
                    self.counts_phase(task);
                }
            }
        }
    }

    fn next_step(&mut self, task: u32) -> Option<ReplayStep> {
        self.followers.as_mut()?.next_step(task as usize)
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

    /// True if another task is not ready for a wake-up, and does not wait for this task either.
    fn is_busy(&self, task: u32, other: u32, may_lead: bool) -> bool {
        let Some(followers) = &self.followers else { return false };
        !(followers.is_ready(other as usize, may_lead) || followers.behind[task as usize].contains(&other))
    }

    /// The other task for which this one has something left to do.
    fn is_behind(&self, task: u32) -> Option<u32> {
        let firsts = self.followers.as_ref()?.firsts(task as usize);
        firsts.min_by_key(|(_, first)| first.begin).map(|(other, _)| other)
    }

    /// The next steps come once the other task is ready for them.
    fn does_later(&mut self, task: u32, other: u32, steps: u16, may_lead: bool) {
        let Some(followers) = &mut self.followers else { return };
        let begin = followers.next[task as usize];
        let end = begin + u32::from(steps);
        followers.later[task as usize].entry(other).or_default().push_back(Later { begin, end, may_lead });
        followers.next[task as usize] = end;
    }

    fn goes_back(&mut self, task: u32) {
        if let Some(followers) = &mut self.followers {
            followers.next[task as usize] -= 1;
        }
    }

    /// The running task does nothing until another one waits.
    fn stands_behind(&mut self, cpu: u32, task: u32, other: u32) {
        if let Some(followers) = &mut self.followers {
            followers.stands[task as usize] = true;
            followers.behind[other as usize].push(task);
        }
        self.pauses(cpu, task);
    }

    /// The running task waits for a wake-up, or for one of those for which it has something to do.
    fn waits(&mut self, cpu: u32, task: u32) {
        let Some(followers) = &mut self.followers else { return };
        followers.waits[task as usize] = true;
        for other in followers.later[task as usize].keys() {
            let behind = &mut followers.behind[*other as usize];
            if !behind.contains(&task) {
                behind.push(task);
            }
        }
        self.lets_go_on(cpu, task, true);
        self.pauses(cpu, task);
    }

    /// Wakes up those that have something to do now that this task waits, or no wake-up is left that it has not waited for.
    fn lets_go_on(&mut self, cpu: u32, task: u32, waits: bool) {
        let Some(followers) = &mut self.followers else { return };
        for other in std::mem::take(&mut followers.behind[task as usize]) {
            let Some(followers) = &mut self.followers else { return };
            let place = other as usize;
            let stands = &mut followers.stands[place];
            let first = followers.later[place].get(&task).and_then(VecDeque::front);
            if *stands && waits {
                *stands = false;
            } else if !*stands && first.is_some_and(|first| waits || first.may_lead) {
                if !std::mem::take(&mut followers.waits[place]) {
                    continue;
                }
                // It waits again after that.
                followers.next[place] -= 1;
            } else {
                if !waits {
                    followers.behind[task as usize].push(other);
                }
                continue;
            }
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
        let mut next = steps[followers.next[task as usize] as usize..].iter();
        let next = next.find(|step| !matches!(step, ReplayStep::For { .. }));
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
        self.lets_go_on(cpu, task, true);
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
