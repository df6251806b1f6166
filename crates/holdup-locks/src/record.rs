//! What a worker writes down about itself for `truth`, and the instance of the loop that writes nothing.

use crate::lock::Worker;
use crate::queue::Places;
use crate::region::{LOCK_BYTES, Region, Slot, lock_of};
use crate::truth::{self, HOLDING, NEITHER, OWNER_AT, Predicate, Published, WAITING, WorkerTruth};
use crate::worker::Job;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const _: () = assert!(LOCK_BYTES == truth::LOCK_BYTES && size_of::<WorkerState>() == truth::STATE_BYTES);

/// What names a lock's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// Nothing in the lock: the owner word beside it.
    OwnerWord,
    /// Nothing, and its own words do not say whether it is free.
    OwnerWordAlone,
    /// Its first word, with the worker's name.
    LockWord,
    /// The served number.
    Ticket,
    /// The C library's mutex.
    OwnerTid,
}

/// What a worker says of itself, for [`truth::role`].
#[derive(Default)]
#[repr(C)]
pub(crate) struct WorkerState {
    state: AtomicU32,
    number: AtomicU32,
}

/// The numbers of a worker, written by itself before it begins.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Identity {
    tid: AtomicU32,
    pid: AtomicU32,
}

/// What a worker writes down at each step.
pub(crate) trait Recorder: Copy {
    /// True if it writes anything.
    const IS_RECORDED: bool;
    /// For the calling worker.
    fn of(job: &Job) -> Self;
    /// It wants the lock.
    fn wants(&self);
    fn has(&self);
    /// It is about to give it back.
    fn gives_back(&self);
    /// It has given it back, or up.
    fn is_out(&self);
}

/// Nothing.
#[derive(Clone, Copy)]
pub(crate) struct NoRecord;

impl Recorder for NoRecord {
    const IS_RECORDED: bool = false;
    #[inline(always)]
    fn of(_job: &Job) -> Self {
        NoRecord
    }
    #[inline(always)]
    fn wants(&self) {}
    #[inline(always)]
    fn has(&self) {}
    #[inline(always)]
    fn gives_back(&self) {}
    #[inline(always)]
    fn is_out(&self) {}
}

/// The truth.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    state: NonNull<AtomicU32>,
    owner: NonNull<AtomicU32>,
    name: u32,
}

impl Record {
    #[inline(always)]
    fn say(&self, state: u32) {
        // SAFETY: the worker's region lives as long as its job.
        unsafe { self.state.as_ref() }.store(state, Ordering::Relaxed);
    }

    #[inline(always)]
    fn own(&self, name: u32) {
        // SAFETY: as above.
        unsafe { self.owner.as_ref() }.store(name, Ordering::Relaxed);
    }
}

impl Recorder for Record {
    const IS_RECORDED: bool = true;

    fn of(job: &Job) -> Self {
        let slot = job.region.slot(job.index);
        slot.identity.tid.store(rustix::thread::gettid().as_raw_pid().unsigned_abs(), Ordering::Relaxed);
        slot.identity.pid.store(rustix::process::getpid().as_raw_pid().unsigned_abs(), Ordering::Relaxed);
        // SAFETY: the owner word is inside the lock's bytes, behind the lock, and aligned.
        let owner = unsafe { lock_of(&job.region).add(OWNER_AT).cast() };
        Record { state: NonNull::from(&slot.state.0.state), owner, name: name(job.index) }
    }
    #[inline(always)]
    fn wants(&self) {
        self.say(WAITING);
    }
    #[inline(always)]
    fn has(&self) {
        self.own(self.name);
        self.say(HOLDING);
    }
    #[inline(always)]
    fn gives_back(&self) {
        self.own(0);
    }
    #[inline(always)]
    fn is_out(&self) {
        self.say(NEITHER);
    }
}

/// A worker's name in words that name the holder.
pub(crate) fn name(index: usize) -> u32 {
    // There are at most some thousand workers.
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// Where the nodes of all workers are.
fn places(region: &Region) -> Places {
    // Made from the region's own address, because each worker reaches all of them.
    let begin = region.head_at().cast::<u8>();
    let first = std::ptr::from_ref(&region.slot(0).node).addr() - begin.addr().get();
    // SAFETY: the first worker's slot lies in the region.
    Places { first: unsafe { begin.add(first) }.cast(), stride_bytes: size_of::<Slot>() }
}

/// What a job's lock needs to know about its worker.
pub(crate) fn worker(job: &Job) -> Worker {
    let number = &job.region.slot(job.index).state.0.number;
    // No number that is drawn soon.
    number.store(u32::MAX, Ordering::Relaxed);
    Worker {
        seed: job.seed,
        sharing: job.sharing,
        name: name(job.index),
        number: Some(NonNull::from(number)),
        places: Some(places(&job.region)),
    }
}

/// Where the records of all workers are, once all of them have begun.
pub(crate) fn published(region: &Region, algorithm: &str, named_by: NamedBy) -> Published {
    let one = |(index, slot): (usize, &Slot)| {
        let tid = slot.identity.tid.load(Ordering::Relaxed);
        WorkerTruth {
            index: name(index) - 1,
            tid,
            pid: slot.identity.pid.load(Ordering::Relaxed),
            state_address: std::ptr::from_ref(&slot.state.0) as u64,
            lock_address: lock_of(region).as_ptr() as u64,
            predicate: match named_by {
                NamedBy::OwnerWord => Predicate::OwnerWordEquals(name(index)),
                NamedBy::OwnerWordAlone => Predicate::OwnerWordAlone(name(index)),
                NamedBy::LockWord => Predicate::LockWordEquals(name(index)),
                NamedBy::Ticket => Predicate::TicketServed,
                NamedBy::OwnerTid => Predicate::OwnerTid(tid),
            },
        }
    };
    Published {
        algorithm: algorithm.to_owned(),
        section: format!("lock-contention: {algorithm}"),
        workers: region.slots().enumerate().map(one).collect(),
    }
}
