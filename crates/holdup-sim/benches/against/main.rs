//! The simulator beside the machine that it runs on: `lock-contention` over algorithms, threads, sections and faults.
//!
//! `cargo bench -p holdup-sim --bench against -- --machine FILE --holdup PATH [--keep FILE] [--blocks N]` measures every cell
//! with the `holdup` binary and simulates it, with the costs that `holdup calibrate` measured alone, and once more with the
//! few costs in `fit` chosen so that the cells come out. A fifth of the cells is kept out of that, chosen by their
//! number alone, and is reported apart. `--measured FILE` takes what an earlier run kept instead of measuring. On a host that
//! others use, run it in its own session whose autogroup has nice -20.
#![expect(clippy::print_stdout, reason = "a bench prints its result")]

mod fit;

use holdup_sim::machine::{Described, Machine};
use holdup_sim::program::{Op, Program};
use holdup_sim::random::Span;
use holdup_sim::workloads::lock_contention::{Setup, load};
use holdup_sim::world::{Load, TaskSpec, World};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

const ALGORITHMS: &[&str] = &["tas", "ttas-backoff", "postgres-s-lock", "ticket", "futex-mutex", "pthread-mutex"];
const THREADS: &[u32] = &[1, 2, 4, 8];
const SECTIONS_NS: &[u64] = &[100, 1_000, 10_000];
const FAULTS: &[u32] = &[0, 1, 4];
const THINK_NS: u64 = 1_000;

/// What is measured and simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    faults: u32,
    section_ns: u64,
    threads: u32,
    algorithm: &'static str,
}

/// Every cell, in the order of their numbers.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for &faults in FAULTS {
        for &section_ns in SECTIONS_NS {
            for &threads in THREADS {
                for &algorithm in ALGORITHMS {
                    cells.push(Cell { faults, section_ns, threads, algorithm });
                }
            }
        }
    }
    cells
}

/// True if the cell with this number was kept out of calibration.
fn is_held_out(number: usize) -> bool {
    (number * 7 + number / 6).is_multiple_of(5)
}

/// What the loop around an operation takes: the phase that it looks at, its counters, the acquisitions that it times.
/// Measured with one thread and 100 ns.
const LOOP_NS: u64 = 25;

/// What others on this host take, as a task of each CPU that runs now and then for so long: more than a slower CPU, as a fair
/// lock loses what is taken from any of its workers. This is how often.
const NEIGHBOUR_SLEEPS_NS: u64 = 14_000_000;

/// A machine, and how long a neighbour on each of its CPUs runs each time.
#[derive(Clone)]
struct Host {
    machine: Machine,
    neighbour_runs_ns: u64,
}

impl Host {
    fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).expect("the machine file can be read");
        let described = Described::parse(&file.display().to_string(), &text).expect("a machine file");
        Host { machine: described.machine, neighbour_runs_ns: 0 }
    }
}

fn add_neighbours(load: &mut Load, host: &Host) {
    if host.neighbour_runs_ns == 0 {
        return;
    }
    let ops = vec![
        Op::Sleep(Span::Exponential(NEIGHBOUR_SLEEPS_NS)),
        Op::Compute(Span::Exponential(host.neighbour_runs_ns)),
        Op::Jump(0),
    ];
    load.programs.push(Program::new("neighbour", ops));
    let program = load.programs.len() as u32 - 1;
    let neighbour = |cpu| TaskSpec { pinned: Some(cpu), ..TaskSpec::new(program, 0) };
    load.tasks.extend((0..host.machine.topology.cpus()).map(neighbour));
}

/// Operations per second of the simulated machine in a window of this length, ms: the median over seeds.
fn simulated(host: &Host, cell: &Cell, window_ms: u64, seeds: u64) -> f64 {
    let setup = Setup {
        workers: cell.threads,
        algorithm: cell.algorithm,
        section_ns: cell.section_ns,
        think_ns: THINK_NS + LOOP_NS,
        processes: false,
        faults: cell.faults,
        touches_before: false,
        huge: false,
        pin: false,
    };
    let mut load = load(&setup, host.machine.topology.cpus());
    add_neighbours(&mut load, host);
    let warm_up_ns = window_ms * 200_000;
    let rates = (1..=seeds).map(|seed| {
        let mut world = World::new(&host.machine, &load, seed);
        world.run_until(warm_up_ns);
        world.open();
        world.run_until(warm_up_ns + window_ms * 1_000_000);
        world.close().marks[0].count as f64 / (window_ms as f64 / 1e3)
    });
    median(rates.collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn list<T: ToString>(values: &[T], unit: &str) -> String {
    values.iter().map(|v| v.to_string() + unit).collect::<Vec<_>>().join(",")
}

/// Measures every cell in one run, so that blocks interleave them all: this host may be faster now than in a minute.
fn measure(holdup: &Path, blocks: &str) -> BTreeMap<String, Vec<f64>> {
    let dir = std::env::temp_dir().join(format!("holdup-against-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder for the bundle");
    let bundle = dir.join("against.holdup");
    let status = Command::new(holdup)
        .env("HOLDUP_WAIT", "1h")
        .args(["run", "lock-contention", "--quiet", "--collect", "none", "--blocks", blocks])
        .args(["--threads", &list(THREADS, ""), "--algorithm", &list(ALGORITHMS, "")])
        .args(["--section", &list(SECTIONS_NS, "ns"), "--think", &format!("{THINK_NS}ns")])
        .args(["--set", &format!("faults={}", list(FAULTS, ""))])
        .args(["--duration", "200ms", "--warmup", "50ms", "--out"])
        .arg(&bundle)
        .status();
    assert!(status.expect("holdup starts").success(), "holdup run failed");
    let report = Command::new(holdup).args(["report", "--json"]).arg(&bundle).output().expect("holdup starts");
    std::fs::remove_dir_all(&dir).expect("the folder goes");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("a report in JSON");
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for trial in report["trials"].as_array().expect("trials") {
        let arm = &report["arms"][trial["arm"].as_u64().expect("an arm") as usize]["axes"];
        let number = |axis: &str| arm[axis]["value"].as_u64().expect("a number");
        let algorithm = arm["algorithm"]["value"].as_str().expect("an algorithm");
        let cell = format!("{},{},{},{algorithm}", number("faults"), number("section"), number("threads"));
        let measurements = trial["measurements"].as_array().expect("measurements").iter();
        let rate = measurements.filter(|m| m["metric"] == "operations_per_s").find_map(|m| m["value"].as_f64());
        rates.entry(cell).or_default().extend(rate);
    }
    rates.retain(|_, rates| !rates.is_empty());
    rates
}

/// What was measured, by cell.
fn measured(arguments: &Arguments) -> BTreeMap<Cell, f64> {
    let text = match &arguments.measured {
        Some(file) => std::fs::read_to_string(file).expect("what was measured can be read"),
        None => {
            let mut text = String::new();
            for (cell, rates) in measure(&arguments.holdup, &arguments.blocks) {
                writeln!(text, "{cell},{:.1}", median(rates)).expect("memory");
            }
            text
        }
    };
    if let Some(file) = &arguments.keep {
        std::fs::write(file, &text).expect("what was measured can be kept");
    }
    let rates: BTreeMap<&str, f64> = text
        .lines()
        .filter_map(|line| line.rsplit_once(','))
        .map(|(cell, rate)| (cell, rate.parse().expect("a rate")))
        .collect();
    let key = |c: &Cell| format!("{},{},{},{}", c.faults, c.section_ns, c.threads, c.algorithm);
    cells().into_iter().filter_map(|c| Some((c, *rates.get(key(&c).as_str())?))).collect()
}

struct Arguments {
    machine: PathBuf,
    holdup: PathBuf,
    measured: Option<PathBuf>,
    keep: Option<PathBuf>,
    blocks: String,
}

fn arguments() -> Arguments {
    let mut read = Arguments {
        machine: PathBuf::new(),
        holdup: "holdup".into(),
        measured: None,
        keep: None,
        blocks: "5".to_owned(),
    };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--machine" => read.machine = value.into(),
            "--holdup" => read.holdup = value.into(),
            "--measured" => read.measured = Some(value.into()),
            "--keep" => read.keep = Some(value.into()),
            "--blocks" => read.blocks = value,
            _ => panic!("{word}: it is --machine, --holdup, --measured, --keep or --blocks"),
        }
    }
    read
}

/// One cell's outcome.
struct Outcome {
    cell: Cell,
    held_out: bool,
    measured: f64,
    simulated: f64,
}

impl Outcome {
    fn error(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }
}

fn main() {
    let arguments = arguments();
    let alone = Host::read(&arguments.machine);
    let measured = measured(&arguments);
    println!("\n== costs as measured alone");
    print(&alone, &measured);
    let (fitted, costs) = fit::fit(&alone, &measured);
    println!("\n== with these chosen by the cells that are not held out");
    for (name, before, after) in costs {
        println!("{name:<20} {before:>7} to {after:>7} ns");
    }
    print(&fitted, &measured);
}

/// Simulates every cell and says how far off it is.
fn print(host: &Host, measured: &BTreeMap<Cell, f64>) {
    let all = cells();
    let chosen: Vec<Cell> = all.iter().copied().filter(|cell| measured.contains_key(cell)).collect();
    let rates = on_all_cpus(&chosen, |cell| simulated(host, cell, 500, 3));
    let mut outcomes = Vec::new();
    for (cell, simulated) in chosen.into_iter().zip(rates) {
        let number = all.iter().position(|c| *c == cell).expect("a cell");
        let outcome = Outcome { cell, held_out: is_held_out(number), measured: measured[&cell], simulated };
        let Cell { faults, section_ns, threads, algorithm } = cell;
        println!(
            "faults {faults}  section {section_ns:>6} ns  threads {threads}  {algorithm:<16} measured {:>9.0}  simulated \
             {:>9.0}  {:>+6.1} %{}",
            outcome.measured,
            outcome.simulated,
            outcome.error() * 100.0,
            if outcome.held_out { "  held out" } else { "" },
        );
        outcomes.push(outcome);
    }
    sum_up("all cells", &outcomes, |_| true);
    sum_up("calibrated", &outcomes, |o| !o.held_out);
    sum_up("held out", &outcomes, |o| o.held_out);
    for algorithm in ALGORITHMS {
        sum_up(algorithm, &outcomes, |o| o.cell.algorithm == *algorithm);
    }
    for threads in THREADS {
        sum_up(&format!("{threads} threads"), &outcomes, |o| o.cell.threads == *threads);
    }
    for faults in FAULTS {
        sum_up(&format!("{faults} faults"), &outcomes, |o| o.cell.faults == *faults);
    }
}

/// What a function gives for each cell, computed on all CPUs, in the order of the cells.
fn on_all_cpus(cells: &[Cell], of: impl Fn(&Cell) -> f64 + Sync) -> Vec<f64> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut done = Vec::new();
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*cell, of(cell)));
        }
        done
    };
    let rates: BTreeMap<Cell, f64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("it does not panic")).collect()
    });
    cells.iter().map(|cell| rates[cell]).collect()
}

/// The limits: median at most 15 %, 90 % within 30 %, the order right in 95 % of the pairs that differ by over 10 %.
fn sum_up(name: &str, outcomes: &[Outcome], chosen: impl Fn(&Outcome) -> bool) {
    let chosen: Vec<&Outcome> = outcomes.iter().filter(|o| chosen(o)).collect();
    if chosen.is_empty() {
        return;
    }
    let errors: Vec<f64> = chosen.iter().map(|o| o.error().abs()).collect();
    let within = errors.iter().filter(|e| **e <= 0.3).count();
    let (mut pairs, mut right) = (0, 0);
    for (place, a) in chosen.iter().enumerate() {
        for b in &chosen[place + 1..] {
            // The order of algorithms: all else is the same.
            let same = |o: &Outcome| (o.cell.faults, o.cell.section_ns, o.cell.threads);
            if same(a) == same(b) && (a.measured / b.measured).ln().abs() > 1.1_f64.ln() {
                pairs += 1;
                right += usize::from((a.measured > b.measured) == (a.simulated > b.simulated));
            }
        }
    }
    println!(
        "{name:<16} {:>3} cells: median error {:>5.1} %, within 30 %: {:>5.1} %, order right: {right} of {pairs} pairs",
        chosen.len(),
        median(errors.clone()) * 100.0,
        100.0 * within as f64 / chosen.len() as f64,
    );
}
