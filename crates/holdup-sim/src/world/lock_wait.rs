//! What a task does from wanting a lock until it has it, as far as the algorithms (`crate::locks`) have it in common.

use super::{Event, Mode, Segment, Then, World};
use crate::locking::{Lock, NONE};
use crate::stats::SwitchOut;

/// `DEFAULT_SPINS_PER_DELAY` (PostgreSQL src/include/storage/s_lock.h, 15 to 18).
pub(crate) const DEFAULT_SPINS_PER_DELAY: u32 = 100;

/// A store and a load on the holder's own line, which ask the kernel for a longer slice, ns.
const ASKING_NS: u64 = 1;

/// The state of a task that waits for a lock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// The lock whose algorithm is asked next; `u32::MAX` when none is.
    pub(crate) lock: u32,
    /// Since when it is wanted.
    pub(crate) since: u64,
    /// The lock that the program waits for, also while it takes one inside of it; `u32::MAX` for none.
    pub(crate) wanted: u32,
    /// The algorithm's own step and numbers.
    pub(crate) step: u8,
    pub(crate) slept: bool,
    /// True if it is wanted shared.
    pub(crate) is_shared: bool,
    /// True if it waits only until the lock is free, unless it can have it immediately.
    pub(crate) until_free: bool,
    /// True if its semaphore was raised.
    pub(crate) is_posted: bool,
    /// True if it sleeps on it.
    pub(crate) on_semaphore: bool,
    /// True if another task took it from a list to raise its semaphore.
    pub(crate) is_chosen: bool,
    pub(crate) sleeps: u16,
    pub(crate) delay_us: u32,
    /// What its spinners had waited for the line when it counted its turns last, ns.
    pub(crate) stalled_ns: u64,
    /// How long one spell of spinning lasts, ns; `u64::MAX` for one that only something seen ends.
    pub(crate) budget_ns: u64,
    /// The bound of the back-off, turns.
    pub(crate) bound: u32,
    /// Of one that looks: how often it paused since it began, and for how many turns in all.
    pub(crate) looks: u32,
    pub(crate) turns: u32,
    /// The word that it read last, and how many writes its line had seen by then.
    pub(crate) word: u16,
    pub(crate) writes: u32,
    /// True if another task ended its last sleep.
    pub(crate) was_woken: bool,
    /// True if it is one of those that are counted as looking.
    pub(crate) is_counted: bool,
    /// True if it gave up looking, and whether its next atomic operation leaves the mark of a sleeper in any case.
    pub(crate) gave_up: bool,
    pub(crate) must_mark: bool,
    /// From when on it can see that it is served: its place in the queue is taken by then, ns.
    pub(crate) queued_at: u64,
    /// Its place among the lock's spinners; `u32::MAX` when it is not one.
    pub(crate) place: u32,
    /// The lock for whose list the lock inside it is wanted, and the step that follows.
    pub(crate) outer: u32,
    pub(crate) outer_step: u8,
    /// Since when the outer lock is wanted.
    pub(crate) outer_since: u64,
    /// Its number in a list; `u32::MAX` when it is in none.
    pub(crate) number: u32,
    /// The first task that it wakes, and the one that its own waker wakes after it.
    pub(crate) to_wake: u32,
    pub(crate) woken_next: u32,
}

impl Waiting {
    /// A task that waits for no lock.
    pub(crate) fn none() -> Waiting {
        Waiting {
            lock: NONE,
            wanted: NONE,
            place: NONE,
            outer: NONE,
            number: NONE,
            to_wake: NONE,
            woken_next: NONE,
            ..Waiting::default()
        }
    }
}

/// The program: taking and giving back.
impl World {
    pub(crate) fn lock(&mut self, lock: u32) -> &mut Lock {
        &mut self.locks[lock as usize]
    }

    /// A task wants a lock, shared where the lock can be. With `until_free` it wants it exclusively if that is possible now;
    /// otherwise it sleeps until the lock is free and continues without it (`LWLockAcquireOrWait()`). Whether it has it.
    pub(crate) fn want(&mut self, cpu: u32, task: u32, lock: u32, is_shared: bool, until_free: bool) -> bool {
        let waiting = &mut self.tasks[task as usize].waiting;
        (waiting.since, waiting.slept) = (self.now, false);
        (waiting.is_shared, waiting.until_free) = (is_shared, until_free);
        let algorithm = self.locks[lock as usize].algorithm;
        if (algorithm.tries)(self, cpu, task, lock) {
            return true;
        }
        let waiting = &mut self.tasks[task as usize].waiting;
        waiting.lock = lock;
        if waiting.outer == NONE {
            waiting.wanted = lock;
        }
        self.seen.locks[lock as usize].contended += 1;
        self.trace_event(cpu, Event::Wants { task, lock });
        (algorithm.waits)(self, cpu, task, lock);
        false
    }

    /// A task on its CPU has the lock now, which took this time.
    pub(crate) fn take(&mut self, cpu: u32, task: u32, lock: u32, ns: u64) {
        let now = self.now;
        let l = &mut self.locks[lock as usize];
        let t = &mut self.tasks[task as usize];
        let is_shared = t.waiting.is_shared && t.waiting.outer == NONE && l.algorithm.is_shareable;
        assert!(l.inside[0] == 0 && (is_shared || l.inside[1] == 0), "two tasks hold lock {lock}");
        l.inside[usize::from(is_shared)] += 1;
        if is_shared {
            l.sharers += 1;
        } else {
            l.holder = task;
        }
        let seen = &mut self.seen.locks[lock as usize];
        seen.acquisitions += 1;
        t.held += 1;
        t.last_lock = lock;
        let asks = l.algorithm.asks;
        t.extra_ns += ns + l.visible_at.saturating_sub(now) + u64::from(asks) * ASKING_NS;
        if t.waiting.wanted == lock {
            t.waiting.wanted = NONE;
        }
        if t.waiting.lock == lock {
            seen.waits.record_ns(now - t.waiting.since);
            t.waiting.lock = NONE;
            self.trace_event(cpu, Event::Takes { task, lock });
        }
        debug_assert_eq!(self.tasks[task as usize].cpu, cpu);
        if asks {
            self.asks_to_extend(task, true);
        }
        if self.recorder.is_some() {
            self.records_lock(cpu, task, lock, true);
        }
    }

    /// A task releases a lock. Whether its program continues without a pause.
    pub(crate) fn release(&mut self, cpu: u32, task: u32, lock: u32) -> bool {
        if self.recorder.is_some() {
            self.records_lock(cpu, task, lock, false);
        }
        let t = &mut self.tasks[task as usize];
        debug_assert!(t.held > 0, "nothing is held");
        t.held -= 1;
        let l = &mut self.locks[lock as usize];
        // The store itself; what it does to others is the algorithm's.
        t.extra_ns += 1 + u64::from(l.algorithm.asks) * ASKING_NS;
        let is_shared = l.holder != task;
        assert!(l.inside[usize::from(is_shared)] > 0, "a task gives back lock {lock}, which it does not hold");
        l.inside[usize::from(is_shared)] -= 1;
        l.data_cpu = cpu;
        let algorithm = l.algorithm;
        (algorithm.released)(self, cpu, task, lock) && (!algorithm.asks || self.gives_slice_back(cpu, task))
    }

    /// A task reads lines that a lock protects, and writes them at the end of its section. They come from the last holder,
    /// one after the other; the writes then take them from there, all in parallel, before the lock is seen to be free,
    /// because stores leave a CPU in order.
    pub(crate) fn uses_data(&mut self, cpu: u32, task: u32, lock: u32, lines: u32) {
        let from = std::mem::replace(&mut self.locks[lock as usize].data_cpu, cpu);
        let ns = self.transfer_ns(from, cpu);
        self.tasks[task as usize].extra_ns += u64::from(lines) * ns;
        self.lock(lock).data_ns = ns;
    }

    pub(crate) fn lock_step_over(&mut self, cpu: u32, task: u32) {
        let lock = self.tasks[task as usize].waiting.lock;
        let algorithm = self.locks[lock as usize].algorithm;
        (algorithm.over)(self, cpu, task, lock);
    }

    /// A backend begins with what those that ended have left (`set_spins_per_delay()`).
    pub(crate) fn backend_begins(&mut self, task: u32) {
        self.tasks[task as usize].spins_per_delay = self.spins_per_delay;
    }

    /// A backend that ends leaves its part of the shared estimate (`update_spins_per_delay()`).
    pub(crate) fn backend_ends(&mut self, task: u32) {
        self.spins_per_delay = (self.spins_per_delay * 15 + self.tasks[task as usize].spins_per_delay) / 16;
    }
}

/// Cache lines.
impl World {
    /// An atomic operation on a lock's line, which is here afterwards.
    pub(crate) fn atomic_ns(&mut self, cpu: u32, lock: u32) -> u64 {
        let line = self.locks[lock as usize].line;
        let from = std::mem::replace(&mut self.locks[line as usize].last_cpu, cpu);
        self.machine.costs.atomic_ns + self.transfer_ns(from, cpu)
    }

    /// The same on a line that waiters look at now and then. One of them may have a copy, which is dropped first, and those
    /// that ask for the line at the same time have it one after the other.
    pub(crate) fn contended_atomic_ns(&mut self, cpu: u32, task: u32, lock: u32) -> u64 {
        let line = self.locks[lock as usize].line;
        let l = &mut self.locks[line as usize];
        l.writes = l.writes.wrapping_add(1);
        self.tasks[task as usize].waiting.writes = l.writes;
        let sharer = std::mem::replace(&mut l.sharer, NONE);
        let owner = std::mem::replace(&mut l.last_cpu, cpu);
        let from = if owner == cpu && sharer != NONE { sharer } else { owner };
        self.machine.costs.atomic_ns + self.arrives_ns(line, from, cpu)
    }

    /// A task reads a lock's line, which is here unless it was written since the task read or wrote it.
    pub(crate) fn read_ns(&mut self, cpu: u32, task: u32, lock: u32) -> u64 {
        let line = self.locks[lock as usize].line;
        let l = &mut self.locks[line as usize];
        let has_copy = self.tasks[task as usize].waiting.writes == l.writes;
        self.tasks[task as usize].waiting.writes = l.writes;
        if l.last_cpu == cpu || has_copy {
            return 0;
        }
        let from = std::mem::replace(&mut l.last_cpu, cpu);
        l.sharer = from;
        self.arrives_ns(line, from, cpu)
    }

    /// A line arrives at a CPU after those that asked for it before were served.
    fn arrives_ns(&mut self, line: u32, from: u32, cpu: u32) -> u64 {
        if from == cpu {
            return 0;
        }
        let now = self.now;
        let l = &mut self.locks[line as usize];
        let queued_ns = l.line_free_at.saturating_sub(now);
        l.line_free_at = now + queued_ns + self.machine.costs.contender_ns;
        queued_ns + self.transfer_ns(from, cpu)
    }

    /// The holder gives the lock back by an atomic operation, which waits until its writes are through.
    pub(crate) fn atomic_release(&mut self, cpu: u32, task: u32, lock: u32) {
        let writes_ns = std::mem::take(&mut self.locks[lock as usize].data_ns);
        self.tasks[task as usize].extra_ns += writes_ns + self.contended_atomic_ns(cpu, task, lock);
    }

    /// After how long a plain write to a lock's line is seen. It waits for the line: where others spin on it, until it has
    /// come from them; where they write at every turn, for each of them.
    pub(crate) fn write_ns(&mut self, cpu: u32, lock: u32) -> u64 {
        let l = &mut self.locks[lock as usize];
        let (stores_ns, line) = (std::mem::take(&mut l.data_ns), l.line);
        let stores_ns = stores_ns + self.locks[line as usize].line_free_at.saturating_sub(self.now);
        let l = &self.locks[lock as usize];
        let Some(&spinner) = l.spinners.last() else {
            let from = std::mem::replace(&mut self.locks[line as usize].last_cpu, cpu);
            return stores_ns + self.transfer_ns(from, cpu);
        };
        let others = if l.algorithm.exchanges { l.spinners.len() as u64 - 1 } else { 0 };
        let from = self.tasks[spinner as usize].cpu;
        stores_ns + self.transfer_ns(from, cpu) + others * self.machine.costs.contender_ns
    }
}

/// Spinning.
impl World {
    /// A waiter spins and reads the lock, for this long or until something ends it.
    pub(crate) fn spin(&mut self, cpu: u32, task: u32, lock: u32, ns: u64) {
        self.looks(task, lock);
        self.spin_unseeing(cpu, task, ns);
    }

    /// A waiter spins for this long and does not read the lock.
    pub(crate) fn spin_unseeing(&mut self, cpu: u32, task: u32, ns: u64) {
        self.tasks[task as usize].waiting.budget_ns = ns;
        let segment = Segment::spin(ns);
        self.begin(cpu, task, segment);
    }

    /// A waiter spins for this long and does not read the lock, whose algorithm is asked then. It may have been in the kernel.
    pub(crate) fn spin_for_lock(&mut self, cpu: u32, task: u32, lock: u32, step: u8, ns: u64) {
        let t = &mut self.tasks[task as usize];
        (t.waiting.lock, t.waiting.step, t.waiting.budget_ns) = (lock, step, ns);
        let was_in_kernel = t.segment.mode == Mode::Kernel;
        t.segment = Segment::spin(ns);
        if was_in_kernel {
            return self.lands(cpu, task);
        }
        let segment = self.tasks[task as usize].segment;
        self.begin(cpu, task, segment);
    }

    /// A waiter in sched_yield() gives its CPU away. Its algorithm is asked when it has one again.
    pub(crate) fn yields_for_lock(&mut self, cpu: u32, task: u32, step: u8) {
        let t = &mut self.tasks[task as usize];
        (t.waiting.step, t.waiting.budget_ns, t.segment, t.yields) = (step, 0, Segment::spin(0), true);
        self.schedule(cpu, SwitchOut::AtBoundary);
    }

    /// A waiter that spins on its CPU continues for this long without reading the lock.
    pub(crate) fn spins_anew(&mut self, task: u32, ns: u64) {
        let cpu = self.tasks[task as usize].cpu;
        self.stop(cpu);
        let t = &mut self.tasks[task as usize];
        t.waiting.budget_ns = ns;
        t.segment = Segment::spin(ns);
        self.arm(cpu);
    }

    /// A spinning waiter continues for the rest of its budget. Whether there is a rest.
    pub(crate) fn spins_on(&mut self, cpu: u32, task: u32) -> bool {
        self.forgets_what_it_saw(task);
        let is_rest = self.tasks[task as usize].segment.left > 0;
        if is_rest {
            self.arm(cpu);
        }
        is_rest
    }

    /// A waiter's spell ends when its time is up.
    pub(crate) fn forgets_what_it_saw(&mut self, task: u32) {
        let t = &mut self.tasks[task as usize];
        let budget_ns = t.waiting.budget_ns;
        t.segment.left = if budget_ns == u64::MAX { u64::MAX } else { budget_ns.saturating_sub(t.segment.done) };
    }

    /// A waiter begins to read the lock.
    pub(crate) fn looks(&mut self, task: u32, lock: u32) {
        self.count_behind(lock);
        let spinners = &mut self.locks[lock as usize].spinners;
        debug_assert_eq!(self.tasks[task as usize].waiting.place, NONE);
        self.tasks[task as usize].waiting.place = spinners.len() as u32;
        spinners.push(task);
    }

    /// A waiter no longer reads the lock.
    pub(crate) fn no_longer_spins(&mut self, task: u32, lock: u32) {
        let place = std::mem::replace(&mut self.tasks[task as usize].waiting.place, NONE);
        if place == NONE {
            return;
        }
        self.count_behind(lock);
        let spinners = &mut self.locks[lock as usize].spinners;
        spinners.swap_remove(place as usize);
        if let Some(&moved) = spinners.get(place as usize) {
            self.tasks[moved as usize].waiting.place = place;
        }
    }

    /// A spinning waiter sees a change after this time.
    pub(crate) fn sees_after(&mut self, task: u32, ns: u64) {
        let cpu = self.tasks[task as usize].cpu;
        self.stop(cpu);
        let from = self.cpus[cpu as usize].busy_from.max(self.now) - self.now;
        let segment = &mut self.tasks[task as usize].segment;
        segment.left = ns.saturating_sub(from).min(segment.left);
        self.arm(cpu);
    }

    /// A spinning waiter was taken off its CPU.
    pub(crate) fn spinner_left(&mut self, task: u32) {
        let lock = self.tasks[task as usize].waiting.lock;
        let algorithm = self.locks[lock as usize].algorithm;
        (algorithm.switched_out)(self, task, lock);
    }

    /// A spinning waiter has a CPU again.
    pub(crate) fn spinner_came(&mut self, task: u32) {
        let lock = self.tasks[task as usize].waiting.lock;
        let algorithm = self.locks[lock as usize].algorithm;
        (algorithm.switched_in)(self, task, lock);
    }
}

/// Continuing.
impl World {
    /// A waiter in user mode has the lock: its program continues, or the algorithm of the outer lock.
    pub(crate) fn has_it(&mut self, cpu: u32, task: u32) {
        if self.goes_on_outside(task) {
            let segment = self.tasks[task as usize].segment;
            return self.begin(cpu, task, segment);
        }
        self.then_user(task);
        self.next(cpu, task);
    }

    /// The same of one that is in the kernel and returns.
    pub(crate) fn has_it_in_kernel(&mut self, cpu: u32, task: u32) {
        if self.goes_on_outside(task) { self.lands(cpu, task) } else { self.return_to_user(cpu, task) }
    }

    /// The same wherever it is.
    pub(crate) fn continues(&mut self, cpu: u32, task: u32) {
        if self.tasks[task as usize].segment.mode == Mode::Kernel {
            return self.has_it_in_kernel(cpu, task);
        }
        self.has_it(cpu, task);
    }

    /// The task returns from the kernel, to its program or to what it does for an outer lock.
    pub(crate) fn returns(&mut self, cpu: u32, task: u32) {
        self.tasks[task as usize].waiting.lock = NONE;
        self.has_it_in_kernel(cpu, task);
    }

    /// True if the task holds a lock for an outer one, whose algorithm continues.
    fn goes_on_outside(&mut self, task: u32) -> bool {
        let t = &mut self.tasks[task as usize];
        let outer = std::mem::replace(&mut t.waiting.outer, NONE);
        if outer == NONE {
            return false;
        }
        (t.waiting.lock, t.waiting.step, t.waiting.since) = (outer, t.waiting.outer_step, t.waiting.outer_since);
        t.segment = Segment::user(0, Then::Lock);
        true
    }

    /// `exit_to_user_mode_loop()` before a stretch that is set already.
    fn lands(&mut self, cpu: u32, task: u32) {
        let c = &self.cpus[cpu as usize];
        if c.need || c.lazy {
            let t = &mut self.tasks[task as usize];
            t.segment.left += std::mem::take(&mut t.extra_ns);
            return self.schedule(cpu, SwitchOut::AtBoundary);
        }
        let segment = self.tasks[task as usize].segment;
        self.begin(cpu, task, segment);
    }

    /// The task enters the kernel for a lock, whose algorithm is asked there.
    pub(crate) fn kernel_for_lock(&mut self, cpu: u32, task: u32, lock: u32, step: u8, ns: u64) {
        let t = &mut self.tasks[task as usize];
        (t.waiting.lock, t.waiting.step) = (lock, step);
        self.enter_kernel(cpu, task, ns, Then::Lock);
    }

    /// The task works in user mode for a lock, whose algorithm is asked then. It may have been in the kernel.
    pub(crate) fn user_for_lock(&mut self, cpu: u32, task: u32, lock: u32, step: u8, ns: u64) {
        let t = &mut self.tasks[task as usize];
        (t.waiting.lock, t.waiting.step) = (lock, step);
        let was_in_kernel = t.segment.mode == Mode::Kernel;
        t.segment = Segment::user(ns, Then::Lock);
        if was_in_kernel {
            return self.lands(cpu, task);
        }
        let segment = self.tasks[task as usize].segment;
        self.begin(cpu, task, segment);
    }

    /// The lock inside a lock is wanted; the outer one's algorithm is asked when the task has it.
    pub(crate) fn want_inner(&mut self, cpu: u32, task: u32, lock: u32, step: u8) {
        let inner = self.locks[lock as usize].inner;
        let waiting = &mut self.tasks[task as usize].waiting;
        (waiting.outer, waiting.outer_step, waiting.outer_since) = (lock, step, waiting.since);
        let (is_shared, until_free) = (waiting.is_shared, waiting.until_free);
        let has = self.want(cpu, task, inner, false, false);
        let waiting = &mut self.tasks[task as usize].waiting;
        (waiting.is_shared, waiting.until_free) = (is_shared, until_free);
        if has {
            self.has_it(cpu, task);
        }
    }

    /// The lock inside a lock is given back; the outer one's algorithm is asked afterwards.
    pub(crate) fn release_inner(&mut self, cpu: u32, task: u32, lock: u32, step: u8) {
        let inner = self.locks[lock as usize].inner;
        let waiting = &mut self.tasks[task as usize].waiting;
        (waiting.outer, waiting.outer_step, waiting.outer_since) = (lock, step, waiting.since);
        // Of the two it may still hold the outer one.
        self.tasks[task as usize].last_lock = lock;
        if self.release(cpu, task, inner) {
            self.has_it(cpu, task);
        }
    }
}

/// Waking.
impl World {
    /// A task in the kernel wakes a sleeper. The time that this takes, ns: the wake-up, and the interrupt to another CPU
    /// where one is sent.
    pub(crate) fn wakes_sleeper(&mut self, cpu: u32, sleeper: u32) -> u64 {
        let before = self.seen.ipis;
        self.wake(sleeper, Some(cpu));
        let sent = self.seen.ipis - before;
        self.machine.costs.wake_ns + sent * self.machine.costs.ipi_send_ns
    }
}

/// Slice extensions, which locks ask for and kernels grant.
impl World {
    /// The section of a task that asked for an extension is over: it returns a grant by `rseq_slice_yield()`. Whether its
    /// program continues without a pause.
    pub(crate) fn gives_slice_back(&mut self, cpu: u32, task: u32) -> bool {
        self.asks_to_extend(task, false);
        if !self.tasks[task as usize].granted {
            return true;
        }
        self.then_user(task);
        self.tasks[task as usize].extra_ns += self.machine.costs.syscall_ns;
        self.call_ends_grant(cpu, task);
        false
    }
}
