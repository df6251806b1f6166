//! The ticket lock of Boyd-Wickizer, Kaashoek, Morris and Zeldovich ("Non-scalable locks are dangerous", Linux Symposium
//! 2012): n cores think and take a lock, and each core that is there makes the hand-over longer.
//!
//! Their chain of births and deaths has arrivals at a rate of (n - k)/a and departures at one of 1/(s + c k/2), where k
//! cores are at the lock, the holder among them. The simulated lock says the same in other words. A release makes all
//! k - 1 waiters read the line again, and who is next comes anywhere among them: it waits for 0 to k - 2 others, each
//! for c, which is c (k - 2)/2 in the mean; its own reading, c, is part of the section here. What differs:
//!
//! - the hand-over is drawn once, at the release, from who waits then, and varies less than an exponential;
//! - who finds the lock free pays c for the line, where the chain has c/2.
//!
//! A chain that is looked at whenever the lock is released says what follows from these words exactly. The simulation must
//! agree with that one everywhere, and with Boyd-Wickizer's where these differences do not matter.

use crate::theory::common::{BATCHES, Estimate, births_and_deaths, free, machine, mean, none_deviates, program, run};
use holdup_sim::machine::Costs;
use holdup_sim::program::Op;
use holdup_sim::random::Span;
use holdup_sim::world::{Load, TaskSpec};

const CORES: [u32; 9] = [1, 2, 4, 8, 16, 24, 32, 48, 64];

/// Time between two sections, a section's own, and what each core at the lock adds, all in cycles.
#[derive(Debug, Clone, Copy)]
struct Case {
    think: f64,
    section: f64,
    each: f64,
}

const fn case(think: f64, section: f64, each: f64) -> Case {
    Case { think, section, each }
}

/// The published table: mean number of cores that are not at the lock.
const TABLE: [(Case, [f64; 9]); 4] = [
    (case(2e4, 400.0, 0.0), [0.9804, 1.9600, 3.9169, 7.8194, 15.5648, 23.1848, 30.5751, 43.5040, 49.5780]),
    (case(2e4, 400.0, 120.0), [0.9775, 1.9538, 3.9021, 7.7771, 15.3641, 22.0135, 15.2727, 7.0231, 5.0898]),
    (case(2e4, 400.0, 300.0), [0.9732, 1.9443, 3.8786, 7.6998, 14.5443, 7.2520, 4.4381, 2.7886, 2.0650]),
    (case(1.28e6, 25_600.0, 120.0), [0.9803, 1.9599, 3.9166, 7.8188, 15.5625, 23.1774, 30.5522, 43.2604, 47.8921]),
];

/// Boyd-Wickizer's chain.
fn speedup(n: u32, case: Case) -> f64 {
    let at = births_and_deaths(
        n,
        |k| f64::from(n - k) / case.think,
        |k| 1.0 / (case.section + case.each * f64::from(k) / 2.0),
    );
    f64::from(n) - mean(&at)
}

/// The distribution of how many of `many` come within a time that is fixed.
fn come_within(many: usize, time: f64, case: Case) -> Vec<f64> {
    let p = 1.0 - libm::exp(-time / case.think);
    let mut chances = vec![0.0; many + 1];
    chances[0] = 1.0;
    for so_far in 0..many {
        for count in (0..=so_far + 1).rev() {
            let came = if count > 0 { chances[count - 1] * p } else { 0.0 };
            chances[count] = chances[count] * (1.0 - p) + came;
        }
    }
    chances
}

/// The same within a time that is exponential.
fn come_within_exponential(many: usize, mean: f64, case: Case) -> Vec<f64> {
    let ends = 1.0 / mean;
    let mut left = 1.0;
    let chance = |thinking: usize| {
        let comes = thinking as f64 / case.think;
        let here = left * ends / (ends + comes);
        left -= here;
        here
    };
    (0..=many).rev().map(chance).collect()
}

/// How long a hand-over takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandOver {
    /// The time of the waiter that is served before, and an exponential section after it: the simulated lock.
    Served,
    /// An exponential of the whole mean, the section included.
    Exponential,
}

/// The chain of how many wait when the lock is released.
fn speedup_at_releases(n: u32, case: Case, hand_over: HandOver) -> f64 {
    let n = n as usize;
    let mut moves = vec![vec![0.0; n]; n];
    let mut lengths = vec![0.0; n];
    let own = case.section + case.each;
    for waiting in 0..n {
        let draws = waiting.max(1);
        lengths[waiting] = own + case.each * (draws - 1) as f64 / 2.0;
        if waiting == 0 {
            lengths[0] += case.think / n as f64;
        }
        // Of those that thought when it was free, the first came and has it now.
        let thinking = if waiting == 0 { n - 1 } else { n - waiting };
        if hand_over == HandOver::Exponential {
            let mean = own + case.each * (draws - 1) as f64 / 2.0;
            for (came, p) in come_within_exponential(thinking, mean, case).iter().enumerate() {
                moves[waiting][draws - 1 + came] += p;
            }
            continue;
        }
        for before in 0..draws {
            let handing = come_within(thinking, before as f64 * case.each, case);
            for (first, p) in handing.iter().enumerate() {
                for (second, q) in come_within_exponential(thinking - first, own, case).iter().enumerate() {
                    moves[waiting][draws - 1 + first + second] += p * q / draws as f64;
                }
            }
        }
    }
    let often = stationary(moves);
    let cycle: f64 = often.iter().zip(&lengths).map(|(p, length)| p * length).sum();
    case.think / cycle
}

/// The stationary distribution of a chain (Grassmann, Taksar, Heyman 1985).
fn stationary(mut moves: Vec<Vec<f64>>) -> Vec<f64> {
    let n = moves.len();
    for last in (1..n).rev() {
        let out: f64 = moves[last][..last].iter().sum();
        let (above, from) = moves.split_at_mut(last);
        for row in above {
            row[last] /= out;
            let p = row[last];
            for (to, q) in row.iter_mut().zip(&from[0][..last]) {
                *to += p * q;
            }
        }
    }
    let mut often = vec![1.0];
    for last in 1..n {
        let weight = often.iter().zip(&moves).map(|(p, row)| p * row[last]).sum();
        often.push(weight);
    }
    let sum: f64 = often.iter().sum();
    often.into_iter().map(|w| w / sum).collect()
}

/// A cycle, ns.
const CYCLE_NS: f64 = 20.0;

/// The simulated machine: how many cores are not at the lock.
fn simulated(n: u32, case: Case, sections: f64) -> Estimate {
    let ns = |cycles: f64| (cycles * CYCLE_NS) as u64;
    let costs = Costs { contender_ns: ns(case.each), ..free() };
    let ops = vec![
        // The release takes a nanosecond more.
        Op::Compute(Span::Exponential(ns(case.think) - 1)),
        Op::Lock(0),
        Op::Compute(Span::Exponential(ns(case.section + case.each))),
        Op::Unlock(0),
        Op::Jump(0),
    ];
    let load = Load {
        programs: vec![program(ops)],
        tasks: (0..n).map(|cpu| TaskSpec { pinned: Some(cpu), ..TaskSpec::default() }).collect(),
        locks: vec!["ticket"],
        ..Load::default()
    };
    let cycle_ns = ns(case.think) as f64 / speedup_at_releases(n, case, HandOver::Served);
    let batch_ns = (cycle_ns * sections) as u64 / BATCHES as u64;
    let at = run(&machine(n, costs), &load, 5, batch_ns, BATCHES, |seen| {
        ((seen.locks[0].held_ns + seen.locks[0].spin_ns) as f64, batch_ns as f64)
    });
    Estimate::ratio(&at).map(f64::from(n), -1.0)
}

#[test]
fn the_published_table_follows_from_the_chain() {
    for (case, row) in TABLE {
        for (n, expect) in CORES.into_iter().zip(row) {
            let got = speedup(n, case);
            assert!((got - expect).abs() < 5.1e-5, "{n} cores, {case:?}: {got}");
        }
    }
}

/// Cores and cycles for each core where the collapse is: there the two chains part by more than 1 %.
const PARTING: [(u32, f64); 4] = [(32, 120.0), (48, 120.0), (24, 300.0), (32, 300.0)];

#[test]
fn the_simulated_lock_scales_as_published() {
    let mut results = Vec::new();
    for (case, row) in TABLE {
        for (n, published) in CORES.into_iter().zip(row) {
            let exact = speedup_at_releases(n, case, HandOver::Served);
            let parts = case.section < 1e4 && PARTING.contains(&(n, case.each));
            let off = exact / published - 1.0;
            assert_eq!(parts, off.abs() > 0.01, "{n} cores, {case:?}: {exact} beside {published}");
            // Where many are at the lock, what is seen of it hangs together for long.
            let got = simulated(n, case, if n <= 16 { 20_000.0 } else { 200_000.0 });
            let name = format!("ticket {n} cores, a {} s {} c {}", case.think, case.section, case.each);
            results.push(got.check(&name, exact));
            if !parts {
                results.push(got.check(&format!("{name}, as published"), published));
            }
        }
    }
    println!("{}", none_deviates(results));
}

/// What parts the chains where the collapse is: not that the hand-over is drawn once, but how even it is. A lock whose
/// hand-overs vary less finds back from its collapse more rarely, so it collapses more abruptly.
#[test]
fn hand_overs_that_vary_less_make_the_collapse_more_abrupt() {
    for (n, each) in PARTING {
        let case = case(2e4, 400.0, each);
        let off = |hand_over| speedup_at_releases(n, case, hand_over) / speedup(n, case) - 1.0;
        let (served, exponential) = (off(HandOver::Served), off(HandOver::Exponential));
        println!("{n} cores, c {each}: drawn once {:+.2} %, and even {:+.2} %", 100.0 * exponential, 100.0 * served);
        assert!(served < -0.01 && exponential.abs() < 0.015, "{n} {each}: {served} {exponential}");
    }
}
