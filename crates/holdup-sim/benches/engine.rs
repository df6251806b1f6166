//! How many events per second the agenda carries out, beside bare loops over heaps and beside a library.
//!
//! `cargo bench -p holdup-sim --bench engine [-- --rounds N]`. Two models that the field knows: PHOLD (each event sets
//! another process's next event) and a closed M/M/96 with 1,024 clients. Every engine carries out the same number of
//! events of the same model with the same random numbers; rounds are interleaved and medians shown.
#![expect(clippy::print_stdout, reason = "a bench tells its result")]

use holdup_sim::agenda::Agenda;
use holdup_sim::random::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

/// Something that keeps one next event for each of some slots, as the models need it.
trait Engine {
    fn new(slots: usize) -> Self;
    fn set(&mut self, slot: usize, at: u64);
    /// Takes the earliest event.
    fn take(&mut self) -> (u64, usize);
}

struct Ours(Agenda);

impl Engine for Ours {
    fn new(slots: usize) -> Self {
        Ours(Agenda::new(slots))
    }
    fn set(&mut self, slot: usize, at: u64) {
        self.0.set(slot, at);
    }
    fn take(&mut self) -> (u64, usize) {
        let next = self.0.next().expect("there is always one");
        self.0.clear(next.1);
        next
    }
}

/// The standard library's heap of pairs.
struct Binary(BinaryHeap<Reverse<(u64, u32)>>);

impl Engine for Binary {
    fn new(_slots: usize) -> Self {
        Binary(BinaryHeap::new())
    }
    fn set(&mut self, slot: usize, at: u64) {
        self.0.push(Reverse((at, slot as u32)));
    }
    fn take(&mut self) -> (u64, usize) {
        let Reverse((at, slot)) = self.0.pop().expect("there is always one");
        (at, slot as usize)
    }
}

/// A heap with four children per node, of keys of 64 bits.
struct Quaternary(Vec<u64>);

const BITS: u32 = 20;

impl Engine for Quaternary {
    fn new(slots: usize) -> Self {
        Quaternary(Vec::with_capacity(slots))
    }
    fn set(&mut self, slot: usize, at: u64) {
        let key = at << BITS | slot as u64;
        let mut hole = self.0.len();
        self.0.push(key);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.0[parent] <= key {
                break;
            }
            self.0[hole] = self.0[parent];
            hole = parent;
        }
        self.0[hole] = key;
    }
    fn take(&mut self) -> (u64, usize) {
        let top = self.0[0];
        let last = self.0.pop().expect("there is always one");
        let n = self.0.len();
        if n > 0 {
            let mut hole = 0;
            loop {
                let first = hole * 4 + 1;
                if first >= n {
                    break;
                }
                let children = &self.0[first..(first + 4).min(n)];
                let (place, least) =
                    children.iter().enumerate().min_by_key(|(_, key)| **key).expect("there is a child");
                if *least >= last {
                    break;
                }
                self.0[hole] = *least;
                hole = first + place;
            }
            self.0[hole] = last;
        }
        (top >> BITS, (top & ((1 << BITS) - 1)) as usize)
    }
}

/// The pairs of the standard heap, in the shape of a library's event loop: boxed closures are what most of them cost.
fn exponential(random: &mut Random, mean: f64) -> u64 {
    (random.exponential() * mean) as u64 + 1
}

/// PHOLD: each event makes the next event of a process chosen at random after a lookahead and a random time. One event
/// per process is under way at any time, so the chosen process takes over the slot's event.
fn phold<E: Engine>(processes: usize, events: u64) -> u64 {
    let mut random = Random::new(1, 0);
    let mut engine = E::new(processes);
    let mut visits = vec![0u32; processes];
    for process in 0..processes {
        let at = exponential(&mut random, 1000.0);
        engine.set(process, at);
    }
    let mut last = 0;
    for _ in 0..events {
        let (at, message) = engine.take();
        // The message goes to a process chosen at random; it keeps its own slot on the way.
        let process = random.below(processes as u64) as usize;
        visits[process] += 1;
        let after = exponential(&mut random, 1000.0);
        engine.set(message, at + 1 + after);
        last = at;
    }
    last ^ u64::from(visits[0])
}

/// A closed M/M/c: clients think, queue for one of c servers, are served, think again.
fn closed<E: Engine>(clients: usize, servers: usize, events: u64) -> u64 {
    let mut random = Random::new(2, 0);
    let mut engine = E::new(clients);
    let mut is_served = vec![false; clients];
    let mut queue = VecDeque::with_capacity(clients);
    let mut free = servers;
    for client in 0..clients {
        let at = exponential(&mut random, 10_000.0);
        engine.set(client, at);
    }
    let mut last = 0;
    for _ in 0..events {
        let (at, client) = engine.take();
        last = at;
        if is_served[client] {
            is_served[client] = false;
            let think = exponential(&mut random, 10_000.0);
            engine.set(client, at + think);
            match queue.pop_front() {
                Some(next) => {
                    is_served[next] = true;
                    let service = exponential(&mut random, 1_000.0);
                    engine.set(next, at + service);
                }
                None => free += 1,
            }
        } else if free > 0 {
            free -= 1;
            is_served[client] = true;
            let service = exponential(&mut random, 1_000.0);
            engine.set(client, at + service);
        } else {
            queue.push_back(client);
        }
    }
    last
}

type Model = (&'static str, Vec<(&'static str, fn(u64) -> u64)>);

fn models() -> Vec<Model> {
    vec![
        (
            "PHOLD, 1,000 processes",
            vec![
                ("holdup", |n| phold::<Ours>(1000, n)),
                ("binary heap", |n| phold::<Binary>(1000, n)),
                ("4-ary heap", |n| phold::<Quaternary>(1000, n)),
            ],
        ),
        (
            "closed M/M/96, 1,024 clients",
            vec![
                ("holdup", |n| closed::<Ours>(1024, 96, n)),
                ("binary heap", |n| closed::<Binary>(1024, 96, n)),
                ("4-ary heap", |n| closed::<Quaternary>(1024, 96, n)),
            ],
        ),
        (
            "PHOLD, 100,000 processes",
            vec![
                ("holdup", |n| phold::<Ours>(100_000, n)),
                ("binary heap", |n| phold::<Binary>(100_000, n)),
                ("4-ary heap", |n| phold::<Quaternary>(100_000, n)),
            ],
        ),
    ]
}

fn main() {
    let mut arguments = std::env::args().skip_while(|a| a != "--rounds");
    let rounds: usize = arguments.nth(1).and_then(|n| n.parse().ok()).unwrap_or(7);
    let events = 4_000_000;
    for (name, engines) in models() {
        let mut rates = vec![Vec::new(); engines.len()];
        let mut ends = vec![0; engines.len()];
        for _ in 0..rounds {
            for (place, (_, run)) in engines.iter().enumerate() {
                let begun = Instant::now();
                ends[place] = run(events);
                rates[place].push(events as f64 / begun.elapsed().as_secs_f64() / 1e6);
            }
        }
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "the engines disagree: {ends:?}");
        println!("{name}");
        for ((engine, _), rates) in engines.iter().zip(&mut rates) {
            rates.sort_by(f64::total_cmp);
            println!("  {engine:<14} {:6.1} million events per second", rates[rates.len() / 2]);
        }
    }
}
