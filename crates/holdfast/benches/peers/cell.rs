//! One cell of the matrix, run with one lock.

use crate::locks::Lock;
use crate::work::{self, Histogram, IS_OVER};
use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One point of the matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) threads: usize,
    pub(crate) inside_us: f64,
    pub(crate) outside_us: f64,
    /// Whether thread n runs on CPU n alone, counted around the CPUs. Else the kernel places them, and a window of some milliseconds
    /// measures where: two threads that it puts on one CPU never meet at the lock.
    pub(crate) is_pinned: bool,
}

/// What one lock did in a cell, over all its rounds.
#[derive(Clone, Default)]
pub(crate) struct Sum {
    /// Operations in a second, by round.
    pub(crate) rates: Vec<f64>,
    /// Operations of each thread.
    by_thread: Vec<u64>,
    cpu_ns: u64,
    to_lock: Histogram,
}

impl Sum {
    /// The least of the threads' acquisitions over the most.
    pub(crate) fn fairness(&self) -> f64 {
        let (least, most) = (self.by_thread.iter().min(), self.by_thread.iter().max());
        least.zip(most).map_or(0.0, |(least, most)| *least as f64 / *most as f64)
    }

    /// CPU time of the process for one operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.by_thread.iter().sum::<u64>() as f64
    }

    /// The time to lock beneath which 99.9 % are, in microseconds.
    pub(crate) fn to_lock_us_p999(&self, ticks_per_ns: f64) -> f64 {
        self.to_lock.quantile(0.999) / ticks_per_ns / 1e3
    }

    pub(crate) fn rate(&self) -> f64 {
        median(self.rates.clone())
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

struct Counter(UnsafeCell<u64>);
// SAFETY: the lock under test is held where it is touched; that it was is checked at the end.
unsafe impl Sync for Counter {}
impl Counter {
    /// # Safety
    /// The lock is held.
    #[inline(always)]
    unsafe fn add(&self) {
        // SAFETY: the promise of the caller.
        unsafe { *self.0.get() += 1 };
    }
}

/// What a worker has done so far, on a cache line that no other has.
#[repr(align(128))]
#[derive(Default)]
struct Board(AtomicU64);

/// Runs a cell for one window after a short warm-up, and adds what was done.
pub(crate) fn run<L: Lock>(cell: Cell, window: Duration, steps_per_us: f64, sum: &mut Sum) {
    let (lock, counter) = (L::new(), Counter(UnsafeCell::new(0)));
    let (inside, outside) = ((cell.inside_us * steps_per_us) as u32, (cell.outside_us * steps_per_us) as u32);
    // A reading of the clock is longer than a short section.
    let sampled = if cell.inside_us + cell.outside_us >= 1.0 { 0 } else { 31 };
    let barrier = Barrier::new(cell.threads + 1);
    let boards: Vec<Board> = (0..cell.threads).map(|_| Board::default()).collect();
    IS_OVER.store(false, Relaxed);
    sum.by_thread.resize(cell.threads, 0);
    let work = |n: usize| {
        if cell.is_pinned {
            work::pin(n);
        }
        let board = &boards[n];
        let (mut count, mut to_lock) = (0u64, Histogram::default());
        barrier.wait();
        while !IS_OVER.load(Relaxed) {
            let is_timed = count & sampled == 0;
            let begin = if is_timed { work::ticks() } else { 0 };
            lock.with(|| {
                if is_timed {
                    to_lock.add(work::ticks().saturating_sub(begin));
                }
                work::chain(inside);
                // SAFETY: the lock is held.
                unsafe { counter.add() };
            });
            count += 1;
            board.0.store(count, Relaxed);
            work::chain(outside);
        }
        (count, to_lock)
    };
    let read = || (Instant::now(), work::cpu_ns(), boards.iter().map(|b| b.0.load(Relaxed)).collect::<Vec<_>>());
    let mut all = 0;
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..cell.threads).map(|n| scope.spawn(move || work(n))).collect();
        barrier.wait();
        std::thread::sleep(Duration::from_millis(2));
        let begin = read();
        std::thread::sleep(window);
        let end = read();
        IS_OVER.store(true, Relaxed);
        let done = begin.2.iter().zip(&end.2).map(|(begin, end)| end - begin);
        sum.rates.push(done.clone().sum::<u64>() as f64 / (end.0 - begin.0).as_secs_f64());
        sum.by_thread.iter_mut().zip(done).for_each(|(sum, done)| *sum += done);
        sum.cpu_ns += end.1 - begin.1;
        for thread in threads {
            let (count, to_lock) = thread.join().expect("no worker panics");
            all += count;
            sum.to_lock.merge(&to_lock);
        }
    });
    // SAFETY: all workers have ended.
    assert_eq!(unsafe { *counter.0.get() }, all, "{} let two in", L::NAME);
}
