//! M/G/1: what Pollaczek and Khinchine say of one server with any distribution of service times.

use crate::theory::common::{BATCHES, Estimate, free, lengths, machine, none_deviates, run};
use crate::theory::multi_server::open;
use holdup_sim::program::Op;
use holdup_sim::random::Span;

const CUSTOMERS: u64 = 450_000;

/// A kind of work: what it is called, its mean, the mean of its square, and its parts with the chance of the first.
type Kind = (&'static str, f64, f64, Vec<Span>, f64);

fn kinds() -> Vec<Kind> {
    let mixed = |p: f64, a: f64, b: f64| p * a + (1.0 - p) * b;
    let (brief, long) = (50_000.0, 300_000.0);
    vec![
        ("M/D/1", 1e5, 1e10, vec![Span::Fixed(100_000)], 1.0),
        ("M/U/1", 1e5, 4e10 / 3.0, vec![Span::Uniform(0, 200_000)], 1.0),
        ("M/M/1", 1e5, 2e10, vec![Span::Exponential(100_000)], 1.0),
        (
            "M/two lengths/1",
            mixed(0.8, brief, long),
            mixed(0.8, brief * brief, long * long),
            vec![Span::Fixed(50_000), Span::Fixed(300_000)],
            0.8,
        ),
        (
            "M/H2/1",
            mixed(0.8, brief, long),
            2.0 * mixed(0.8, brief * brief, long * long),
            vec![Span::Exponential(50_000), Span::Exponential(300_000)],
            0.8,
        ),
    ]
}

#[test]
fn customers_of_one_server_stay_as_long_as_pollaczek_and_khinchine_say() {
    let mut results = Vec::new();
    for (name, service, square, parts, first) in kinds() {
        let io = |part: &Span| Op::Io { device: 0, work: *part };
        let customer = match parts.as_slice() {
            [a, b] => {
                let of = (first * 2f64.powi(32)) as u32;
                vec![Op::Begin(0), Op::Chance { of, to: 4 }, io(b), Op::Jump(5), io(a), Op::Done(0)]
            }
            all => std::iter::once(Op::Begin(0)).chain(all.iter().map(io)).chain([Op::Done(0)]).collect(),
        };
        let interval_ns = 2.5 * service;
        // Even work needs fewer for the same interval.
        let customers = if square < 1.5 * service * service { CUSTOMERS / 2 } else { CUSTOMERS };
        let batch_ns = interval_ns as u64 * customers / BATCHES as u64;
        let load = open(customer, 1, interval_ns as u64);
        let batches = run(&machine(2, free()), &load, 2, batch_ns, BATCHES, |seen| lengths(seen, 0));
        let expect = service + square / interval_ns / (2.0 * (1.0 - service / interval_ns));
        results.push(Estimate::ratio(&batches).check(&format!("{name} at 0.4, time in system ns"), expect));
    }
    println!("{}", none_deviates(results));
}
