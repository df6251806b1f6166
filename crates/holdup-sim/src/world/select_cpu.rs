//! Where tasks run when they wake up or begin: `select_task_rq_fair()` (kernel/sched/fair.c, v6.18).

use super::task::State;
use super::{IDLE, World};

impl World {
    /// `try_to_wake_up()`. `here` is the CPU that wakes it; `None` when an interrupt on the task's own CPU does.
    pub(crate) fn wake(&mut self, task: u32, here: Option<u32>) {
        let now = self.now;
        let t = &mut self.tasks[task as usize];
        debug_assert_eq!(t.state, State::Blocked);
        t.state = State::Runnable;
        t.runnable_since = now;
        self.seen.wakeups += 1;
        let (is_new, waker) = (t.is_new, here);
        let previous = t.cpu;
        if self.recorder.is_some() {
            self.records_wakeup(task, here);
        }
        let is_fair = self.priority(task).is_none();
        let is_delayed = is_fair && self.fair.is_delayed(task);
        let pinned = self.tasks[task as usize].pinned;
        let cpu = if is_delayed {
            previous
        } else if pinned != u32::MAX {
            pinned
        } else if is_new {
            self.idlest(previous)
        } else if is_fair {
            self.place(task, here.unwrap_or(previous))
        } else {
            self.place_rt(task, previous)
        };
        if is_new {
            let t = &mut self.tasks[task as usize];
            (t.is_new, t.cpu) = (false, cpu);
        }
        self.move_to(task, cpu);
        let is_idle = self.cpus[cpu as usize].current == IDLE;
        let asks = !is_idle && self.account(cpu);
        let here = here.or(Some(previous).filter(|p| *p == cpu));
        if asks {
            self.resched_lazily(cpu, here);
        }
        self.enqueue(cpu, task, is_new);
        self.mark(cpu);
        if is_idle {
            self.resched(cpu, None);
        } else {
            self.preempts(cpu, task, here);
        }
        if self.trace.is_some() {
            self.trace_wakeup(cpu, task, waker, is_new);
        }
    }

    /// The CPU of a fair task that wakes up: near its last one or near its waker, where there is room.
    fn place(&mut self, task: u32, here: u32) -> u32 {
        let previous = self.tasks[task as usize].cpu;
        self.record_wakee(here, task);
        let target =
            if here != previous && !self.wakes_wide(here, task) { self.wake_affine(here, previous) } else { previous };
        self.idle_sibling(previous, target)
    }

    /// `record_wakee()`: how often a task wakes up another one than the last time.
    fn record_wakee(&mut self, here: u32, wakee: u32) {
        let current = self.cpus[here as usize].current;
        if current == IDLE {
            return;
        }
        let now = self.now;
        let waker = &mut self.tasks[current as usize];
        if now > waker.flips_since + DECAY_NS {
            waker.flips /= 2;
            waker.flips_since = now;
        }
        if waker.last_wakee != wakee {
            waker.last_wakee = wakee;
            waker.flips = waker.flips.saturating_add(1);
        }
    }

    /// `wake_wide()`: whether a waker has too many wakees to pull all of them to its CPU.
    fn wakes_wide(&self, here: u32, task: u32) -> bool {
        let current = self.cpus[here as usize].current;
        if current == IDLE {
            return false;
        }
        let (a, b) = (self.tasks[current as usize].flips, self.tasks[task as usize].flips);
        let (master, slave) = (u64::from(a.max(b)), u64::from(a.min(b)));
        let factor = u64::from(self.machine.topology.cpus_of_llc());
        slave >= factor && master >= slave * factor
    }

    /// `wake_affine()`: the waker's CPU or the last one.
    fn wake_affine(&self, here: u32, previous: u32) -> u32 {
        let shares = self.machine.topology.llc_of(here) == self.machine.topology.llc_of(previous);
        // `wake_affine_idle()`
        if self.is_idle(here) && shares {
            return if self.is_idle(previous) { previous } else { here };
        }
        if self.is_idle(previous) {
            return previous;
        }
        // `wake_affine_weight()`, with tasks for loads: the waker's CPU with one more against the last one, which may be
        // heavier by half of what its domain tolerates.
        let (mine, theirs) = (u64::from(self.counts.of(here)) + 1, u64::from(self.counts.of(previous)));
        if mine * 100 < theirs * (100 + (IMBALANCE_PERCENT - 100) / 2) { here } else { previous }
    }

    /// `select_idle_sibling()`.
    fn idle_sibling(&mut self, previous: u32, target: u32) -> u32 {
        if self.is_idle(target) {
            return target;
        }
        let topology = self.machine.topology;
        let shares = topology.llc_of(previous) == topology.llc_of(target);
        if shares && self.is_idle(previous) {
            return previous;
        }
        let llc = self.span(Level::Llc, target);
        if topology.smt > 1 {
            let cores = (llc.0 / topology.smt, llc.1 / topology.smt);
            if let Some(core) = self.idle_cores.round(cores, target / topology.smt) {
                return core * topology.smt;
            }
            // `select_idle_smt()`
            if shares && let Some(cpu) = self.idle.round(self.span(Level::Smt, previous), previous) {
                return cpu;
            }
        }
        self.idle.round(llc, target + 1).unwrap_or(target)
    }

    /// `sched_balance_find_dst_cpu()`: where a new task begins: the node with the fewest tasks, there the last level
    /// cache, there an idle core, an idle CPU or the CPU with the fewest tasks. The near one wins where all is equal.
    pub(crate) fn idlest(&mut self, here: u32) -> u32 {
        let mut span = (0, self.cpus.len() as u32);
        for level in [Level::Node, Level::Llc] {
            let mut best = self.span(level, here.clamp(span.0, span.1 - 1));
            let mut tasks = self.counts.sum(best);
            let size = best.1 - best.0;
            let mut begin = span.0;
            while begin < span.1 {
                let other = (begin, begin + size);
                let sum = self.counts.sum(other);
                if sum < tasks {
                    (best, tasks) = (other, sum);
                }
                begin += size;
            }
            span = best;
        }
        let smt = self.machine.topology.smt;
        let from = here.clamp(span.0, span.1 - 1);
        if let Some(core) = self.idle_cores.round((span.0 / smt, span.1 / smt), from / smt) {
            return core * smt;
        }
        self.idle.round(span, from).unwrap_or_else(|| self.counts.least(span).0)
    }

    /// `select_task_rq_rt()`: the last CPU unless a task runs there that it cannot preempt.
    fn place_rt(&mut self, task: u32, previous: u32) -> u32 {
        match self.running_priority(previous) {
            Some(old) if self.priority(task).is_some_and(|new| new <= old) => {
                self.idle_anywhere(previous).or_else(|| self.without_rt(previous)).unwrap_or(previous)
            }
            _ => previous,
        }
    }

    /// True if a CPU is idle and no task is on its way to it.
    pub(crate) fn is_idle(&self, cpu: u32) -> bool {
        self.idle.has(cpu)
    }

    /// An idle CPU, from `cpu` on.
    pub(crate) fn idle_anywhere(&self, cpu: u32) -> Option<u32> {
        self.idle.round((0, self.cpus.len() as u32), cpu)
    }

    pub(crate) fn set_idle(&mut self, cpu: u32, is: bool) {
        if self.idle.has(cpu) == is {
            return;
        }
        self.idle.set(cpu, is);
        let smt = self.machine.topology.smt;
        let core = cpu / smt;
        let whole = is && (core * smt..(core + 1) * smt).all(|thread| self.idle.has(thread));
        self.idle_cores.set(core, whole);
    }

    /// Keeps how many tasks a CPU has, and whether one waits there.
    pub(crate) fn mark(&mut self, cpu: u32) {
        let tasks = self.tasks_of(cpu);
        if !self.counts.set(cpu, tasks) {
            return;
        }
        self.crowded.set(cpu, tasks > 1);
        if tasks > 0 {
            // A task is on its way: no other is sent here.
            self.set_idle(cpu, false);
        }
    }

    /// The CPUs that a CPU shares something with, as a range.
    pub(crate) fn span(&self, level: Level, cpu: u32) -> (u32, u32) {
        let topology = self.machine.topology;
        let size = match level {
            Level::Cpu => 1,
            Level::Smt => topology.smt,
            Level::Llc => topology.cpus_of_llc(),
            Level::Node => topology.cpus_of_node(),
            Level::Machine => topology.cpus(),
        };
        let begin = cpu / size * size;
        (begin, begin + size)
    }
}

/// Scheduling domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Cpu,
    Smt,
    Llc,
    Node,
    Machine,
}

/// `imbalance_pct` of most domains (`sd_init()`, kernel/sched/topology.c, v6.18).
pub(crate) const IMBALANCE_PERCENT: u64 = 117;
/// After this time the flips of a waker are halved, ns.
const DECAY_NS: u64 = 1_000_000_000;
