//! Where tasks run: wake-ups and the pull of an idle CPU.

use super::task::State;
use super::{IDLE, World};
use crate::sched::tree::NIL;

impl World {
    /// `try_to_wake_up()`. `here` is the CPU that wakes it; `None` when an interrupt on the task's own CPU does.
    pub(crate) fn wake(&mut self, task: u32, here: Option<u32>) {
        let now = self.now;
        let t = &mut self.tasks[task as usize];
        debug_assert_eq!(t.state, State::Blocked);
        t.state = State::Runnable;
        t.runnable_since = now;
        self.seen.wakeups += 1;
        let is_new = t.is_new;
        let previous = t.cpu;
        let is_delayed = self.fair.is_delayed(task);
        let cpu = if is_delayed { previous } else { self.place(task, here) };
        self.tasks[task as usize].is_new = false;
        if cpu != previous {
            self.tasks[task as usize].cpu = cpu;
            let program = self.tasks[task as usize].program;
            self.seen.roles[program as usize].migrations += 1;
        }
        let is_idle = self.cpus[cpu as usize].current == IDLE;
        if !is_idle {
            self.account(cpu);
        }
        self.enqueue(cpu, task, is_new);
        self.mark_crowded(cpu);
        if is_idle {
            self.resched(cpu, None);
        } else {
            self.preempts(cpu, task, here.or(Some(previous).filter(|p| *p == cpu)));
        }
    }

    /// `select_task_rq_fair()`: the last CPU when it is idle, an idle one near it, else the last one.
    fn place(&mut self, task: u32, here: Option<u32>) -> u32 {
        let t = &self.tasks[task as usize];
        if t.pinned != u32::MAX {
            return t.pinned;
        }
        if t.is_new {
            return self.least_loaded();
        }
        if self.is_idle(t.cpu) {
            return t.cpu;
        }
        let near = here.unwrap_or(t.cpu);
        let previous = t.cpu;
        self.idle_near(previous).or_else(|| self.idle_near(near)).or_else(|| self.idle_anywhere()).unwrap_or(previous)
    }

    /// Where a new task begins: the CPU with the fewest tasks (`sched_balance_find_dst_group()`, in short).
    fn least_loaded(&self) -> u32 {
        (0..self.cpus.len()).min_by_key(|cpu| self.tasks_of(*cpu as u32)).unwrap_or(0) as u32
    }

    fn is_idle(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].current == IDLE && self.tasks_of(cpu) == 0
    }

    fn idle_near(&self, cpu: u32) -> Option<u32> {
        let llc = self.machine.topology.llc_of(cpu);
        self.first_from(&self.idle[llc as usize], llc, cpu)
    }

    pub(crate) fn idle_anywhere(&self) -> Option<u32> {
        (0..self.idle.len() as u32).find_map(|llc| self.first_from(&self.idle[llc as usize], llc, 0))
    }

    /// The first CPU of a set of the CPUs of a last level cache, from `cpu` on and round.
    fn first_from(&self, set: &[u64], llc: u32, cpu: u32) -> Option<u32> {
        let base = llc * self.machine.topology.cpus_of_llc();
        let from = cpu.saturating_sub(base) as usize;
        let (word, bit) = (from / 64 % set.len(), from % 64);
        let found = |word: usize, bits: u64| (bits != 0).then(|| base + word as u32 * 64 + bits.trailing_zeros());
        if let Some(cpu) = found(word, set[word] & (u64::MAX << bit)) {
            return Some(cpu);
        }
        (1..=set.len()).find_map(|step| found((word + step) % set.len(), set[(word + step) % set.len()]))
    }

    fn mark(set: &mut [Vec<u64>], of_llc: u32, cpu: u32, is: bool) {
        let (llc, place) = (cpu / of_llc, cpu % of_llc);
        let word = &mut set[llc as usize][place as usize / 64];
        let bit = 1 << (place % 64);
        if is { *word |= bit } else { *word &= !bit }
    }

    pub(crate) fn set_idle(&mut self, cpu: u32, is: bool) {
        Self::mark(&mut self.idle, self.machine.topology.cpus_of_llc(), cpu, is);
    }

    /// Keeps whether a task waits on a CPU.
    pub(crate) fn mark_crowded(&mut self, cpu: u32) {
        let waits = self.tasks_of(cpu) > 1;
        Self::mark(&mut self.crowded, self.machine.topology.cpus_of_llc(), cpu, waits);
        if self.tasks_of(cpu) > 0 {
            // A task is on its way: nobody else is sent here.
            self.set_idle(cpu, false);
        }
    }

    /// `sched_balance_newidle()`: pulls one task that waits elsewhere, near CPUs first.
    pub(crate) fn pull(&mut self, cpu: u32) -> bool {
        let topology = self.machine.topology;
        let mine = topology.llc_of(cpu);
        let llcs = self.crowded.len() as u32;
        for step in 0..llcs {
            let llc = (mine + step) % llcs;
            let from = if step == 0 { cpu } else { llc * topology.cpus_of_llc() };
            if let Some(busy) = self.first_from(&self.crowded[llc as usize], llc, from)
                && busy != cpu
                && self.pull_from(cpu, busy)
            {
                return true;
            }
        }
        false
    }

    fn pull_from(&mut self, cpu: u32, busy: u32) -> bool {
        self.account(busy);
        let (now, cost_ns) = (self.now, self.machine.kernel.migration_cost_ns);
        let mut found = NIL;
        let tasks = &self.tasks;
        self.fair.waiting(busy, &mut |task| {
            let t = &tasks[task as usize];
            let is_hot = now - t.last_ran < cost_ns;
            if t.pinned == u32::MAX && !is_hot {
                found = task;
            }
            found == NIL
        });
        if found == NIL {
            return false;
        }
        self.fair.leave(found);
        self.mark_crowded(busy);
        self.enqueue(cpu, found, false);
        let t = &mut self.tasks[found as usize];
        t.cpu = cpu;
        self.seen.roles[t.program as usize].migrations += 1;
        true
    }
}
