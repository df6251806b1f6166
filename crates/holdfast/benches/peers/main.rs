//! holdfast's mutex beside its peers, interleaved in one run.
//!
//! `cargo bench -p holdfast --bench peers [-- --quick] [--unpinned] [--most-threads=N] [--cell=THREADS,INSIDE,OUTSIDE]...`. Three tables: what a lock costs that no other thread wants; throughput over the
//! matrix of threads, work inside and work outside, in many short windows; fairness, time to lock and CPU time, in
//! few long ones. A ratio is the median over rounds, in each of which all locks ran one after the other.
#![allow(clippy::print_stdout, reason = "a bench is for people at a terminal")]

mod cell;
mod locks;
mod uncontended;
mod work;

use cell::{Cell, Sum, median, run};
use locks::{ADAPTIVE, Holdfast, Lock, Mcs, ParkingLot, Pthread, Std, Ticket};
use std::time::Duration;

type Runner = fn(Cell, Duration, f64, &mut Sum);

/// holdfast first, then those that it is compared with, then one that is shown alone.
const LOCKS: [(&str, Runner); 7] = [
    (Holdfast::NAME, run::<Holdfast>),
    (Std::NAME, run::<Std>),
    (ParkingLot::NAME, run::<ParkingLot>),
    (Pthread::<0>::NAME, run::<Pthread<0>>),
    (Pthread::<ADAPTIVE>::NAME, run::<Pthread<ADAPTIVE>>),
    (Mcs::NAME, run::<Mcs>),
    (Ticket::NAME, run::<Ticket>),
];
const PEERS: std::ops::Range<usize> = 1..6;
/// Those that sleep, which the second table compares.
const SLEEPING: [usize; 4] = [0, 1, 2, 3];

const THREADS: [usize; 5] = [1, 2, 4, 16, 64];
const INSIDE_US: [f64; 4] = [0.0, 0.1, 1.0, 10.0];
const OUTSIDE_US: [f64; 4] = [0.0, 1.0, 10.0, 100.0];

/// Queues that spin wait for each thread's turn on a CPU: with more threads than this they stand still, and take seconds to end.
const MOST_THREADS_OF_SPINNERS: usize = 4;
const SPINNERS: [usize; 2] = [5, 6];

/// Cells, rounds and windows.
struct Effort {
    threads: &'static [usize],
    outside_us: &'static [f64],
    is_pinned: bool,
    rounds: usize,
    window: Duration,
    long_rounds: usize,
    long_window: Duration,
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let ms = Duration::from_millis;
    let is_pinned = !std::env::args().any(|argument| argument == "--unpinned");
    let effort = if is_quick {
        Effort {
            threads: &THREADS[1..4],
            outside_us: &OUTSIDE_US[..3],
            is_pinned,
            rounds: 3,
            window: ms(5),
            long_rounds: 1,
            long_window: ms(100),
        }
    } else {
        Effort {
            threads: &THREADS,
            outside_us: &OUTSIDE_US,
            is_pinned,
            rounds: 11,
            window: ms(6),
            long_rounds: 3,
            long_window: ms(200),
        }
    };
    let most = std::env::args().find_map(|argument| argument.strip_prefix("--most-threads=")?.parse().ok());
    let wanted = effort.threads.iter().filter(|threads| **threads <= most.unwrap_or(usize::MAX)).count();
    let effort = Effort { threads: &effort.threads[..wanted], ..effort };
    let (steps_per_us, ticks_per_ns) = (work::steps_per_us(), work::ticks_per_ns());
    let cells: Vec<_> = std::env::args().filter_map(|argument| chosen(&argument)).collect();
    if cells.is_empty() {
        uncontended::table(if is_quick { 21 } else { 101 });
    }
    throughput(&effort, &cells, steps_per_us);
    fairness(&effort, &cells, steps_per_us, ticks_per_ns);
}

/// The cell that an argument asks for alone.
fn chosen(argument: &str) -> Option<(usize, f64, f64)> {
    let mut parts = argument.strip_prefix("--cell=")?.split(',');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// All locks in a cell, round by round, each round beginning with another one.
fn rounds(cell: Cell, which: &[usize], rounds: usize, window: Duration, steps_per_us: f64) -> Vec<Sum> {
    let mut sums = vec![Sum::default(); which.len()];
    for round in 0..rounds {
        for n in 0..which.len() {
            let n = (n + round) % which.len();
            if cell.threads > MOST_THREADS_OF_SPINNERS && SPINNERS.contains(&which[n]) {
                continue;
            }
            LOCKS[which[n]].1(cell, window, steps_per_us, &mut sums[n]);
        }
    }
    sums
}

/// The median over rounds of the first lock's rate over another's; endless where the other was not run or stood still.
fn ratio(first: &Sum, other: &Sum) -> f64 {
    if other.rates.is_empty() {
        return f64::INFINITY;
    }
    // One operation more, for windows without any.
    median(first.rates.iter().zip(&other.rates).map(|(first, other)| (first + 1.0) / (other + 1.0)).collect())
}

fn throughput(effort: &Effort, chosen: &[(usize, f64, f64)], steps_per_us: f64) {
    let names = LOCKS.map(|(name, _)| name);
    println!("\n| threads | inside, us | outside, us | ratio to best | best | {}, k/s |", names.join(", k/s | "));
    println!("|--:|--:|--:|--:|---|{}", "--:|".repeat(LOCKS.len()));
    let mut ratios = Vec::new();
    for &threads in effort.threads {
        for inside_us in INSIDE_US {
            for &outside_us in effort.outside_us {
                if !chosen.is_empty() && !chosen.contains(&(threads, inside_us, outside_us)) {
                    continue;
                }
                let cell = Cell { threads, inside_us, outside_us, is_pinned: effort.is_pinned };
                let all: Vec<usize> = (0..LOCKS.len()).collect();
                let sums = rounds(cell, &all, effort.rounds, effort.window, steps_per_us);
                let peers = PEERS.map(|n| (ratio(&sums[0], &sums[n]), LOCKS[n].0));
                let (to_best, best) = peers.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are peers");
                let rates: Vec<String> = sums
                    .iter()
                    .map(|sum| match sum.rates.is_empty() {
                        true => "–".to_owned(),
                        false => format!("{:.0}", sum.rate() / 1e3),
                    })
                    .collect();
                println!("| {threads} | {inside_us} | {outside_us} | {to_best:.2} | {best} | {} |", rates.join(" | "));
                ratios.push((threads, to_best, PEERS.map(|n| ratio(&sums[0], &sums[n])).collect::<Vec<_>>()));
            }
        }
    }
    summary(&ratios, effort.threads);
}

/// The geometric mean of the finite ones.
fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let finite = values.filter(|value| value.is_finite());
    (finite.clone().map(f64::ln).sum::<f64>() / finite.count() as f64).exp()
}

fn summary(ratios: &[(usize, f64, Vec<f64>)], threads: &[usize]) {
    println!("\nGeometric means over cells, and cells below 0.95 of the best:");
    for threads in threads.iter().map(|n| Some(*n)).chain([None]) {
        let cells: Vec<_> = ratios.iter().filter(|cell| threads.is_none_or(|n| n == cell.0)).collect();
        let each = PEERS.map(|n| {
            let ratios = cells.iter().map(move |cell| cell.2[n - PEERS.start]);
            // Not run with that number of threads.
            let is_known = ratios.clone().any(f64::is_finite);
            let mean = if is_known { format!("{:.2}", mean(ratios)) } else { "–".to_owned() };
            format!("{} {mean}", LOCKS[n].0)
        });
        let below = cells.iter().filter(|cell| cell.1 < 0.95).count();
        let whose = threads.map_or("all".to_owned(), |n| format!("{n} threads"));
        let (to_best, each) = (mean(cells.iter().map(|cell| cell.1)), each.collect::<Vec<_>>().join(", "));
        println!("- {whose}: to the best {to_best:.2}; {each}; {below} of {} below", cells.len());
    }
}

fn fairness(effort: &Effort, chosen: &[(usize, f64, f64)], steps_per_us: f64, ticks_per_ns: f64) {
    let names = SLEEPING.map(|n| LOCKS[n].0).join(" | ");
    println!("\nFairness (least over most acquisitions) / 99.9 % of time to lock, us / CPU time per operation, us:\n");
    println!("| threads | inside, us | outside, us | {names} |\n|--:|--:|--:|{}", "--:|".repeat(SLEEPING.len()));
    for threads in effort.threads.iter().copied().filter(|threads| *threads > 1) {
        for (inside_us, outside_us) in [(0.1, 0.0), (1.0, 0.0), (1.0, 10.0), (10.0, 0.0), (10.0, 10.0)] {
            if !chosen.is_empty() && !chosen.contains(&(threads, inside_us, outside_us)) {
                continue;
            }
            let cell = Cell { threads, inside_us, outside_us, is_pinned: effort.is_pinned };
            let sums = rounds(cell, &SLEEPING, effort.long_rounds, effort.long_window, steps_per_us);
            let said = sums.iter().map(|sum| {
                let p999 = sum.to_lock_us_p999(ticks_per_ns);
                format!("{:.2} / {p999:.1} / {:.2}", sum.fairness(), sum.cpu_us())
            });
            println!("| {threads} | {inside_us} | {outside_us} | {} |", said.collect::<Vec<_>>().join(" | "));
        }
    }
}
