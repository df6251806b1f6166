//! Simulated locks beside what others measured on arm64 servers. Where the simulator is known to be off, there is no test:
//! docs/journal/2026-11-29-published-curves-of-arm64.md.

use holdup_sim::machine::{Machine, Topology, catalogue};
use holdup_sim::stats::WindowStats;
use holdup_sim::workloads::lock_contention::{Setup, load};
use holdup_sim::world::World;

const MS: u64 = 1_000_000;

/// A lock that pinned threads take; work inside and outside of it, ns.
fn run(machine: &Machine, algorithm: &'static str, threads: u32, (inside, outside): (u64, u64)) -> WindowStats {
    let setup = Setup {
        workers: threads,
        algorithm,
        section_ns: inside,
        think_ns: outside,
        processes: false,
        faults: 0,
        touches_before: false,
        huge: false,
        pin: true,
    };
    let mut world = World::new(machine, &load(&setup, machine.topology.cpus()), 1);
    // By then each thread has had a CPU.
    world.advance(60 * MS).expect("no deadlock");
    world.open();
    world.advance(160 * MS).expect("no deadlock");
    world.close().clone()
}

/// Time between two operations, of whichever threads, ns.
fn operation_ns(seen: &WindowStats) -> f64 {
    (100 * MS) as f64 / seen.marks[0].count as f64
}

/// Threads that add to a counter under a lock: what else they do takes 8 ns.
fn on_graviton2(algorithm: &'static str, threads: u32) -> f64 {
    let machine = catalogue::find("graviton2-16").expect("it is there").machine;
    operation_ns(&run(&machine, algorithm, threads, (4, 4)))
}

/// `std::mutex` of threads that add to a counter, ns for an operation of all (medians of "mutex add" in
/// travisdowns/concurrency-hierarchy-bench, results/g2-16/combined.csv). With fewer threads the costs of the kernel decide, which
/// are assumed.
const MUTEX: [(u32, f64); 6] = [(8, 124.4), (10, 125.2), (12, 123.0), (14, 121.7), (16, 126.3), (17, 135.0)];

#[test]
fn a_mutex_on_graviton2_is_within_half_of_what_was_published() {
    for (threads, published) in MUTEX {
        let ratio = on_graviton2("pthread-mutex", threads) / published;
        assert!((1.0 / 1.5..1.5).contains(&ratio), "{threads} threads: {ratio} of {published} ns");
    }
}

/// Published: 428 ns with 16 threads on 16 CPUs, 114,000 with 17; the mutex 126 and 135.
#[test]
fn one_thread_more_than_cpus_stops_a_ticket_lock_and_no_mutex() {
    let grows = |algorithm| on_graviton2(algorithm, 17) / on_graviton2(algorithm, 16);
    let (ticket, mutex) = (grows("ticket"), grows("pthread-mutex"));
    assert!(ticket > 100.0 && mutex < 1.25, "ticket {ticket}, mutex {mutex}");
}

/// Published of 212 threads of a ThunderX2 with 1 us outside (dev@dpdk.org, 2019-01-13): of the cores whose counts are shown
/// the least has 84 of 187 with the spin lock, and 533 of 556 with the ticket lock.
#[test]
fn a_ticket_lock_of_212_threads_is_fair_and_one_that_reads_is_not() {
    let mut machine = catalogue::find("server-8").expect("it is there").machine;
    machine.topology = Topology { smt: 4, cores: 28, llcs: 1, nodes: 2 };
    let fairness = |algorithm| {
        let seen = run(&machine, algorithm, 212, (0, 1_000));
        let (least, most) = (seen.by_task.iter().min(), seen.by_task.iter().max());
        *least.expect("threads") as f64 / *most.expect("threads") as f64
    };
    let (spins, ticket) = (fairness("ttas"), fairness("ticket"));
    assert!(spins < 0.7 && ticket > 0.9, "ttas {spins}, ticket {ticket}");
}
