//! M/M/c//N: a closed number of tasks think and are served.

use crate::theory::common::{
    BATCHES, Estimate, births_and_deaths, free, lengths, machine, mean, none_deviates, program, run,
};
use holdup_sim::machine::{Kernel, Machine};
use holdup_sim::program::Op;
use holdup_sim::random::Span;
use holdup_sim::world::{Load, Policy, TaskSpec};

const SERVICE_NS: u64 = 1_000_000;
const THINK_NS: u64 = 3_000_000;

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
) -> Vec<Result<String, String>> {
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
        let batch_ns = (300_000.0 / expect.0) as u64 / BATCHES as u64;
        let batches = run(&machine(2, free()), &load, 3, batch_ns, BATCHES, |seen| lengths(seen, 0));
        results.extend(compare(&format!("M/M/{servers}//{tasks}, device"), &batches, batch_ns, expect, 0.0));
    }
    println!("{}", none_deviates(results));
}

/// CPUs as servers of four times as many tasks: what was seen, the length of a batch, and what is expected. A mark begins
/// when a task begins to think.
fn on_cpus(version: &str, cpus: u32, policy: Policy, hot_ns: u64) -> (Vec<(f64, f64)>, u64, (f64, f64)) {
    let tasks = 4 * cpus;
    let think = Op::Sleep(Span::Exponential(THINK_NS));
    let ops = vec![Op::Done(0), Op::Begin(0), think, Op::Compute(Span::Exponential(SERVICE_NS)), Op::Jump(0)];
    let load = Load {
        programs: vec![program(ops)],
        tasks: vec![TaskSpec { policy, ..TaskSpec::default() }; tasks as usize],
        marks: 1,
        ..Load::default()
    };
    let mut kernel = Kernel::of_version(version, cpus, 1000).expect("known");
    kernel.migration_cost_ns = hot_ns;
    let machine = Machine { kernel, ..machine(cpus, free()) };
    let expect = expected(tasks, cpus, THINK_NS as f64);
    let batch_ns = (300_000.0 / expect.0) as u64 / BATCHES as u64;
    (run(&machine, &load, 4, batch_ns, BATCHES, |seen| lengths(seen, 0)), batch_ns, expect)
}

/// Whichever task runs, the work that is done is the same as long as no CPU is idle while a task waits: exponential work does not
/// remember what was done of it.
#[test]
fn cpus_serve_a_closed_number_of_tasks_under_any_policy() {
    let mut results = Vec::new();
    for (name, version, cpus, policy) in [
        ("EEVDF", "6.18", 1, Policy::Other),
        ("CFS", "6.1", 1, Policy::Other),
        ("FIFO", "6.18", 1, Policy::Fifo(1)),
        ("RR", "6.18", 1, Policy::Rr(1)),
        ("FIFO", "6.18", 4, Policy::Fifo(1)),
        ("EEVDF", "6.18", 4, Policy::Other),
        ("CFS", "6.1", 4, Policy::Other),
    ] {
        let (batches, batch_ns, expect) = on_cpus(version, cpus, policy, 0);
        let name = format!("M/M/{cpus}//{}, CPUs under {name}", 4 * cpus);
        results.extend(compare(&name, &batches, batch_ns, expect, THINK_NS as f64));
    }
    println!("{}", none_deviates(results));
}

/// Fair tasks that ran just now stay where they are, and a CPU that is idle only briefly does not look for any: some CPUs
/// have nothing to do while tasks wait elsewhere. The real-time classes push and pull immediately.
#[test]
fn hot_tasks_leave_cpus_idle() {
    let served = |version: &str, policy: Policy| {
        let (batches, batch_ns, (expect, _)) = on_cpus(version, 4, policy, 500_000);
        let rates: Vec<(f64, f64)> = batches.iter().map(|(_, count)| (*count, batch_ns as f64)).collect();
        Estimate::ratio(&rates).map(0.0, 1.0 / expect)
    };
    for (name, version, policy, range) in [
        ("EEVDF", "6.18", Policy::Other, 0.93..0.98),
        ("CFS", "6.1", Policy::Other, 0.93..0.98),
        ("FIFO", "6.18", Policy::Fifo(1), 0.99..1.01),
    ] {
        let share = served(version, policy);
        println!("{name}, hot for 0.5 ms: {:.4} +-{:.4} of what is expected", share.value, share.error);
        assert!(range.contains(&share.value), "{name}: {share:?}");
    }
}

/// A CPU that is shared in slices serves all that are there in parallel, and then only the mean of their work matters: what most
/// of them need may be brief, and what few of them need long. One that serves them in order makes the brief ones wait.
#[test]
fn a_cpu_in_slices_serves_uneven_work_as_well_as_even_work() {
    let tasks = 4;
    let (rate, _) = expected(tasks, 1, THINK_NS as f64);
    let served = |version: &str, policy: Policy| {
        let mut kernel = Kernel::of_version(version, 1, 1000).expect("known");
        kernel.fair.base_slice_ns = 100_000;
        // Work of 1 ms in the mean: 0.2 ms in 9 of 10 cases, else 8.2 ms.
        let of = (0.9 * 2f64.powi(32)) as u32;
        let (brief, long) = (Span::Exponential(SERVICE_NS / 5), Span::Exponential(SERVICE_NS * 41 / 5));
        let think = Op::Sleep(Span::Exponential(THINK_NS));
        let branch = Op::Chance { of, to: 4 };
        let ops = vec![think, branch, Op::Compute(long), Op::Jump(5), Op::Compute(brief), Op::Done(0), Op::Jump(0)];
        let load = Load {
            programs: vec![program(ops)],
            tasks: vec![TaskSpec { policy, ..TaskSpec::default() }; tasks as usize],
            marks: 1,
            ..Load::default()
        };
        let batch_ns = (300_000.0 / rate) as u64 / BATCHES as u64;
        let machine = Machine { kernel, ..machine(1, free()) };
        let rates =
            run(&machine, &load, 7, batch_ns, BATCHES, |seen| (seen.marks[0].count as f64 * 1e9, batch_ns as f64));
        Estimate::ratio(&rates)
    };
    let shared = served("7.1", Policy::Other);
    println!("{}", none_deviates(vec![shared.check("M/H2/1//4, a CPU in slices of 0.1 ms, served/s", rate * 1e9)]));
    let in_order = served("7.1", Policy::Fifo(1));
    println!("the same in order: {:.1} +-{:.1} served/s", in_order.value, in_order.error);
    assert!(in_order.value < 0.95 * shared.value, "{in_order:?} {shared:?}");
}

#[test]
fn the_smallest_case_is_known() {
    let at = births_and_deaths(2, |k| f64::from(2 - k), |_| 1.0);
    assert!(at.iter().zip([0.2, 0.4, 0.4]).all(|(got, expect)| (got - expect).abs() < 1e-12), "{at:?}");
}
