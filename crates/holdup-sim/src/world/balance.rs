//! Tasks that are pulled to CPUs with less to do: `sched_balance_newidle()` and `sched_balance_domains()`
//! (kernel/sched/fair.c, v6.18).
//!
//! A CPU searches its domains from the smallest to the largest. The busiest CPU of a domain is found on a tree of
//! counts; a task counts as much as any other. Cache-hot tasks stay, unless earlier tries at the same domain
//! found nothing else.

use super::select_cpu::{IMBALANCE_PERCENT, Level};
use super::{IDLE, World};

/// The domains that are balanced, smallest first.
const LEVELS: [Level; 4] = [Level::Smt, Level::Llc, Level::Node, Level::Machine];
/// What a domain is made of.
const GROUPS: [Level; 4] = [Level::Cpu, Level::Smt, Level::Llc, Level::Node];
/// `cache_nice_tries`: after this number of failures cache-hot tasks are moved as well.
const TRIES: [u8; 4] = [0, 1, 1, 2];
/// `busy_factor`: a busy CPU balances less often.
const BUSY_FACTOR: u64 = 16;
/// CPUs that one try considers beside the busiest.
const OTHERS: u32 = 3;

impl World {
    /// The end of a time without work: `update_avg()` of `avg_idle`.
    pub(crate) fn was_idle(&mut self, cpu: u32, ns: u64) {
        let most = 2 * self.machine.kernel.migration_cost_ns;
        let average = &mut self.cpus[cpu as usize].average_idle_ns;
        *average = (*average - *average / 8 + ns / 8).min(most);
    }

    /// A CPU without a task looks for one elsewhere. Whether it got one.
    pub(crate) fn pull(&mut self, cpu: u32) -> bool {
        let kicked = std::mem::take(&mut self.cpus[cpu as usize].kicked);
        // After short idle times the search costs more than what it finds.
        if !kicked && self.cpus[cpu as usize].average_idle_ns < self.machine.kernel.migration_cost_ns {
            return false;
        }
        (0..LEVELS.len()).any(|number| self.pull_in(cpu, number, 1, kicked) > 0)
    }

    /// Moves tasks of a domain to a CPU, at most `most`; how many moved.
    fn pull_in(&mut self, cpu: u32, number: usize, most: u32, periodic: bool) -> u32 {
        let span = self.span(LEVELS[number], cpu);
        if span.1 - span.0 <= 1 || (number > 0 && span == self.span(LEVELS[number - 1], cpu)) {
            return 0;
        }
        if self.crowded.first(span.0, span.1).is_none() {
            return 0;
        }
        // Threads of a core share their caches: nothing is hot between them.
        let tries = self.cpus[cpu as usize].failed[number];
        let takes_hot = number == 0 || tries > TRIES[number];
        let (busiest, tasks) = self.counts.greatest(span);
        let mut moved = 0;
        if tasks > 1 && busiest != cpu {
            moved = self.pull_from(cpu, busiest, most, takes_hot);
        }
        let mut from = cpu + 1;
        for _ in 0..OTHERS {
            if moved > 0 {
                break;
            }
            let Some(other) = self.crowded.round(span, from) else { break };
            from = other + 1;
            if other != cpu && other != busiest {
                moved = self.pull_from(cpu, other, most, takes_hot);
            }
        }
        if periodic {
            let failed = &mut self.cpus[cpu as usize].failed[number];
            *failed = if moved > 0 { 0 } else { failed.saturating_add(1) };
        }
        moved
    }

    /// `detach_tasks()`: moves at most `most` waiting tasks of one CPU to another; considers `nr_migrate` of them.
    fn pull_from(&mut self, cpu: u32, busy: u32, most: u32, takes_hot: bool) -> u32 {
        let cost_ns = self.machine.kernel.migration_cost_ns;
        let (now, limit) = (self.now, self.machine.kernel.nr_migrate);
        if limit == 0 {
            return 0;
        }
        let tasks = &self.tasks;
        let mut found: Vec<u32> = Vec::new();
        let mut looked = 0;
        self.fair.waiting(busy, &mut |task| {
            let t = &tasks[task as usize];
            looked += 1;
            // `task_hot()`
            let is_hot = !takes_hot && now - t.last_ran.min(now) < cost_ns;
            if t.pinned == u32::MAX && !is_hot {
                found.push(task);
            }
            (found.len() as u32) < most && looked < limit
        });
        if found.is_empty() {
            return 0;
        }
        if self.cpus[busy as usize].current != IDLE && self.account(busy) {
            self.resched_lazily(busy, Some(cpu));
        }
        for task in &found {
            self.fair.dequeue_task(*task, false);
            self.fair.enqueue(cpu, *task, false);
            self.move_to(*task, cpu);
        }
        self.mark(busy);
        self.mark(cpu);
        found.len() as u32
    }

    /// `sched_balance_trigger()` at the tick of a busy CPU.
    pub(crate) fn balance(&mut self, cpu: u32) {
        if self.crowded.first(0, self.cpus.len() as u32).is_none() {
            return;
        }
        self.kick(cpu);
        for number in 0..LEVELS.len() {
            let span = self.span(LEVELS[number], cpu);
            let group = self.span(GROUPS[number], cpu);
            if self.now < self.cpus[cpu as usize].next_balance[number] || span == group {
                continue;
            }
            // `get_sd_balance_interval()`: as many ms as the domain has CPUs, longer for a busy CPU.
            let interval_ns = u64::from(span.1 - span.0) * 1_000_000 * BUSY_FACTOR;
            self.cpus[cpu as usize].next_balance[number] = self.now + interval_ns;
            // `should_we_balance()`: the first CPU of a group does it for all of them.
            if group.0 == cpu {
                self.balance_in(cpu, number, span, group);
            }
        }
    }

    /// `sched_balance_rq()` of a busy CPU: half of the difference to the busiest CPU, where that one's group has more
    /// tasks for each CPU than the domain tolerates.
    fn balance_in(&mut self, cpu: u32, number: usize, span: (u32, u32), group: (u32, u32)) {
        let (busiest, tasks) = self.counts.greatest(span);
        let theirs = self.span(GROUPS[number], busiest);
        let (mine, others) = (u64::from(self.counts.sum(group)), u64::from(self.counts.sum(theirs)));
        let own = self.counts.of(cpu);
        if theirs == group || tasks < own + 2 || others * 100 <= mine * IMBALANCE_PERCENT {
            return;
        }
        let moved = self.pull_in(cpu, number, (tasks - own) / 2, true);
        if moved > 0 {
            self.arm_hrtick(cpu);
        }
    }

    /// `nohz_balancer_kick()`: a CPU on which tasks wait wakes up an idle one, whose tick does not run.
    fn kick(&mut self, cpu: u32) {
        if self.counts.of(cpu) < 2 {
            return;
        }
        let near = |level: Level| self.idle.round(self.span(level, cpu), cpu);
        let Some(idle) = near(Level::Llc).or_else(|| near(Level::Node)).or_else(|| near(Level::Machine)) else {
            return;
        };
        self.cpus[idle as usize].kicked = true;
        self.send(idle);
    }
}
