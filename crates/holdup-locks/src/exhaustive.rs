//! Every interleaving of the lock algorithms' atomics, tried by loom on the code that is measured.

use crate::algorithms::{
    clh::Clh,
    futex_mutex::FutexMutex,
    mcs::Mcs,
    postgres_s_lock::SLock,
    slice_extension::SliceExtension,
    tas::Tas,
    ticket::Ticket,
    ttas::{self, Ttas},
    ttas_backoff::TtasBackoff,
};
use crate::lock::{Acquired, FutexWord, Named, RawLock, Sharing, Word, Worker};
use crate::queue::{Node, Nodes, Places};
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use loom::sync::{Arc, Condvar, Mutex};
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    /// Turns of waiting in the interleaving at hand, over all its workers.
    static TURNS: Cell<u32> = const { Cell::new(0) };
    /// Interleavings that came to their end, of those tried by this test.
    static WHOLE: Cell<u32> = const { Cell::new(0) };
}

/// Interleavings with more turns of waiting than this are cut off: spinning waiters could let each other
/// go first for ever. What is cut differs from what is tried only in how often the same look is repeated.
const MOST_TURNS: u32 = 8;

/// A word under loom, with the kernel's queue of a futex: the look at the word and the falling asleep are
/// one step to every waker, which is what the kernel promises.
///
/// With `STALE`, a load may give any value that the memory model allows. Without, it gives the newest one: loom
/// 0.7 forgets that a store was already consumed by an exchange when a stale load sees it afterwards (its
/// `apply_load_coherence` raises the store in the modification order without those that follow it), and then
/// lets a second exchange consume it. That hits every lock that looks before it exchanges.
struct LoomWord<const STALE: bool = true> {
    word: AtomicU32,
    queue: Mutex<()>,
    sleepers: Condvar,
}

impl<const STALE: bool> Word for LoomWord<STALE> {
    fn new(value: u32) -> Self {
        LoomWord { word: AtomicU32::new(value), queue: Mutex::new(()), sleepers: Condvar::new() }
    }
    fn load(&self, order: Ordering) -> u32 {
        if STALE { self.word.load(order) } else { self.word.fetch_add(0, Ordering::AcqRel) }
    }
    fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
    }
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.word.swap(value, order)
    }
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.word.fetch_add(value, order)
    }
    fn compare_exchange(&self, current: u32, new: u32, success: Ordering, failure: Ordering) -> Result<u32, u32> {
        self.word.compare_exchange(current, new, success, failure)
    }
    fn pause() {
        TURNS.set(TURNS.get() + 1);
        loom::thread::yield_now();
    }
}

impl FutexWord for LoomWord {
    fn wait(&self, expected: u32, _sharing: Sharing) {
        let queue = self.queue.lock().expect("no panics inside");
        if self.word.load(Ordering::Relaxed) == expected {
            drop(self.sleepers.wait(queue).expect("no panics inside"));
        }
    }
    fn wake_one(&self, _sharing: Sharing) {
        let _queue = self.queue.lock().expect("no panics inside");
        self.sleepers.notify_one();
    }
}

/// Each of `workers` takes the lock `rounds` times. What is inside must never be touched by two at the same time (loom
/// sees that), every update must be seen by the next, and no worker may wait for ever (loom sees that too).
/// `note` is what a worker writes down inside.
fn explore<L: RawLock + Send + 'static>(
    make: fn() -> L,
    workers: u32,
    rounds: u32,
    note: fn(&L::Local) -> u32,
    judge: fn(&[u32]),
) {
    let mut builder = loom::model::Builder::new();
    // Few preemptions find what is found at all in locks of this size, in a second instead of hours.
    builder.preemption_bound = Some(if workers == 2 { 3 } else { 2 });
    builder.check(move || {
        TURNS.set(0);
        let shared = Arc::new((make(), UnsafeCell::new(Vec::<u32>::new())));
        let work = move |shared: Arc<(L, UnsafeCell<Vec<u32>>)>, index: u32| {
            let (lock, inside) = &*shared;
            let mut local = L::local(&Worker {
                seed: u64::from(index) + 1,
                sharing: Sharing::Threads,
                name: index + 1,
                number: None,
                places: None,
            });
            for _ in 0..rounds {
                match lock.acquire(&mut local, &|| TURNS.get() > MOST_TURNS) {
                    Acquired::Uncontended | Acquired::AfterWaiting => {}
                    Acquired::Stopped => return,
                    Acquired::Stuck => panic!("no lock here gives up"),
                }
                // SAFETY: the lock is held; loom ends the test when another one is here as well.
                inside.with_mut(|notes| unsafe { (*notes).push(note(&local)) });
                lock.release(&mut local);
            }
        };
        let others: Vec<_> = (1..workers)
            .map(|index| {
                let shared = shared.clone();
                loom::thread::spawn(move || work(shared, index))
            })
            .collect();
        work(shared.clone(), 0);
        others.into_iter().for_each(|other| other.join().expect("no worker panics"));
        shared.1.with(|notes| {
            // SAFETY: all workers have ended.
            let notes = unsafe { &*notes };
            if TURNS.get() <= MOST_TURNS {
                WHOLE.set(WHOLE.get() + 1);
                assert_eq!(notes.len() as u32, workers * rounds, "an update was lost");
            }
            judge(notes);
        });
    });
    // A lock that is never handed on is cut off everywhere.
    assert!(WHOLE.replace(0) > 1, "no interleaving came to its end");
}

/// Two workers that come back, and three that come once.
fn exclusive<L: RawLock + Send + 'static>() {
    explore::<L>(L::free, 2, 2, |_| 0, |_| {});
    explore::<L>(L::free, 3, 1, |_| 0, |_| {});
}

#[test]
fn tas_lets_one_in() {
    exclusive::<Tas<LoomWord>>();
}

/// The instances of `truth` decide by another instruction.
#[test]
fn locks_that_name_their_holder_let_one_in() {
    exclusive::<Tas<LoomWord, Named>>();
    exclusive::<SliceExtension<LoomWord, Named>>();
    exclusive::<Ttas<ttas::Pause, LoomWord<false>, Named>>();
    exclusive::<TtasBackoff<LoomWord<false>, Named>>();
    exclusive::<SLock<LoomWord<false>, Named>>();
    exclusive::<Ticket<LoomWord, Named>>();
}

/// Without a kernel that grants, it must be the same lock.
#[test]
fn slice_extension_lets_one_in() {
    exclusive::<SliceExtension<LoomWord>>();
}

#[test]
fn ttas_lets_one_in() {
    exclusive::<Ttas<ttas::Pause, LoomWord<false>>>();
}

#[test]
fn ttas_backoff_lets_one_in() {
    exclusive::<TtasBackoff<LoomWord<false>>>();
}

#[test]
fn postgres_s_lock_lets_one_in() {
    exclusive::<SLock<LoomWord<false>>>();
}

#[test]
fn ticket_lets_one_in() {
    exclusive::<Ticket<LoomWord>>();
}

/// The nodes of as many workers as there are, in the lock.
struct Here([Node<LoomWord>; 3]);

impl Nodes<LoomWord> for Here {
    fn new() -> Self {
        Here(std::array::from_fn(|_| Node::new()))
    }
    fn at(&self, _places: Option<Places>, number: u32) -> &Node<LoomWord> {
        &self.0[number as usize - 1]
    }
}

#[test]
fn mcs_lets_one_in() {
    exclusive::<Mcs<LoomWord, Here>>();
}

#[test]
fn clh_lets_one_in() {
    exclusive::<Clh<LoomWord, Here>>();
}

#[test]
fn futex_mutex_lets_one_in_and_loses_no_wake_up() {
    exclusive::<FutexMutex<LoomWord>>();
}

#[test]
fn tickets_are_served_in_the_order_they_were_drawn_also_around_the_end_of_the_numbers() {
    let in_order = |served: &[u32]| assert!(served.is_sorted_by_key(|n| n.wrapping_sub(u32::MAX)), "{served:?}");
    explore::<Ticket<LoomWord>>(Ticket::about_to_wrap, 2, 2, |mine| mine.0, in_order);
    explore::<Ticket<LoomWord>>(Ticket::about_to_wrap, 3, 1, |mine| mine.0, in_order);
}

/// Looks first and writes then: the mistake that the exploration must find.
struct LookThenWrite(LoomWord);

impl RawLock for LookThenWrite {
    type Local = ();
    fn free() -> Self {
        LookThenWrite(Word::new(0))
    }
    fn local(_worker: &Worker) {}
    fn acquire(&self, (): &mut (), _stopped: &impl Fn() -> bool) -> Acquired {
        while self.0.load(Ordering::Acquire) != 0 {
            <LoomWord>::pause();
        }
        self.0.store(1, Ordering::Relaxed);
        Acquired::Uncontended
    }
    fn release(&self, (): &mut ()) {
        self.0.store(0, Ordering::Release);
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_lock_that_lets_two_in_is_found() {
    exclusive::<LookThenWrite>();
}
