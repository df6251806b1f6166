//! What a lock algorithm is made of, and what it says about itself.
//!
//! Algorithms are generic over the [`Word`] that they spin on, so that the very code that is
//! measured also runs under loom, which tries every interleaving of its atomics.

use crate::arch;
use crate::queue::Places;
use crate::record::NamedBy;
use crate::syscall;
use crate::worker::{Entry, Job};
pub use holdup_load::worker_pool::Sharing;
use holdup_model::{Availability, Meta};
use serde::Serialize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// How an acquisition ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquired {
    /// The lock was free.
    Uncontended,
    /// The lock was held by another; it is ours now.
    AfterWaiting,
    /// The trial is over: the lock was not taken.
    Stopped,
    /// The algorithm gave up by its own rule: the lock was not taken.
    Stuck,
}

/// What users of an algorithm want to know first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Properties {
    /// True if the lock is handed over in the order of arrival.
    pub fair: bool,
    /// True if a waiter may leave the CPU voluntarily.
    pub may_sleep: bool,
    /// True if waiters are queued and woken by the kernel (futex).
    pub needs_kernel: bool,
}

/// Who can share a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The threads of one process.
    OneProcess,
    /// All that have mapped its memory.
    AllProcesses,
}

/// One lock algorithm of the catalogue.
pub struct Algorithm {
    /// What it says about itself.
    pub meta: &'static Meta,
    /// What users want to know first.
    pub properties: Properties,
    /// The measured loop, instantiated for this algorithm.
    pub(crate) entry: Entry,
    /// Who can share it.
    pub reach: Reach,
    /// Why no machine of the simulator has it, where that is so.
    pub only_real: Option<&'static str>,
    available: fn() -> Availability,
}

impl Algorithm {
    /// The catalogue entry of `L`.
    pub(crate) const fn of<L: RawLock>(meta: &'static Meta, properties: Properties) -> Self {
        let (entry, reach) = (Entry::of::<L>(), Reach::AllProcesses);
        Algorithm { meta, properties, entry, reach, only_real: None, available: || Availability::Ready }
    }

    /// The same, whose waiters meet inside one process alone.
    pub(crate) const fn of_one_process(self) -> Self {
        Algorithm { reach: Reach::OneProcess, ..self }
    }

    /// The same, which is not simulated.
    pub(crate) const fn only_real(self, why: &'static str) -> Self {
        Algorithm { only_real: Some(why), ..self }
    }

    /// The same, of which not every machine is capable.
    pub(crate) const fn where_available(self, available: fn() -> Availability) -> Self {
        Algorithm { available, ..self }
    }

    /// Whether it works here, tried out where that is the surest way. Never writes.
    pub fn probe(&self) -> Availability {
        (self.available)()
    }

    /// The same, with an instance for the truth whose lock is `L`: it names its holder where `Self::of`'s cannot.
    pub(crate) const fn named_by<L: RawLock>(self) -> Self {
        Algorithm { entry: self.entry.named_by::<L>(), ..self }
    }

    /// Runs the measured loop on the calling thread until the job ends.
    pub(crate) fn run(&self, job: &Job) {
        self.entry.run(job);
    }
}

impl std::fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Algorithm").field(&self.meta.id).finish()
    }
}

/// A lock that lives in memory shared between threads or processes.
pub(crate) trait RawLock: Sync + Sized {
    /// What each worker keeps for itself between two acquisitions.
    type Local;

    /// What names the holder where the workers keep a record for `truth`.
    const NAMED_BY: NamedBy = NamedBy::OwnerWord;

    /// A free lock.
    fn free() -> Self;

    /// Makes a free lock at `place`.
    ///
    /// # Safety
    /// `place` is writable, aligned, and no worker uses it yet.
    unsafe fn init(place: *mut Self, _sharing: Sharing) -> std::io::Result<()> {
        // SAFETY: the promise of the caller.
        unsafe { place.write(Self::free()) };
        Ok(())
    }

    /// The state that a worker begins with.
    fn local(worker: &Worker) -> Self::Local;

    /// Asks the kernel for what the calling worker needs, once, on its own thread, before its first acquisition. In a
    /// forked child: it neither allocates nor prints.
    fn begin(_local: &mut Self::Local) -> std::io::Result<()> {
        Ok(())
    }

    /// How many time slice extensions this worker was granted so far; `None` where it never asks for one.
    #[inline(always)]
    fn slice_grants(_local: &Self::Local) -> Option<u64> {
        None
    }

    /// Takes the lock, or gives up once `stopped` says so. Only waiting calls `stopped`:
    /// the way through a free lock stays as short as the algorithm has it.
    fn acquire(&self, local: &mut Self::Local, stopped: &impl Fn() -> bool) -> Acquired;

    /// Gives back a lock that this worker holds.
    fn release(&self, local: &mut Self::Local);

    // The points that the binary declares, see `note`. The algorithm marks where it has given the lock back, and both in
    // a separate function that waits; the loop marks the rest.

    /// From here on the lock is held.
    #[inline(always)]
    fn at_acquired() {}
    /// From here on it is not.
    #[inline(always)]
    fn at_released() {}
    /// From here on the worker waits.
    #[inline(always)]
    fn at_waiting() {}
    /// From here on it does not, and has not got the lock.
    #[inline(always)]
    fn at_waiting_no_longer() {}
}

/// What a lock needs to know about the worker that will use it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worker {
    /// Differs between workers.
    pub(crate) seed: u64,
    /// Whether workers are threads or processes.
    pub(crate) sharing: Sharing,
    /// The worker's own name in a lock that names its holder; not 0.
    pub(crate) name: u32,
    /// Where a worker writes the number that it has drawn, with `truth`.
    pub(crate) number: Option<NonNull<AtomicU32>>,
    /// Where the nodes of all workers are.
    pub(crate) places: Option<Places>,
}

/// How a worker takes a lock of one word: whether the word then names it.
pub(crate) trait Naming: Sync {
    /// What the worker keeps.
    type Name: Copy;
    /// What names the holder of a lock of one word.
    const NAMED_BY: NamedBy;
    fn of(worker: &Worker) -> Self::Name;
    /// Tries to take the lock: one atomic operation. Returns whether the word was 0.
    fn take(name: Self::Name, word: &impl Word) -> bool;
    /// Receives the number that the worker has drawn.
    fn drew(name: Self::Name, number: u32);
}

/// The word says that it is held: the exchange of the literature.
#[derive(Debug)]
pub(crate) struct Unnamed;

impl Naming for Unnamed {
    type Name = ();
    const NAMED_BY: NamedBy = NamedBy::OwnerWord;
    #[inline(always)]
    fn of(_worker: &Worker) {}
    #[inline(always)]
    fn take((): (), word: &impl Word) -> bool {
        word.swap(1, Ordering::Acquire) == 0
    }
    #[inline(always)]
    fn drew((): (), _number: u32) {}
}

/// The word names its holder, which a plain exchange would overwrite.
#[derive(Debug)]
pub(crate) struct Named;

impl Naming for Named {
    type Name = (u32, Option<NonNull<AtomicU32>>);
    const NAMED_BY: NamedBy = NamedBy::LockWord;
    fn of(worker: &Worker) -> Self::Name {
        (worker.name, worker.number)
    }
    #[inline(always)]
    fn take((name, _): Self::Name, word: &impl Word) -> bool {
        word.compare_exchange(0, name, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
    #[inline(always)]
    fn drew((_, place): Self::Name, number: u32) {
        if let Some(place) = place {
            // SAFETY: the memory that the worker was given is kept for as long as the worker lives.
            unsafe { place.as_ref() }.store(number, Ordering::Relaxed);
        }
    }
}

/// A 32-bit atomic in shared memory.
pub(crate) trait Word: Sync {
    /// A word that holds `value`.
    fn new(value: u32) -> Self;
    /// Reads it.
    fn load(&self, order: Ordering) -> u32;
    /// Writes it.
    fn store(&self, value: u32, order: Ordering);
    /// Writes it and gives what stood there.
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// Adds and gives what stood there; wraps around.
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;
    /// Writes `new` where `current` stands: `Ok`, else `Err` with what stands there.
    fn compare_exchange(&self, current: u32, new: u32, success: Ordering, failure: Ordering) -> Result<u32, u32>;
    /// One turn of waiting: `pause` on x86, `isb` on aarch64.
    fn pause();
    /// One turn of waiting that may last until the word is written; from a word that is 0 it returns without waiting.
    #[inline(always)]
    fn wait_while_held(&self) {
        Self::pause();
    }
}

/// A word that the kernel can queue waiters on.
pub(crate) trait FutexWord: Word {
    /// Sleeps if the word still holds `expected`. May return without reason.
    fn wait(&self, expected: u32, sharing: Sharing);
    /// Wakes one sleeper.
    fn wake_one(&self, sharing: Sharing);
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn new(value: u32) -> Self {
        AtomicU32::new(value)
    }
    #[inline(always)]
    fn load(&self, order: Ordering) -> u32 {
        AtomicU32::load(self, order)
    }
    #[inline(always)]
    fn store(&self, value: u32, order: Ordering) {
        AtomicU32::store(self, value, order);
    }
    #[inline(always)]
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        AtomicU32::swap(self, value, order)
    }
    #[inline(always)]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        AtomicU32::fetch_add(self, value, order)
    }
    #[inline(always)]
    fn compare_exchange(&self, current: u32, new: u32, success: Ordering, failure: Ordering) -> Result<u32, u32> {
        AtomicU32::compare_exchange(self, current, new, success, failure)
    }
    #[inline(always)]
    fn pause() {
        std::hint::spin_loop();
    }
    #[inline(always)]
    fn wait_while_held(&self) {
        arch::wait_while_held(self);
    }
}

impl FutexWord for AtomicU32 {
    #[inline(always)]
    fn wait(&self, expected: u32, sharing: Sharing) {
        syscall::futex_wait(self, expected, sharing);
    }

    #[inline(always)]
    fn wake_one(&self, sharing: Sharing) {
        syscall::futex_wake_one(self, sharing);
    }
}

/// How many turns of a spinning wait go by between two looks at the stop flag.
/// Under test every second turn looks, so that an exploration of interleavings can be cut off.
pub(crate) const TURNS_PER_LOOK: u32 = if cfg!(test) { 2 } else { 256 };

/// Counts turns of a spinning wait, so that the stop flag's cache line is looked at seldom.
#[derive(Debug, Default)]
pub(crate) struct Turns(u32);

impl Turns {
    /// Counts one turn; asks `stopped` once in [`TURNS_PER_LOOK`] turns.
    #[inline(always)]
    pub(crate) fn over(&mut self, stopped: &impl Fn() -> bool) -> bool {
        self.0 = self.0.wrapping_add(1);
        self.0.is_multiple_of(TURNS_PER_LOOK) && stopped()
    }
}

/// Small and fast random numbers (xorshift64*, Marsaglia 2003, Vigna 2016), without a library call
/// that could allocate in a forked child.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Any seed is good; zero is moved away from the fixed point.
    pub(crate) fn new(seed: u64) -> Self {
        let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Random(if mixed == 0 { 0x9E37_79B9_7F4A_7C15 } else { mixed })
    }

    /// 64 random bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        let mut x = self.0;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A random share in [0, 1).
    #[inline]
    pub(crate) fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}
