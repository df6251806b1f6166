//! holdfast's mutex beside its peers, interleaved in one run.
//!
//! `cargo bench -p holdfast --bench peers [-- OPTION...]`:
//!
//! - `--quick`: fewer cells, rounds and shorter windows
//! - `--table=uncontended|throughput|variants|fairness`: this table alone; may be repeated
//! - `--most-threads=N`, `--cell=THREADS,INSIDE,OUTSIDE` (may be repeated): these cells alone
//!
//! Four tables: what a lock costs that no other thread wants; throughput over the matrix of threads, work inside and work
//! outside; the same with other placements, with processes, and with a page fault or a system call inside; fairness, time to
//! lock and CPU time, in few long windows. A ratio is the median over rounds, in each of which all locks ran one after the other.
#![allow(clippy::print_stdout, reason = "a bench is for people at a terminal")]

mod cell;
mod locks;
mod uncontended;
mod work;

use cell::{Besides, Cell, MOST_WORKERS, Sum, median, run};
use holdfast::{Private, Shared};
use locks::{ADAPTIVE, Holdfast, Lock, Mcs, ParkingLot, Pthread, Std, Ticket};
use std::time::Duration;
use work::Placement;

/// What a lock is in the comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Sleeps,
    /// Waits for each thread's turn on a CPU: with more threads than [`MOST_THREADS_OF_SPINNERS`] it stands still, and takes
    /// seconds to end.
    Spins,
    /// As before, and shown without being compared.
    IsShown,
}

#[derive(Clone, Copy)]
struct Contender {
    name: &'static str,
    part: Part,
    run: fn(Cell, Duration, f64, &mut Sum),
}

const fn contender<L: Lock>(part: Part) -> Contender {
    Contender { name: L::NAME, part, run: run::<L> }
}

/// holdfast first.
const OF_THREADS: [Contender; 7] = [
    contender::<Holdfast<Private>>(Part::Sleeps),
    contender::<Std>(Part::Sleeps),
    contender::<ParkingLot>(Part::Sleeps),
    contender::<Pthread<0>>(Part::Sleeps),
    contender::<Pthread<ADAPTIVE>>(Part::Sleeps),
    contender::<Mcs>(Part::Spins),
    contender::<Ticket>(Part::IsShown),
];
/// Those that processes can share.
const OF_PROCESSES: [Contender; 5] = [
    contender::<Holdfast<Shared>>(Part::Sleeps),
    contender::<Pthread<0>>(Part::Sleeps),
    contender::<Pthread<ADAPTIVE>>(Part::Sleeps),
    contender::<Mcs>(Part::Spins),
    contender::<Ticket>(Part::IsShown),
];

const THREADS: [usize; 6] = [1, 2, 4, 16, 64, MOST_WORKERS];
const INSIDE_US: [f64; 4] = [0.0, 0.1, 1.0, 10.0];
const OUTSIDE_US: [f64; 4] = [0.0, 1.0, 10.0, 100.0];
const MOST_THREADS_OF_SPINNERS: usize = 4;

/// A cell as the first throughput table has it.
const PLAIN: Cell = Cell {
    workers: 1,
    inside_us: 0.0,
    outside_us: 0.0,
    placement: Placement::OnePerCpu,
    besides: Besides::Nothing,
    are_processes: false,
};
const VARIANTS: [(&str, Cell); 5] = [
    ("not pinned", Cell { placement: Placement::Anywhere, ..PLAIN }),
    ("all on one CPU", Cell { placement: Placement::OneCpu, ..PLAIN }),
    ("processes", Cell { are_processes: true, ..PLAIN }),
    ("page fault inside", Cell { besides: Besides::PageFault, ..PLAIN }),
    ("system call inside", Cell { besides: Besides::SystemCall, ..PLAIN }),
];

/// What is measured, and how long.
struct Effort {
    threads: Vec<usize>,
    cells: Vec<(usize, f64, f64)>,
    outside_us: &'static [f64],
    rounds: usize,
    window: Duration,
    long_rounds: usize,
    long_window: Duration,
    samples: usize,
    steps_per_us: f64,
}

impl Effort {
    fn asked() -> Self {
        let is_quick = std::env::args().any(|argument| argument == "--quick");
        let most = std::env::args().find_map(|argument| argument.strip_prefix("--most-threads=")?.parse().ok());
        let (ms, steps_per_us) = (Duration::from_millis, work::steps_per_us());
        let cells = std::env::args().filter_map(|argument| chosen(&argument)).collect();
        let mut effort = Effort {
            threads: THREADS.to_vec(),
            cells,
            outside_us: &OUTSIDE_US,
            rounds: 11,
            window: ms(6),
            long_rounds: 3,
            long_window: ms(200),
            samples: 101,
            steps_per_us,
        };
        if is_quick {
            let threads = THREADS[1..4].to_vec();
            let (rounds, window, outside_us) = (3, ms(5), &OUTSIDE_US[..3]);
            effort = Effort {
                threads,
                outside_us,
                rounds,
                window,
                long_rounds: 1,
                long_window: ms(100),
                samples: 21,
                ..effort
            };
        }
        effort.threads.retain(|threads| *threads <= most.unwrap_or(usize::MAX));
        effort
    }

    /// True if a cell is to be measured.
    fn wants(&self, cell: &Cell) -> bool {
        self.cells.is_empty() || self.cells.contains(&(cell.workers, cell.inside_us, cell.outside_us))
    }

    /// All locks in a cell, in fewer rounds where many threads make each one long.
    fn rounds(&self, cell: Cell, which: &[Contender]) -> Vec<Sum> {
        let rounds = if cell.workers > 16 { self.rounds.div_ceil(2) } else { self.rounds };
        self.measured(cell, which, rounds, self.window)
    }

    /// Round by round, each round beginning with another lock.
    fn measured(&self, cell: Cell, which: &[Contender], rounds: usize, window: Duration) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); which.len()];
        let share_a_cpu = cell.workers > 1 && cell.placement == Placement::OneCpu;
        let spinners_stand = cell.workers > MOST_THREADS_OF_SPINNERS || share_a_cpu;
        for round in 0..rounds {
            for n in 0..which.len() {
                let n = (n + round) % which.len();
                if which[n].part == Part::Sleeps || !spinners_stand {
                    (which[n].run)(cell, window, self.steps_per_us, &mut sums[n]);
                }
            }
        }
        sums
    }
}

fn main() {
    let effort = Effort::asked();
    let tables: Vec<String> =
        std::env::args().filter_map(|argument| argument.strip_prefix("--table=").map(str::to_owned)).collect();
    let wants = |table: &str| tables.is_empty() || tables.iter().any(|t| t == table);
    if wants("uncontended") && effort.cells.is_empty() {
        uncontended::table(effort.samples);
    }
    if wants("throughput") {
        throughput(&effort);
    }
    if wants("variants") {
        variants(&effort);
    }
    if wants("fairness") {
        fairness(&effort);
    }
}

/// The cell that an argument asks for alone.
fn chosen(argument: &str) -> Option<(usize, f64, f64)> {
    let mut parts = argument.strip_prefix("--cell=")?.split(',');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The median over rounds of the first lock's rate over another's; endless where the other was not run or stood still.
fn ratio(first: &Sum, other: &Sum) -> f64 {
    if other.rates.is_empty() {
        return f64::INFINITY;
    }
    // One operation more, for windows without any.
    median(first.rates.iter().zip(&other.rates).map(|(first, other)| (first + 1.0) / (other + 1.0)).collect())
}

/// A row of a table of throughput.
struct Row {
    group: String,
    to_best: f64,
    /// The ratio to each of those that are compared with.
    to_each: Vec<(&'static str, f64)>,
}

/// Measures a cell, and prints its row.
fn row(effort: &Effort, group: String, cell: Cell, which: &[Contender]) -> Row {
    let sums = effort.rounds(cell, which);
    let compared = which.iter().zip(&sums).skip(1).filter(|(lock, _)| lock.part != Part::IsShown);
    let to_each: Vec<_> = compared.map(|(lock, sum)| (lock.name, ratio(&sums[0], sum))).collect();
    let (best, to_best) = *to_each.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are peers");
    let rate = |sum: &Sum| if sum.rates.is_empty() { "–".to_owned() } else { format!("{:.0}", sum.rate() / 1e3) };
    let rates = sums.iter().map(rate).collect::<Vec<_>>().join(" | ");
    println!("| {group} | {} | {} | {to_best:.2} | {best} | {rates} |", cell.inside_us, cell.outside_us);
    Row { group, to_best, to_each }
}

fn heading(first: &str, which: &[Contender]) {
    let names = which.iter().map(|lock| lock.name).collect::<Vec<_>>().join(", k/s | ");
    println!("\n| {first} | inside, us | outside, us | ratio to best | best | {names}, k/s |");
    println!("|--:|--:|--:|--:|---|{}", "--:|".repeat(which.len()));
}

fn throughput(effort: &Effort) {
    heading("threads", &OF_THREADS);
    let mut rows = Vec::new();
    for &workers in &effort.threads {
        for inside_us in INSIDE_US {
            for &outside_us in effort.outside_us {
                let cell = Cell { workers, inside_us, outside_us, ..PLAIN };
                if effort.wants(&cell) {
                    rows.push(row(effort, workers.to_string(), cell, &OF_THREADS));
                }
            }
        }
    }
    summary(&rows, "threads");
}

fn variants(effort: &Effort) {
    let mut rows = Vec::new();
    for (name, plain) in VARIANTS {
        let which: &[Contender] = if plain.are_processes { &OF_PROCESSES } else { &OF_THREADS };
        println!("\n{name}:");
        heading("workers", which);
        for &workers in effort.threads.iter().filter(|n| (2..=64).contains(*n)) {
            for inside_us in &INSIDE_US[1..] {
                for outside_us in &OUTSIDE_US[..3] {
                    let cell = Cell { workers, inside_us: *inside_us, outside_us: *outside_us, ..plain };
                    if effort.wants(&cell) {
                        rows.push(Row { group: name.to_owned(), ..row(effort, workers.to_string(), cell, which) });
                    }
                }
            }
        }
    }
    summary(&rows, "");
}

/// The geometric mean of the finite ones.
fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let finite = values.filter(|value| value.is_finite());
    (finite.clone().map(f64::ln).sum::<f64>() / finite.count() as f64).exp()
}

fn summary(rows: &[Row], unit: &str) {
    let mut groups: Vec<Option<&str>> = rows.iter().map(|row| Some(row.group.as_str())).collect();
    groups.dedup();
    println!("\nGeometric means over cells, and cells below 0.95 of the best:");
    for group in groups.into_iter().chain([None]) {
        let rows: Vec<_> = rows.iter().filter(|row| group.is_none_or(|group| group == row.group)).collect();
        let each = OF_THREADS[1..].iter().filter_map(|lock| {
            let of = |row: &&Row| row.to_each.iter().find(|(name, _)| *name == lock.name).map(|(_, ratio)| *ratio);
            let ratios: Vec<f64> = rows.iter().filter_map(of).filter(|ratio| ratio.is_finite()).collect();
            (!ratios.is_empty()).then(|| format!("{} {:.2}", lock.name, mean(ratios.iter().copied())))
        });
        let below = rows.iter().filter(|row| row.to_best < 0.95).count();
        let (to_best, each) = (mean(rows.iter().map(|row| row.to_best)), each.collect::<Vec<_>>().join(", "));
        let whose = group.map_or("all".to_owned(), |group| format!("{group} {unit}").trim_end().to_owned());
        println!("- {whose}: to the best {to_best:.2}; {each}; {below} of {} below", rows.len());
    }
}

fn fairness(effort: &Effort) {
    let which = &OF_THREADS[..4];
    let ticks_per_ns = work::ticks_per_ns();
    let names = which.iter().map(|lock| lock.name).collect::<Vec<_>>().join(" | ");
    println!("\nFairness (least over most acquisitions) / 99.9 % of time to lock, us / CPU time per operation, us:\n");
    println!("| threads | inside, us | outside, us | {names} |\n|--:|--:|--:|{}", "--:|".repeat(which.len()));
    for &workers in effort.threads.iter().filter(|threads| **threads > 1) {
        for (inside_us, outside_us) in [(0.1, 0.0), (1.0, 0.0), (1.0, 10.0), (10.0, 0.0), (10.0, 10.0)] {
            let cell = Cell { workers, inside_us, outside_us, ..PLAIN };
            if !effort.wants(&cell) {
                continue;
            }
            let said = effort.measured(cell, which, effort.long_rounds, effort.long_window).into_iter().map(|sum| {
                let p999 = sum.to_lock_us_p999(ticks_per_ns);
                format!("{:.2} / {p999:.1} / {:.2}", sum.fairness(), sum.cpu_us())
            });
            println!("| {workers} | {inside_us} | {outside_us} | {} |", said.collect::<Vec<_>>().join(" | "));
        }
    }
}
