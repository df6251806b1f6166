//! The simulator beside the machine that it runs on: `lock-contention` over algorithms, threads, sections and faults.
//!
//! `cargo bench -p holdup-sim --bench against -- --holdup PATH [--keep FILE] [--blocks N]` measures every cell with the
//! `holdup` binary and simulates it; `--measured FILE` takes what an earlier run kept instead of measuring. A fifth of
//! the cells was kept out of calibration, chosen by their number alone, and is reported apart. The costs below are
//! those of the machine that they were measured on; on another one they must be measured anew. On a host that others use,
//! run it in a session of its own whose autogroup has nice -20: the neighbours that are left are part of the simulation.
#![expect(clippy::print_stdout, reason = "a bench tells its result")]

use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::preempt;
use holdup_sim::program::{Op, Program};
use holdup_sim::random::Span;
use holdup_sim::workloads::lock_contention::{Setup, load};
use holdup_sim::world::{Load, TaskSpec, World};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Whether the cell with this number was kept out of calibration.
fn is_held_out(number: usize) -> bool {
    (number * 7 + number / 6).is_multiple_of(5)
}

/// The machine that the costs were measured on: two CPUs of a guest, two cores that share a last level cache.
fn machine() -> Machine {
    Machine {
        topology: Topology { smt: 1, cores: 2, llcs: 1, nodes: 1 },
        costs: Costs {
            // Two threads that give way to each other on one CPU, less the call.
            switch_ns: 1_500,
            // FUTEX_WAKE without a sleeper 284 ns, FUTEX_WAIT on another value 383 ns.
            syscall_ns: 350,
            wake_ns: 1_000,
            ipi_ns: 1_500,
            // What a releaser loses to each wake-up on the other CPU: an exit to the hypervisor. From two threads with
            // futex-mutex: the time between two sleeps, less the operations done in it.
            ipi_send_ns: 14_000,
            // The same cells: how long a sleeper is away. An idle CPU of this guest halts, and nothing polls
            // (guest_halt_poll_ns is 0).
            idle_exit_ns: 30_000,
            interrupt_ns: 1_000,
            tick_ns: 3_000,
            // One thread with one and four faults, against none, less what dropping the entry takes; 1,630 ns in a loop that
            // does nothing else.
            fault_ns: 2_300,
            huge_fault_ns: 60_000,
            touch_ns: 3,
            forget_ns: 170,
            atomic_ns: 5,
            // What two threads lose to one with 100 ns inside, where they seldom wait: two lines for each operation. A
            // flag that goes to and fro between two loops takes 40 to 54 ns one way.
            transfer_ns: [0, 40, 80, 120, 250],
            // A loop of pause and load.
            spin_ns: 26,
            contender_ns: 30,
            // A sleep of 1 ms takes 1.10 ms, with what entering and leaving takes.
            timer_slack_ns: 60_000,
            ..Costs::DEFAULT
        },
        kernel: Kernel::of("6.18", preempt::find("none").expect("a model"), 250, 2).expect("a kernel"),
    }
}

/// What the loop around an operation takes: the phase that it looks at, its counters, the acquisitions that it times.
/// Measured with one thread and 100 ns.
const LOOP_NS: u64 = 25;

/// What others on this host take, as a task of each CPU: as many involuntary switches, and as much of the CPU, as one
/// thread alone loses. It is more than a slower CPU: a fair lock loses what is taken from any of its workers.
const NEIGHBOUR_SLEEPS_NS: u64 = 14_000_000;
const NEIGHBOUR_RUNS_NS: u64 = 550_000;

fn add_neighbours(load: &mut Load, cpus: u32) {
    let ops = vec![
        Op::Sleep(Span::Exponential(NEIGHBOUR_SLEEPS_NS)),
        Op::Compute(Span::Exponential(NEIGHBOUR_RUNS_NS)),
        Op::Jump(0),
    ];
    load.programs.push(Program { name: "neighbour".to_owned(), role: "load".to_owned(), ops });
    let program = load.programs.len() as u32 - 1;
    let neighbour = |cpu| TaskSpec { pinned: Some(cpu), ..TaskSpec::new(program, 0) };
    load.tasks.extend((0..cpus).map(neighbour));
}

/// Operations per second of the simulated machine: the median of so many seeds.
fn simulated(cell: &Cell) -> f64 {
    let machine = machine();
    let setup = Setup {
        workers: cell.threads,
        algorithm: cell.algorithm,
        section_ns: cell.section_ns,
        think_ns: THINK_NS + LOOP_NS,
        processes: false,
        faults: cell.faults,
        huge: false,
        pin: false,
    };
    let mut load = load(&setup, machine.topology.cpus());
    add_neighbours(&mut load, machine.topology.cpus());
    let rates = (1..=3).map(|seed| {
        let mut world = World::new(&machine, &load, seed);
        world.run_until(100_000_000);
        world.open();
        world.run_until(600_000_000);
        world.close().marks[0].count as f64 / 0.5
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
    holdup: PathBuf,
    measured: Option<PathBuf>,
    keep: Option<PathBuf>,
    blocks: String,
}

fn arguments() -> Arguments {
    let mut read = Arguments { holdup: "holdup".into(), measured: None, keep: None, blocks: "5".to_owned() };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--holdup" => read.holdup = value.into(),
            "--measured" => read.measured = Some(value.into()),
            "--keep" => read.keep = Some(value.into()),
            "--blocks" => read.blocks = value,
            _ => panic!("{word}: it is --holdup, --measured, --keep or --blocks"),
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
    let measured = measured(&arguments());
    let mut outcomes = Vec::new();
    for (number, cell) in cells().into_iter().enumerate() {
        let Some(&rate) = measured.get(&cell) else { continue };
        let outcome = Outcome { cell, held_out: is_held_out(number), measured: rate, simulated: simulated(&cell) };
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
