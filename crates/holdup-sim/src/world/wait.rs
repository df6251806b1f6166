//! Locks: what a task that wants one does until it has it. What algorithms differ in is theirs (`crate::locks`).

use super::{Mode, Segment, Then, World};
use crate::locks::{FREE, Lock};
use crate::program::Inside;

impl World {
    pub(crate) fn lock(&mut self, lock: u32) -> &mut Lock {
        &mut self.locks[lock as usize]
    }

    /// A task wants a lock. Whether it has it at once.
    pub(crate) fn want(&mut self, cpu: u32, task: u32, lock: u32) -> bool {
        self.tasks[task as usize].waiting.since = self.now;
        if self.locks[lock as usize].may_take() {
            self.take(cpu, task, lock);
            return true;
        }
        let t = &mut self.tasks[task as usize];
        t.waiting.lock = lock;
        (t.waiting.step, t.waiting.slept) = (0, false);
        self.seen.locks[lock as usize].contended += 1;
        let algorithm = self.locks[lock as usize].algorithm;
        algorithm.waits(self, cpu, task, lock);
        false
    }

    /// A task on its CPU has the lock now.
    pub(crate) fn take(&mut self, cpu: u32, task: u32, lock: u32) {
        let from = self.locks[lock as usize].last_cpu;
        let ns = self.machine.costs.atomic_ns + self.transfer_ns(from, cpu);
        let l = &mut self.locks[lock as usize];
        debug_assert!(l.holder == FREE || l.holder == task, "two holders");
        l.holder = task;
        l.last_cpu = cpu;
        let seen = &mut self.seen.locks[lock as usize];
        seen.acquisitions += 1;
        let t = &mut self.tasks[task as usize];
        t.held += 1;
        t.last_lock = lock;
        t.extra_ns += ns;
        if t.waiting.lock == lock {
            seen.waits.record_ns(self.now - t.waiting.since);
            t.waiting.lock = u32::MAX;
        }
    }

    /// A waiter that spun has the lock, and its program goes on.
    pub(crate) fn goes_on(&mut self, cpu: u32, task: u32) {
        self.then_user(task);
        self.next(cpu, task);
    }

    /// A waiter that spins goes on with it, for so long or until something ends it.
    pub(crate) fn spins_on(&mut self, cpu: u32, task: u32, ns: u64) {
        self.tasks[task as usize].segment.left = ns;
        self.arm(cpu);
    }

    /// A task gives a lock back. Whether its program goes on at once.
    pub(crate) fn give_back(&mut self, cpu: u32, task: u32, lock: u32) -> bool {
        let t = &mut self.tasks[task as usize];
        t.held -= 1;
        t.extra_ns += self.machine.costs.atomic_ns;
        let l = &mut self.locks[lock as usize];
        debug_assert_eq!(l.holder, task);
        l.holder = FREE;
        l.last_cpu = cpu;
        let algorithm = l.algorithm;
        algorithm.released(self, cpu, task, lock)
    }

    /// What a waiter has done is over.
    pub(crate) fn lock_says(&mut self, cpu: u32, task: u32) {
        let lock = self.tasks[task as usize].waiting.lock;
        let algorithm = self.locks[lock as usize].algorithm;
        algorithm.over(self, cpu, task, lock);
    }

    /// A waiter spins, for so long or until something ends it.
    pub(crate) fn spin(&mut self, cpu: u32, task: u32, lock: u32, ns: u64) {
        self.locks[lock as usize].spinners.push(task);
        let segment = Segment { left: ns, done: 0, mode: Mode::Spin, inside: Inside::On, then: Then::Lock };
        self.begin(cpu, task, segment);
    }

    /// A waiter spins no longer.
    pub(crate) fn no_longer_spins(&mut self, task: u32, lock: u32) {
        let spinners = &mut self.locks[lock as usize].spinners;
        if let Some(place) = spinners.iter().position(|t| *t == task) {
            spinners.remove(place);
        }
    }

    /// A waiter that spins sees something after so long.
    pub(crate) fn sees_after(&mut self, task: u32, ns: u64) {
        let cpu = self.tasks[task as usize].cpu;
        self.stop(cpu);
        let from = self.cpus[cpu as usize].busy_from.max(self.now) - self.now;
        let segment = &mut self.tasks[task as usize].segment;
        segment.left = ns.saturating_sub(from).min(segment.left);
        self.arm(cpu);
    }

    /// A spinning waiter was taken off its CPU.
    pub(crate) fn spinner_left(&mut self, cpu: u32, task: u32) {
        let lock = self.tasks[task as usize].waiting.lock;
        let algorithm = self.locks[lock as usize].algorithm;
        algorithm.switched_out(self, cpu, task, lock);
    }

    /// A spinning waiter has a CPU again.
    pub(crate) fn spinner_came(&mut self, cpu: u32, task: u32) {
        let lock = self.tasks[task as usize].waiting.lock;
        let algorithm = self.locks[lock as usize].algorithm;
        algorithm.switched_in(self, cpu, task, lock);
    }
}
