//! One cell of the matrix, run with one lock.

use crate::locks::{Lock, Node, Spot};
use crate::work::{self, Histogram, Pages, Placement};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The most workers of a cell.
pub(crate) const MOST_WORKERS: usize = 256;

/// What is done under the lock besides the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Besides {
    Nothing,
    PageFault,
    /// getppid(2).
    SystemCall,
}

/// One point of the matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) workers: usize,
    pub(crate) inside_us: f64,
    pub(crate) outside_us: f64,
    pub(crate) placement: Placement,
    pub(crate) besides: Besides,
    /// Workers are processes, not threads of one.
    pub(crate) are_processes: bool,
}

impl Cell {
    /// Long enough for each worker to have the CPU several times, where they share it.
    fn window(self, short: Duration) -> Duration {
        let each = match self.placement {
            Placement::OnePerCpu if self.workers <= 16 => return short,
            Placement::OnePerCpu => Duration::from_micros(1500) * self.workers as u32,
            Placement::Anywhere | Placement::OneCpu => Duration::from_millis(3) * self.workers as u32,
        };
        each.max(short).max(Duration::from_millis(30))
    }
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

/// What a worker has done so far, on cache lines that no other has.
#[repr(align(128))]
struct Board {
    count: AtomicU64,
    node: Node,
    /// Written by its worker alone, and read when that has ended.
    to_lock: UnsafeCell<Histogram>,
}

/// What the workers of a cell have in common; memory of zeros is one.
#[repr(C, align(128))]
struct Region<L> {
    lock: MaybeUninit<L>,
    /// Counts the sections, under the lock.
    counter: UnsafeCell<u64>,
    apart: [u64; 16],
    ready: AtomicU32,
    begins: AtomicBool,
    is_over: AtomicBool,
    boards: [Board; MOST_WORKERS],
}
// SAFETY: the lock under test is held where the counter is touched; that it was is checked at the end.
unsafe impl<L: Sync> Sync for Region<L> {}

/// A region that processes share, until it is dropped.
struct Mapped<L>(*mut Region<L>);

impl<L: Lock> Mapped<L> {
    fn new(is_shared: bool) -> Self {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE);
        // SAFETY: new memory, of zeros.
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Region<L>>(), access, kind, -1, 0) };
        assert_ne!(begin, libc::MAP_FAILED, "there is memory");
        let region: *mut Region<L> = begin.cast();
        // SAFETY: no other thread has it yet.
        L::init(unsafe { &mut (*region).lock }, is_shared);
        Mapped(region)
    }
}

impl<L> Drop for Mapped<L> {
    fn drop(&mut self) {
        // SAFETY: the workers have ended.
        unsafe { libc::munmap(self.0.cast(), size_of::<Region<L>>()) };
    }
}

/// Runs a cell for one window after a warm-up, and adds what was done.
pub(crate) fn run<L: Lock>(cell: Cell, window: Duration, steps_per_us: f64, sum: &mut Sum) {
    let mapped = Mapped::<L>::new(cell.are_processes);
    // SAFETY: it lives as long as `mapped`.
    let region = unsafe { &*mapped.0 };
    let work = |n: usize| worker(region, n, cell, steps_per_us);
    sum.by_thread.resize(cell.workers, 0);
    if cell.are_processes {
        let children: Vec<libc::pid_t> = (0..cell.workers).map(|n| forked(|| work(n))).collect();
        measure(region, cell, window, sum);
        for child in children {
            // SAFETY: a child of ours.
            assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child, "a worker ended");
        }
    } else {
        std::thread::scope(|scope| {
            let work = &work;
            (0..cell.workers).for_each(|n| _ = scope.spawn(move || work(n)));
            measure(region, cell, window, sum);
        });
    }
    let boards = &region.boards[..cell.workers];
    // SAFETY: all workers have ended.
    let (all, histograms) = unsafe { (*region.counter.get(), boards.iter().map(|b| &*b.to_lock.get())) };
    assert_eq!(all, boards.iter().map(|b| b.count.load(Relaxed)).sum::<u64>(), "{} let two in", L::NAME);
    histograms.for_each(|more| sum.to_lock.merge(more));
}

/// A child that ends with what it does, and with this process.
fn forked(work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: this process has no other threads now; the child ends here.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "there is room for a process");
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            work();
            libc::_exit(0);
        }
        child
    }
}

fn worker<L: Lock>(region: &Region<L>, n: usize, cell: Cell, steps_per_us: f64) {
    let steps = |us: f64| (us * steps_per_us) as u32;
    let (inside, outside) = (steps(cell.inside_us), steps(cell.outside_us));
    // A reading of the clock is longer than a short section.
    let sampled = if cell.inside_us + cell.outside_us >= 1.0 { 0 } else { 31 };
    let board = &region.boards[n];
    let spot = Spot { node: &board.node, is_over: &region.is_over };
    // SAFETY: it was initialised before the workers began.
    let lock: &L = unsafe { region.lock.assume_init_ref() };
    let mut pages = Pages::new();
    work::place(cell.placement, n);
    region.ready.fetch_add(1, Relaxed);
    while !region.begins.load(Relaxed) {
        std::thread::sleep(Duration::from_micros(100));
    }
    let mut count = 0;
    while !region.is_over.load(Relaxed) {
        let is_timed = count & sampled == 0;
        let begin = if is_timed { work::ticks() } else { 0 };
        lock.with(&spot, || {
            if is_timed {
                // SAFETY: this worker's alone.
                unsafe { (*board.to_lock.get()).add(work::ticks().saturating_sub(begin)) };
            }
            work::chain(inside);
            match cell.besides {
                Besides::Nothing => {}
                Besides::PageFault => pages.fault(),
                // SAFETY: it takes nothing.
                Besides::SystemCall => _ = unsafe { libc::syscall(libc::SYS_getppid) },
            }
            // SAFETY: the lock is held.
            unsafe { *region.counter.get() += 1 };
        });
        count += 1;
        board.count.store(count, Relaxed);
        pages.prepare();
        work::chain(outside);
    }
}

/// Lets the workers begin, measures a window, and ends them.
fn measure<L>(region: &Region<L>, cell: Cell, window: Duration, sum: &mut Sum) {
    while region.ready.load(Relaxed) < cell.workers as u32 {
        std::thread::sleep(Duration::from_micros(100));
    }
    let window = cell.window(window);
    let counts = || region.boards[..cell.workers].iter().map(|b| b.count.load(Relaxed)).collect::<Vec<_>>();
    let read = || (Instant::now(), work::cpu_ns(), counts());
    region.begins.store(true, Relaxed);
    std::thread::sleep(Duration::from_millis(2).max(window / 10));
    let begin = read();
    std::thread::sleep(window);
    let end = read();
    region.is_over.store(true, Relaxed);
    let done = begin.2.iter().zip(&end.2).map(|(begin, end)| end - begin);
    sum.rates.push(done.clone().sum::<u64>() as f64 / (end.0 - begin.0).as_secs_f64());
    sum.by_thread.iter_mut().zip(done).for_each(|(sum, done)| *sum += done);
    sum.cpu_ns += end.1 - begin.1;
}
