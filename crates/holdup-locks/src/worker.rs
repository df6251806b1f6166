//! The measured loop. One instance is compiled for each algorithm; nothing in it is dynamic.

use crate::calibrate::Work;
use crate::faults::{NoPages, Pages, Touch, Toucher};
use crate::lock::{Acquired, RawLock, Sharing};
use crate::record::{self, NamedBy, NoRecord, Record, Recorder};
use crate::region::{Head, Region, Slot, ending, lock_of};
use crate::truth::OWNER_AT;
use holdup_catalogue::lock_contention::TruthRecord;
use holdup_load::board::{CachePadded, Stage, phase};
use holdup_load::clock::now_ns;
use std::hint::black_box;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most operations between two looks at the phase.
const LONGEST_BATCH: u64 = 64;
/// The longest that a batch should take where no worker waits, ns.
const BATCH_NS: u64 = 50_000;

/// What a catalogue entry needs of its algorithm.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Makes a free lock.
    init: unsafe fn(NonNull<u8>, Sharing) -> io::Result<()>,
    /// The measured loop.
    run: fn(&Job),
    /// The same loop, which also writes the holder beside the lock.
    by_owner: (fn(&Job), NamedBy),
    /// The same loop, of a lock whose word names its holder where there is one.
    by_word: (fn(&Job), NamedBy),
}

impl Entry {
    pub(crate) const fn of<L: RawLock>() -> Self {
        assert!(size_of::<L>() <= OWNER_AT && align_of::<L>() <= align_of::<CachePadded<()>>());
        let recorded: (fn(&Job), NamedBy) = (run::<L, Record>, L::NAMED_BY);
        Entry { init: init::<L>, run: run::<L, NoRecord>, by_owner: recorded, by_word: recorded }
    }

    /// The same, where the lock `L` names its holder. Its free form in memory is the same.
    pub(crate) const fn named_by<L: RawLock>(self) -> Self {
        let by_word: (fn(&Job), NamedBy) = (run::<L, Record>, L::NAMED_BY);
        // The number that is served says more than an owner word could.
        let by_owner = if matches!(L::NAMED_BY, NamedBy::Ticket) { by_word } else { self.by_owner };
        Entry { by_owner, by_word, ..self }
    }

    /// Runs the loop until the job ends.
    pub(crate) fn run(&self, job: &Job) {
        match job.exact {
            None => (self.run)(job),
            Some(exact) => (self.recorded(exact).0)(job),
        }
    }

    /// What names the holder where a record is kept.
    pub(crate) fn named(&self, exact: TruthRecord) -> NamedBy {
        self.recorded(exact).1
    }

    fn recorded(&self, exact: TruthRecord) -> (fn(&Job), NamedBy) {
        match exact {
            TruthRecord::LockWord => self.by_word,
            TruthRecord::OwnerWord => self.by_owner,
        }
    }

    /// Makes a free lock in a region that no worker uses yet.
    pub(crate) fn init(&self, region: &Region, sharing: Sharing) -> io::Result<()> {
        // SAFETY: the place has the size and alignment that `of` has checked; it is not in use yet.
        unsafe { (self.init)(lock_of(region), sharing) }
    }
}

/// # Safety
/// As [`RawLock::init`].
unsafe fn init<L: RawLock>(place: NonNull<u8>, sharing: Sharing) -> io::Result<()> {
    // SAFETY: the caller's promise is the same.
    unsafe { L::init(place.cast().as_ptr(), sharing) }
}

/// All that one worker needs, made before it starts.
pub(crate) struct Job {
    pub(crate) region: Arc<Region>,
    /// Its place among the workers, from 0.
    pub(crate) index: usize,
    pub(crate) sharing: Sharing,
    pub(crate) seed: u64,
    pub(crate) section: Work,
    pub(crate) think: Work,
    /// What is touched inside the lock.
    pub(crate) pages: Option<Arc<Pages>>,
    /// Acquisitions per timed one.
    pub(crate) sample_every: u64,
    /// Operations between two looks at the phase.
    pub(crate) batch: u64,
    /// The worker ends by itself after as many operations.
    pub(crate) limit: u64,
    /// The CPU that it runs on.
    pub(crate) cpu: Option<u32>,
    /// Whether it keeps a record for `truth`.
    pub(crate) exact: Option<TruthRecord>,
}

impl Job {
    /// How many operations of this length go between two looks at the phase.
    pub(crate) fn batch_for(operation_ns: u64) -> u64 {
        (BATCH_NS / operation_ns.max(1)).clamp(1, LONGEST_BATCH)
    }
}

/// A whole worker's life, but for its thread or process.
fn run<L: RawLock, K: Recorder>(job: &Job) {
    pin(job.cpu);
    let slot = job.region.slot(job.index);
    slot.acquisitions.touch();
    let ending = match work::<L, K>(job) {
        Ok(Acquired::Stuck) => ending::STUCK,
        Ok(_) => ending::DONE,
        Err(error) => {
            slot.errno.store(error.raw_os_error().unwrap_or(0).unsigned_abs(), Ordering::Relaxed);
            ending::REFUSED
        }
    };
    slot.ending.store(ending, Ordering::Release);
}

fn pin(cpu: Option<u32>) {
    let Some(cpu) = cpu else { return };
    // The CPU was among the allowed ones a moment ago; one that went offline since leaves the worker unpinned,
    // and the environment's facts show that a CPU is gone.
    let _pinned = holdup_load::placement::stay_on(&[cpu]);
}

/// Waits for the begin and operates until the stage says stop. Returns how the last acquisition ended when it did not
/// succeed.
///
/// Everything that changes is a local variable whose address is not taken, so that it stays in a
/// register: one load and store more in each operation is a fifth of an uncontended test-and-set.
fn work<L: RawLock, K: Recorder>(job: &Job) -> io::Result<Acquired> {
    let pace = Pace::of(job);
    let head = job.region.head();
    let parts = Parts::<L, K> {
        // SAFETY: `Entry::init` has made an `L` there, and the region lives as long as the job.
        lock: unsafe { lock_of(&job.region).cast::<L>().as_ref() },
        stage: job.region.stage(),
        head,
        slot: job.region.slot(job.index),
        keep: K::of(job),
        section: job.section,
        think: job.think,
    };
    let mut local = L::local(&record::worker(job));
    L::begin(&mut local)?;
    if !job.region.stage().wait_for_begin() {
        return Ok(Acquired::Stopped);
    }
    let mut toucher = job.pages.as_ref().map(|pages| Toucher::new(pages, head, job.sharing));
    if K::IS_RECORDED {
        // Nothing is measured: one instance of the loop is enough.
        let (how, operations) = drive(&parts, &pace, &mut local, &mut toucher);
        parts.slot.marks.saw_with(phase::STOP, operations, L::slice_grants(&local));
        return Ok(how);
    }
    let bare = toucher.is_none() && job.section.is_none() && job.think.is_none();
    let (how, operations) = match toucher {
        Some(mut toucher) => drive(&parts, &pace, &mut local, &mut toucher),
        None if bare => drive(&parts.without_work(), &pace, &mut local, &mut NoPages),
        None => drive(&parts, &pace, &mut local, &mut NoPages),
    };
    parts.slot.marks.saw_with(phase::STOP, operations, L::slice_grants(&local));
    Ok(how)
}

/// How often the loop looks up from its operations.
struct Pace {
    sample_every: u64,
    batch: u64,
    limit: u64,
}

impl Pace {
    fn of(job: &Job) -> Self {
        Pace { sample_every: job.sample_every, batch: job.batch, limit: job.limit }
    }
}

#[inline(always)]
fn drive<L: RawLock, K: Recorder, T: Touch>(
    parts: &Parts<'_, L, K>,
    pace: &Pace,
    local: &mut L::Local,
    toucher: &mut T,
) -> (Acquired, u64) {
    let (mut operations, mut done) = (0, 0);
    let mut seen = phase::WARM;
    let mut until_sample = pace.sample_every - 1;
    loop {
        let now = parts.stage.phase();
        if now != seen {
            seen = now;
            parts.slot.marks.saw_with(now, operations, L::slice_grants(local));
        }
        if now == phase::STOP || operations >= pace.limit {
            black_box(done);
            return (Acquired::Stopped, operations);
        }
        let how = if until_sample == 0 {
            until_sample = pace.sample_every - 1;
            parts.operation::<true, T>(local, toucher, (&mut operations, &mut done))
        } else {
            // A batch ends early after an acquisition that had to wait, because time has passed then.
            let end = operations + pace.batch.min(until_sample);
            let begin = operations;
            let how = loop {
                let how = parts.operation::<false, T>(local, toucher, (&mut operations, &mut done));
                if how != Acquired::Uncontended || operations >= end {
                    break how;
                }
            };
            until_sample -= operations - begin;
            how
        };
        if matches!(how, Acquired::Stopped | Acquired::Stuck) {
            black_box(done);
            return (how, operations);
        }
    }
}

/// What does not change during a trial.
struct Parts<'a, L, K> {
    lock: &'a L,
    stage: &'a Stage,
    head: &'a Head,
    slot: &'a Slot,
    keep: K,
    section: Work,
    think: Work,
}

impl<L: RawLock, K: Recorder> Parts<'_, L, K> {
    /// The same, known to the compiler to have nothing to do inside and outside.
    fn without_work(&self) -> Self {
        Parts { section: Work::NONE, think: Work::NONE, ..*self }
    }

    /// Lock, section, unlock, think.
    #[inline(always)]
    fn operation<const TIMED: bool, T: Touch>(
        &self,
        local: &mut L::Local,
        toucher: &mut T,
        (operations, done): (&mut u64, &mut u64),
    ) -> Acquired {
        let stopped = || self.stage.stopped();
        toucher.prepare();
        let begin = if TIMED { now_ns() } else { 0 };
        if TIMED {
            self.slot.waiting_since_ns.store(begin, Ordering::Relaxed);
        }
        self.keep.wants();
        L::at_waiting();
        let how = self.lock.acquire(local, &stopped);
        if matches!(how, Acquired::Stopped | Acquired::Stuck) {
            L::at_waiting_no_longer();
            self.keep.is_out();
            return how;
        }
        // One point for all ways to the lock: one for each would end a block of code and cost a jump.
        L::at_acquired();
        self.keep.has();
        let end = if TIMED { now_ns() } else { 0 };
        if TIMED {
            self.slot.waiting_since_ns.store(0, Ordering::Relaxed);
        }
        // Read at the section's begin and written at its end: a second worker inside loses an update.
        let protected = self.head.protected.0.load(Ordering::Relaxed);
        toucher.touch();
        // The section's work begins with what was read inside the lock and with the result of the work before, and
        // the think time's with the section's result, so that the CPU cannot do any two of them side by side.
        *done = self.section.run(*done ^ protected, &stopped);
        self.head.protected.0.store(protected + 1, Ordering::Relaxed);
        self.keep.gives_back();
        self.lock.release(local);
        self.keep.is_out();
        *operations += 1;
        self.slot.operations.0.store(*operations, Ordering::Relaxed);
        if TIMED && self.stage.is_open() {
            self.slot.acquisitions.count(end.saturating_sub(begin));
        }
        *done = self.think.run(*done, &stopped);
        how
    }
}
