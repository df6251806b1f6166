//! holdfast's mutex beside its peers, interleaved in one run.
//!
//! `cargo bench -p holdfast --bench peers [-- --quick]`

mod locks;
mod work;

use locks::{ADAPTIVE, Holdfast, Lock, Mcs, ParkingLot, Pthread, Std, Ticket};
use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use work::{Histogram, IS_OVER};

/// One point of the matrix.
#[derive(Clone, Copy)]
struct Cell {
    threads: usize,
    inside_us: f64,
    outside_us: f64,
}

/// What one lock did in a cell, over all its rounds.
#[derive(Clone, Default)]
struct Sum {
    /// Operations in a second, by round.
    rates: Vec<f64>,
    /// Operations of each thread.
    by_thread: Vec<u64>,
    cpu_ns: u64,
    to_lock: Histogram,
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

type Runner = fn(Cell, Duration, f64, &mut Sum);

/// What a worker has done so far.
#[repr(align(128))]
#[derive(Default)]
struct Board(AtomicU64);

fn run<L: Lock>(cell: Cell, window: Duration, steps_per_us: f64, sum: &mut Sum) {
    let (lock, counter) = (L::new(), Counter(UnsafeCell::new(0)));
    let (inside, outside) = ((cell.inside_us * steps_per_us) as u32, (cell.outside_us * steps_per_us) as u32);
    // A reading of the clock is longer than a short section.
    let sampled = if cell.inside_us + cell.outside_us >= 1.0 { 0 } else { 31 };
    let barrier = Barrier::new(cell.threads + 1);
    let boards: Vec<Board> = (0..cell.threads).map(|_| Board::default()).collect();
    IS_OVER.store(false, Relaxed);
    sum.by_thread.resize(cell.threads, 0);
    let mut total = 0;
    let one = |board: &Board| {
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
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = boards.iter().map(|board| scope.spawn(move || one(board))).collect();
        let read = || (Instant::now(), work::cpu_ns(), boards.iter().map(|b| b.0.load(Relaxed)).collect::<Vec<_>>());
        barrier.wait();
        std::thread::sleep(Duration::from_millis(3));
        let begin = read();
        std::thread::sleep(window);
        let end = read();
        IS_OVER.store(true, Relaxed);
        let mut done = 0;
        for (all, (begin, end)) in sum.by_thread.iter_mut().zip(begin.2.iter().zip(&end.2)) {
            *all += end - begin;
            done += end - begin;
        }
        sum.cpu_ns += end.1 - begin.1;
        sum.rates.push(done as f64 / (end.0 - begin.0).as_secs_f64());
        for thread in threads {
            let (count, to_lock) = thread.join().expect("no worker panics");
            total += count;
            sum.to_lock.merge(&to_lock);
        }
    });
    // SAFETY: all workers have ended.
    assert_eq!(unsafe { *counter.0.get() }, total, "{} let two in", L::NAME);
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() { 0.0 } else { sorted[sorted.len() / 2] }
}

const LOCKS: [(&str, Runner); 7] = [
    (Holdfast::NAME, run::<Holdfast>),
    (Std::NAME, run::<Std>),
    (ParkingLot::NAME, run::<ParkingLot>),
    (Pthread::<0>::NAME, run::<Pthread<0>>),
    (Pthread::<ADAPTIVE>::NAME, run::<Pthread<ADAPTIVE>>),
    (Mcs::NAME, run::<Mcs>),
    (Ticket::NAME, run::<Ticket>),
];

fn main() {
    let get = |name: &str, def: &str| std::env::var(name).unwrap_or(def.to_owned());
    let nums = |name: &str, def: &str| -> Vec<f64> { get(name, def).split(',').map(|x| x.parse().unwrap()).collect() };
    let tunes: Vec<Vec<f64>> = get("TUNE", "6,0,0,500,30000,3000,0,32").split('/').map(|t| t.split(',').map(|x| x.parse().unwrap()).collect()).collect();
    let rounds = nums("ROUNDS", "3")[0] as usize;
    let ms = nums("MS", "60")[0] as u64;
    let which = get("LOCKS", "holdfast,std,parking_lot,pthread,MCS");
    let which: Vec<_> = which.split(',').collect();
    let steps = work::steps_per_us();
    let tpn = work::ticks_per_ns();
    eprintln!("steps/us {steps:.0} ticks/ns {tpn:.3}");
    let locks: Vec<_> = std::iter::repeat_n(&LOCKS[0], tunes.len()).chain(LOCKS[1..].iter().filter(|l| which.contains(&l.0))).collect();
    let nt = tunes.len();
    let mut logs = vec![];
    for &t in &nums("T", "1,2,4,16,64") {
        for &i in &nums("IN", "0,0.1,1,10") {
            for &o in &nums("OUT", "0,1,10,100") {
                let cell = Cell { threads: t as usize, inside_us: i, outside_us: o };
                let mut sums: Vec<Sum> = vec![Sum::default(); locks.len()];
                for r in 0..rounds {
                    for k in 0..locks.len() {
                        let k = (k + r) % locks.len();
                        locks[k].1(cell, Duration::from_millis(ms), steps, &mut sums[k]);
                    }
                }
                print!("t={t:<3} in={i:<4} out={o:<4}");
                for v in 0..nt {
                    let rs: Vec<f64> = sums[nt..].iter().map(|s| median(&s.rates.iter().zip(&sums[v].rates).map(|(p, m)| m / p).collect::<Vec<_>>())).collect(); let ratio = rs.iter().copied().fold(f64::MAX, f64::min);
                    logs.push(ratio.ln());
                    print!("{}{ratio:.2} ", if ratio < 0.95 { "*" } else { " " });
                }
                print!("|");
                for (l, s) in locks.iter().zip(&sums) {
                    let n: u64 = s.by_thread.iter().sum();
                    let fair = *s.by_thread.iter().min().unwrap() as f64 / *s.by_thread.iter().max().unwrap() as f64;
                    print!(" {:.4} {}k/s f{fair:.2} p{:.0}us c{:.2}us |", &l.0[..2], (median(&s.rates) / 1e3) as u64, s.to_lock.quantile(0.999) / tpn / 1e3, s.cpu_ns as f64 / n as f64 / 1e3);
                }
                println!();
            }
        }
    }
    for v in 0..nt {
        let l: Vec<f64> = logs.iter().skip(v).step_by(nt).copied().collect();
        println!("geomean {:.3} {:?}", (l.iter().sum::<f64>() / l.len() as f64).exp(), tunes[v]);
    }
}
