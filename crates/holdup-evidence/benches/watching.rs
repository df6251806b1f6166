//! What watching costs: throughput with each observer against no observer, beside the peers, interleaved in random order.
//!
//! `cargo bench -p holdup-evidence --bench watching -- [--loads pgbench,pgbench-5000,pgbench-50000,hackbench,ping-pong] [--observers bare,switches,…]
//! [--blocks 10] [--seconds 3] [--rezolus PROGRAM] [--wprof PROGRAM]
//! [--holdup PROGRAM]`, as root.
//!
//! In each block every observer watches one window of the load, and none watches the windows before and after it: what
//! others take of a shared machine changes within seconds, so an observer is compared with its neighbours. `none again`
//! is no observer once more: it shows the bench's own noise. `bare` is the reference, a bare BPF histogram of
//! waits for a CPU. An observer is attached before the window and detached after it. A peer that is not there is left
//! out. Ours watch the processes of the load, as they do in a trial; the peers and `bare` know nothing but the whole
//! machine.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its numbers")]

#[path = "by_hand/arguments.rs"]
mod arguments;
#[path = "../src/background.rs"]
#[allow(unused_imports, reason = "its tests run with those of the crate")]
mod background;
#[path = "by_hand/bare.rs"]
mod bare;
#[path = "../src/kernel/call.rs"]
#[allow(dead_code, reason = "faults that are timed in slices use more of it")]
mod call;
#[path = "by_hand/cpu_time.rs"]
mod cpu_time;
#[path = "by_hand/loads.rs"]
mod loads;
#[path = "by_hand/observers.rs"]
mod observers;
#[path = "by_hand/peers.rs"]
mod peers;
#[path = "../src/kernel/stats.rs"]
#[allow(unused_imports, reason = "its tests run with those of the crate")]
mod stats;
#[path = "../tests/support/switching.rs"]
#[allow(dead_code, reason = "the test `every_switch` uses more of it")]
mod switching;
#[path = "by_hand/table.rs"]
mod table;

use arguments::Arguments;
use holdup_stats::random::Noise;
use loads::{Done, Load};
use observers::{Observers, Said};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// One window.
pub(crate) struct Trial {
    block: u32,
    observer: String,
    done: Done,
    /// From the word to go until the load has ended, s.
    length_s: f64,
    /// Switches of the whole machine meanwhile.
    switches: f64,
    attach_s: f64,
    detach_s: f64,
    /// CPU time of the observer's own process meanwhile, s.
    observer_cpu_s: f64,
    said: Said,
}

fn trial(load: &mut dyn Load, observers: &Observers, observer: &str, block: u32) -> Result<Trial, String> {
    let ready = load.ready()?;
    let begun = Instant::now();
    let watching = observers.start(observer, load.subjects(&ready))?;
    let is_peer = begun.elapsed() > peers::STEADY;
    let attach_s = begun.elapsed().as_secs_f64() - if is_peer { peers::STEADY.as_secs_f64() } else { 0.0 };
    let (cpu_s, switches, begun) = (watching.cpu_s(), cpu_time::switches(), Instant::now());
    let done = load.run(ready)?;
    let length_s = begun.elapsed().as_secs_f64();
    let switches = (cpu_time::switches() - switches) as f64;
    let observer_cpu_s = watching.cpu_s() - cpu_s;
    let begun = Instant::now();
    let said = watching.stop()?;
    let detach_s = begun.elapsed().as_secs_f64();
    let observer = observer.to_owned();
    Ok(Trial { block, observer, done, length_s, switches, attach_s, detach_s, observer_cpu_s, said })
}

/// No observer, as the reference of the others.
pub(crate) const NONE: &str = "none";

/// Observers that can watch here, with `none again`; the others are printed with the reason.
fn present(load: &mut dyn Load, observers: &Observers, arguments: &Arguments) -> Result<Vec<String>, String> {
    let mut there = vec!["none again".to_owned()];
    for name in &arguments.observers {
        match trial(load, observers, name, 0) {
            Ok(_) => there.push(name.clone()),
            Err(why) => println!("{name}: left out, because {}", why.trim()),
        }
    }
    Ok(there)
}

/// Fisher and Yates.
fn shuffled(names: &[String], noise: &mut Noise) -> Vec<String> {
    let mut names = names.to_vec();
    for last in (1..names.len()).rev() {
        names.swap(last, ((noise.uniform() * (last + 1) as f64) as usize).min(last));
    }
    names
}

fn raw_line(load: &str, t: &Trial) -> String {
    let (runs, run_ns) = t.said.bpf.unwrap_or_default();
    format!(
        "{load}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{runs}\t{run_ns}\t{}\t{}\t{}\t{}\n",
        t.block,
        t.observer,
        t.done.rate,
        t.done.work,
        t.done.cpu_s,
        t.length_s,
        t.switches,
        t.attach_s,
        t.detach_s,
        t.observer_cpu_s,
        t.said.seen,
        t.said.lost,
        t.said.memory_bytes,
        t.said.bytes,
    )
}

const RAW_HEAD: &str = "load\tblock\tobserver\trate\twork\tcpu_s\tlength_s\tswitches\tattach_s\tdetach_s\tobserver_cpu_s\t\
                        bpf_runs\tbpf_run_ns\tseen\tlost\tmemory_bytes\tbytes\n";

fn measure(name: &str, observers: &Observers, arguments: &Arguments) -> Result<(), String> {
    let mut load = loads::load(name, arguments)?;
    let there = present(&mut *load, observers, arguments)?;
    let mut raw = match &arguments.raw {
        Some(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            let mut file = file.map_err(|e| format!("{}: {e}", path.display()))?;
            file.write_all(RAW_HEAD.as_bytes()).map_err(|e| e.to_string())?;
            Some(file)
        }
        None => None,
    };
    let mut noise = Noise::new(arguments.seed);
    let mut trials = Vec::new();
    for block in 0..arguments.blocks {
        let begun = Instant::now();
        let between = shuffled(&there, &mut noise).into_iter().flat_map(|name| [name, NONE.to_owned()]);
        for observer in std::iter::once(NONE.to_owned()).chain(between) {
            match trial(&mut *load, observers, &observer, block) {
                Ok(trial) => {
                    if let Some(file) = &mut raw {
                        file.write_all(raw_line(name, &trial).as_bytes()).map_err(|e| e.to_string())?;
                    }
                    trials.push(trial);
                }
                Err(why) => eprintln!("{name}, block {block}, {observer}: {}", why.trim()),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("{name}: block {} of {}, {:.0} s", block + 1, arguments.blocks, begun.elapsed().as_secs_f64());
    }
    let unit = load.unit();
    let named: Vec<String> = std::iter::once(NONE.to_owned()).chain(there).collect();
    table::Table { trials: &trials, blocks: arguments.blocks }.show(name, unit, &named, arguments);
    Ok(())
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let observers = Observers::new(&arguments)?;
    for load in &arguments.loads {
        measure(load, &observers, &arguments)?;
    }
    Ok(())
}
