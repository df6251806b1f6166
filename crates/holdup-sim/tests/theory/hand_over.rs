//! A lock that is always wanted: from section to section takes the section and what is on the way from one holder to the
//! next, and nothing that a waiter does while others hold it.

use crate::theory::common::{free, machine, program};
use holdup_sim::machine::Costs;
use holdup_sim::program::Op;
use holdup_sim::random::Span;
use holdup_sim::world::{Load, TaskSpec, World};

const SECTION_NS: u64 = 1_000;
const CORES: u32 = 8;
const WINDOW_NS: u64 = 50_000_000;

fn sections(name: &'static str, atomic_ns: u64, transfer_ns: u64) -> u64 {
    let costs = Costs { atomic_ns, transfer_ns: [0, 0, transfer_ns, 0, 0], ..free() };
    let ops = vec![
        Op::Lock(0),
        Op::Compute(Span::Fixed(SECTION_NS)),
        Op::Unlock(0),
        Op::Compute(Span::Uniform(0, 3 * SECTION_NS)),
        Op::Jump(0),
    ];
    let load = Load {
        programs: vec![program(ops)],
        tasks: (0..CORES).map(|cpu| TaskSpec { pinned: Some(cpu), ..TaskSpec::default() }).collect(),
        locks: vec![name],
        ..Load::default()
    };
    let mut world = World::new(&machine(CORES, costs), &load, 1);
    world.run_until(1_000_000);
    world.open();
    world.run_until(1_000_000 + WINDOW_NS);
    world.close().locks[0].acquisitions
}

/// Of locks that are handed over in order: how many moves of a cache line are between two sections. A ticket's release wins
/// the line from a waiter, and the next one reads it. In MCS the link is read, the flag is written, and it is read. What it
/// costs to take a place in the queue is not among them.
#[test]
fn a_hand_over_takes_what_is_on_its_way() {
    for (name, moves) in [("ticket", 2), ("mcs", 3)] {
        for (atomic_ns, transfer_ns) in [(0, 0), (500, 0), (0, 400), (300, 200)] {
            let (got, expect) =
                (sections(name, atomic_ns, transfer_ns), WINDOW_NS / (SECTION_NS + moves * transfer_ns));
            println!("{name}, atomic {atomic_ns} ns, transfer {transfer_ns} ns: {got} sections, expected {expect}");
            assert!(got.abs_diff(expect) <= 1, "{name}, {atomic_ns}, {transfer_ns}: {got}, not {expect}");
        }
    }
}

/// Where the first to come gets in, the exchange that takes the lock is in the way as well. A newcomer may be there
/// while the line is on its way to who has waited, so moves of the line are only a bound.
#[test]
fn an_exchange_is_part_of_the_hand_over() {
    for (name, moves) in [("tas", 2), ("ttas-backoff", 3)] {
        for (atomic_ns, transfer_ns) in [(0, 0), (500, 0), (0, 400), (300, 200)] {
            let least = WINDOW_NS / (SECTION_NS + atomic_ns + moves * transfer_ns);
            let most = WINDOW_NS / (SECTION_NS + atomic_ns);
            let got = sections(name, atomic_ns, transfer_ns);
            println!("{name}, atomic {atomic_ns} ns, transfer {transfer_ns} ns: {got} sections, {least} to {most}");
            assert!((least - 1..=most + 1).contains(&got), "{name}, {atomic_ns}, {transfer_ns}: {got}");
        }
    }
}
