//! Throughput of simulated pgbench and where its CPU time goes, with costs and factors set by hand: what a ratio hangs on.
//!
//! `cargo bench -p holdup-sim --bench pgbench -- [machine=NAME|FILE] [script=S] [clients=N] [threads=N] [scale=N] [warm=MS]
//! [ms=MS] [seeds=N] [cost.NAME=NS]… [FACTOR=LEVEL]…`: a line for each seed, of transactions a second, shares of all CPU time,
//! and of each lock how often it was taken, waited for and slept for; then the median over the seeds.
//! Lengths are in ns. `postgres.build=futex` is short for `postgres.build=patches/lwlock-wait-list-futex`, and so `park`.

#![expect(clippy::print_stdout, reason = "a bench prints what it found")]

use holdup_catalogue::pgbench;
use holdup_model::Value;
use holdup_sim::factors;
use holdup_sim::machine::{Described, Machine, catalogue};
use holdup_sim::workloads::{self, Files, Levels};
use holdup_sim::world::{Load, World};

/// The parameters of the workload that can be set, with what they are where they are not: a thread for each CPU.
const PARAMETERS: [(&str, &str); 4] =
    [("script", "simple-update"), ("clients", "1024"), ("threads", ""), ("scale", "8470")];

struct Words(Vec<(String, String)>);

impl Words {
    fn get(&self, name: &str, default: &str) -> String {
        self.0.iter().find(|(known, _)| known == name).map_or(default, |(_, value)| value).to_owned()
    }

    fn number(&self, name: &str, default: &str) -> u64 {
        let text = self.get(name, default);
        text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number"))
    }
}

fn main() {
    let words = std::env::args().skip(1).filter(|word| word != "--bench");
    let pair = |word: String| match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => panic!("{word}: it is NAME=VALUE"),
    };
    let words = Words(words.map(pair).collect());
    let name = words.get("machine", "graviton4-96");
    let described = match std::fs::read_to_string(&name) {
        Ok(text) => Described::parse(&name, &text),
        Err(_) => catalogue::find(&name),
    };
    let mut machine = described.unwrap_or_else(|problem| panic!("{problem}")).machine;
    let load = load(&words, &mut machine);
    let (warm_ms, ms) = (words.number("warm", "60"), words.number("ms", "100"));
    let mut rates: Vec<f64> =
        (1..=words.number("seeds", "1")).map(|seed| simulate(&machine, &load, (seed, warm_ms, ms))).collect();
    rates.sort_by(f64::total_cmp);
    println!("median {:.0}", rates[rates.len() / 2]);
}

/// The load, with the machine as the words have it.
fn load(words: &Words, machine: &mut Machine) -> Load {
    let cpus = machine.topology.cpus();
    let mut parameters = holdup_catalogue::defaults(pgbench::Parameters::ALL, cpus);
    for (name, default) in PARAMETERS {
        let default = if default.is_empty() { cpus.to_string() } else { default.to_owned() };
        let text = words.get(name, &default);
        parameters.set(name, text.parse::<i64>().map_or_else(|_| Value::from(text.as_str()), Value::Integer));
    }
    let mut levels = Levels::new();
    for (name, value) in &words.0 {
        let level = match value.as_str() {
            "on" => Value::Bool(true),
            "off" => Value::Bool(false),
            "futex" | "park" => Value::from(format!("patches/lwlock-wait-list-{value}").as_str()),
            text => text.parse().map_or_else(|_| Value::from(text), Value::Integer),
        };
        if let Some(cost) = name.strip_prefix("cost.") {
            *machine.costs.place(cost).unwrap_or_else(|| panic!("{cost}: no such cost")) = words.number(name, "");
        } else if factors::changes(name).is_some() {
            factors::set(machine, name, &level).unwrap_or_else(|problem| panic!("{problem}"));
        } else if name.contains('.') {
            levels.insert(name.clone(), level);
        }
    }
    let workload = workloads::find("pgbench").expect("the workload");
    workload.load(&parameters, &levels, machine, &Files::default()).unwrap_or_else(|problem| panic!("{problem}"))
}

/// One machine, warm and then for as long: transactions a second.
fn simulate(machine: &Machine, load: &Load, (seed, warm_ms, ms): (u64, u64, u64)) -> f64 {
    let mut world = World::new(machine, load, seed);
    world.advance(warm_ms * 1_000_000).expect("no deadlock");
    world.open();
    world.advance((warm_ms + ms) * 1_000_000).expect("no deadlock");
    let seen = world.close();
    let all_ns = u64::from(machine.topology.cpus()) * ms * 1_000_000;
    let share =
        |of: fn(&holdup_sim::stats::ProgramStats) -> u64| seen.roles.iter().map(of).sum::<u64>() as f64 / all_ns as f64;
    let rate = seen.marks[0].count as f64 * 1000.0 / ms as f64;
    print!(
        "{rate:.0} tps, user {:.2} kernel {:.2} spin {:.3}",
        share(|r| r.user_ns),
        share(|r| r.kernel_ns),
        share(|r| r.spin_ns)
    );
    for lock in &seen.locks {
        print!("; taken {}, waited {}, slept {}", lock.acquisitions, lock.contended, lock.sleeps);
    }
    println!();
    rate
}
