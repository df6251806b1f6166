//! Throughput and CPU time of simulated locks over the number of threads, also of those that no plan can name.
//!
//! `cargo bench -p holdup-sim --bench curves -- [--machine NAME] [--locks A,B] [--threads 1,2] [--cells INSIDE/OUTSIDE] [--ms N]
//! [--seeds N] [--busy N] [--extension NS]`: for each cell (ns inside and outside of the lock) a table of thousand operations a
//! second, and one of CPU time for an operation, us, of the longest wait, us, and of the least over the most operations of a
//! thread. `--busy` is a number of tasks beside that only compute, `--extension` how long the kernel extends slices.

#![expect(clippy::print_stdout, reason = "a bench prints what it found")]

use holdup_sim::locks;
use holdup_sim::machine::{Machine, catalogue};
use holdup_sim::program::{Op, Program};
use holdup_sim::random::Span;
use holdup_sim::stats::WindowStats;
use holdup_sim::workloads::lock_contention::{Setup, load};
use holdup_sim::world::{TaskSpec, World};

const WARMUP_MS: u64 = 10;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let value = |name: &str, default: &str| {
        let found = words.iter().position(|word| word == name).and_then(|place| words.get(place + 1));
        found.map_or(default, |word| word).to_owned()
    };
    let found = catalogue::find(&value("--machine", "graviton4-96"));
    let mut machine = found.expect("a machine of the catalogue").machine;
    machine.kernel.slice_extension_ns = numbers(&value("--extension", "0"), ',')[0];
    let busy = numbers(&value("--busy", "0"), ',')[0];
    let names =
        value("--locks", "ticket,mcs,pthread-mutex,lwlock,holdfast,holdfast-one-fetch,holdfast-slice,parking-lot");
    let threads = numbers(&value("--threads", "1,2,4,8,16,32,64,96,192,384"), ',');
    let ms = numbers(&value("--ms", "60"), ',')[0];
    let seeds = numbers(&value("--seeds", "3"), ',')[0];
    for cell in value("--cells", "100/1000,100/10000,1000/1000,1000/10000").split(',') {
        let [inside, outside] = numbers(cell, '/')[..] else { panic!("{cell}: it is INSIDE/OUTSIDE, ns") };
        let simulated: Vec<(&str, Vec<Vec<WindowStats>>)> = names
            .split(',')
            .map(|name| {
                let algorithm = locks::id(name).unwrap_or_else(|| panic!("{name}: locks are {:?}", locks::ids()));
                let setup = |workers: u64| Setup {
                    workers: workers as u32,
                    algorithm,
                    section_ns: inside,
                    think_ns: outside,
                    processes: false,
                    faults: 0,
                    touches_before: false,
                    huge: false,
                    pin: false,
                };
                let of = |workers: &u64| {
                    (1..=seeds).map(|seed| simulate(&machine, &setup(*workers), busy, seed, ms)).collect()
                };
                (algorithm, threads.iter().map(of).collect())
            })
            .collect();
        println!("\n{inside} ns inside, {outside} ns outside, {} CPUs", machine.topology.cpus());
        let each = |title: &str, digits: usize, of: &dyn Fn(&WindowStats) -> f64| {
            println!("{title:>16}{}", threads.iter().map(|n| format!("{n:>9}")).collect::<String>());
            for (name, windows) in &simulated {
                let mean = |of_seeds: &Vec<WindowStats>| of_seeds.iter().map(of).sum::<f64>() / seeds as f64;
                println!("{name:>16}{}", windows.iter().map(|w| format!("{:>9.digits$}", mean(w))).collect::<String>());
            }
        };
        each("kop/s", 0, &|seen| seen.marks[0].count as f64 / ms as f64);
        each("CPU us/op", 2, &|seen| cpu_ns(seen) as f64 / 1e3 / seen.marks[0].count as f64);
        each("longest us", 0, &|seen| seen.locks[0].waits.range_ns().map_or(0.0, |(_, most)| most as f64 / 1e3));
        each("least/most", 2, &|seen| {
            let of_workers = &seen.by_task[..seen.by_task.len() - busy as usize];
            let (least, most) = (of_workers.iter().min(), of_workers.iter().max());
            *least.expect("threads") as f64 / *most.expect("threads") as f64
        });
    }
}

/// CPU time of the workers.
fn cpu_ns(seen: &WindowStats) -> u64 {
    let role = &seen.roles[0];
    role.user_ns + role.kernel_ns + role.spin_ns
}

fn numbers(words: &str, between: char) -> Vec<u64> {
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word}: not a number"));
    words.split(between).map(number).collect()
}

fn simulate(machine: &Machine, setup: &Setup, busy: u64, seed: u64, ms: u64) -> WindowStats {
    let mut load = load(setup, machine.topology.cpus());
    load.programs.push(Program::new("busy", vec![Op::Compute(Span::Fixed(100_000)), Op::Jump(0)]));
    load.tasks.extend((0..busy).map(|_| TaskSpec::new(1, 1)));
    let mut world = World::new(machine, &load, seed);
    world.advance(WARMUP_MS * 1_000_000).expect("no deadlock");
    world.open();
    world.advance((WARMUP_MS + ms) * 1_000_000).expect("no deadlock");
    world.close().clone()
}
