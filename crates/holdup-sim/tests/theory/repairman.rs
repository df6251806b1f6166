//! M/M/c//N: a closed number of tasks think and are served.

use crate::common::{BATCHES, Estimate, births_and_deaths, free, lengths, machine, mean, none_deviates, program, run};
use holdup_sim::machine::{Kernel, Machine};
use holdup_sim::program::Op;
use holdup_sim::random::Span;
use holdup_sim::world::{Load, Policy, TaskSpec};

const SERVICE_NS: u64 = 1_000_000;

/// Served in all per ns, and the time that each is at the servers, ns.
fn expected(tasks: u32, servers: u32, think_ns: f64) -> (f64, f64) {
    let service = SERVICE_NS as f64;
    let at = births_and_deaths(tasks, |k| f64::from(tasks - k) / think_ns, |k| f64::from(k.min(servers)) / service);
    let rate = (f64::from(tasks) - mean(&at)) / think_ns;
    (rate, mean(&at) / rate)
}

fn compare(
    name: &str,
    batches: &[(f64, f64)],
    batch_ns: u64,
    (rate, stay): (f64, f64),
    asleep_ns: f64,
) -> Vec<Result<(), String>> {
    let rates: Vec<(f64, f64)> = batches.iter().map(|(_, count)| (count * 1e9, batch_ns as f64)).collect();
    vec![
        Estimate::ratio(&rates).check(&format!("{name}, served/s"), rate * 1e9),
        Estimate::ratio(batches).map(-asleep_ns, 1.0).check(&format!("{name}, time at the server ns"), stay),
    ]
}

#[test]
fn devices_serve_a_closed_number_of_tasks() {
    let mut results = Vec::new();
    for (tasks, servers, think_ns) in [(2, 1, 1_000_000), (10, 1, 9_000_000), (16, 4, 2_000_000), (64, 8, 9_000_000)] {
        let ops = vec![
            Op::Begin(0),
            Op::Io { device: 0, work: Span::Exponential(SERVICE_NS) },
            Op::Done(0),
            Op::Sleep(Span::Exponential(think_ns)),
            Op::Jump(0),
        ];
        let load = Load {
            programs: vec![program(ops)],
            tasks: vec![TaskSpec::default(); tasks as usize],
            devices: vec![servers],
            marks: 1,
            ..Load::default()
        };
        let expect = expected(tasks, servers, think_ns as f64);
        let batch_ns = (400_000.0 / expect.0) as u64 / BATCHES as u64;
        let batches = run(&machine(2, free()), &load, 3, batch_ns, BATCHES, |seen| lengths(seen, 0));
        results.extend(compare(&format!("M/M/{servers}//{tasks}, device"), &batches, batch_ns, expect, 0.0));
    }
    none_deviates(results);
}

/// The same with CPUs as servers. Whoever runs, the work that is done is the same as long as no CPU is idle while a task
/// waits: exponential work does not remember what was done of it.
#[test]
fn cpus_serve_a_closed_number_of_tasks_whatever_the_policy() {
    let mut results = Vec::new();
    let of = |version: &str, cpus: u32| {
        let kernel = Kernel::of_version(version, cpus, 1000).expect("known");
        Machine { kernel, ..machine(cpus, free()) }
    };
    for (name, version, cpus, policy) in [
        ("EEVDF", "6.18", 1, Policy::Other),
        ("CFS", "6.1", 1, Policy::Other),
        ("FIFO", "6.18", 1, Policy::Fifo(1)),
        ("RR", "6.18", 1, Policy::Rr(1)),
        ("FIFO", "6.18", 4, Policy::Fifo(1)),
    ] {
        let (tasks, think_ns) = (4 * cpus, 3_000_000);
        let think = Op::Sleep(Span::Exponential(think_ns));
        let ops = vec![Op::Done(0), Op::Begin(0), think, Op::Compute(Span::Exponential(SERVICE_NS)), Op::Jump(0)];
        let load = Load {
            programs: vec![program(ops)],
            tasks: vec![TaskSpec { policy, ..TaskSpec::default() }; tasks as usize],
            marks: 1,
            ..Load::default()
        };
        let expect = expected(tasks, cpus, think_ns as f64);
        let batch_ns = (300_000.0 / expect.0) as u64 / BATCHES as u64;
        let batches = run(&of(version, cpus), &load, 4, batch_ns, BATCHES, |seen| lengths(seen, 0));
        let name = format!("M/M/{cpus}//{tasks}, CPUs under {name}");
        results.extend(compare(&name, &batches, batch_ns, expect, think_ns as f64));
    }
    none_deviates(results);
}

#[test]
fn the_smallest_case_is_known() {
    let at = births_and_deaths(2, |k| f64::from(2 - k), |_| 1.0);
    assert!(at.iter().zip([0.2, 0.4, 0.4]).all(|(got, expect)| (got - expect).abs() < 1e-12), "{at:?}");
}
