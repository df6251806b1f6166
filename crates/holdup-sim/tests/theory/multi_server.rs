//! M/M/c: customers come by themselves, wait in one line, and each of c servers takes them as long as an exponential.

use crate::theory::common::{BATCHES, Estimate, free, lengths, machine, none_deviates, program, run};
use holdup_sim::program::Op;
use holdup_sim::random::Span;
use holdup_sim::world::{Load, TaskSpec};

const SERVICE_NS: u64 = 100_000;

/// A source makes customers, each its own task that asks a device once, and ends.
pub(crate) fn open(customer: Vec<Op>, servers: u32, interval_ns: u64) -> Load {
    let source = vec![Op::Sleep(Span::Exponential(interval_ns)), Op::Fork(1), Op::Jump(0)];
    Load {
        programs: vec![program(source), program(customer)],
        tasks: vec![TaskSpec::default()],
        devices: vec![servers],
        most_tasks: 4_000,
        marks: 1,
        ..Load::default()
    }
}

/// The chance to wait (Erlang's C) with this number of servers and this load offered to all of them.
fn chance_to_wait(servers: u32, offered: f64) -> f64 {
    let mut blocked = 1.0;
    for k in 1..=servers {
        blocked = offered * blocked / (f64::from(k) + offered * blocked);
    }
    let load = offered / f64::from(servers);
    blocked / (1.0 - load * (1.0 - blocked))
}

#[test]
fn erlangs_formula_gives_known_values() {
    for (servers, offered, expect) in [(1, 0.5, 0.5), (2, 1.0, 1.0 / 3.0), (10, 7.0, 0.2217)] {
        let got = chance_to_wait(servers, offered);
        assert!((got - expect).abs() < 5e-5, "{servers} {offered}: {got}");
    }
}

#[test]
fn customers_of_several_servers_stay_as_long_as_erlang_says() {
    let mut results = Vec::new();
    for (servers, load, customers) in [(2, 0.5, 450_000), (4, 0.6, 500_000), (16, 0.8, 500_000)] {
        let interval_ns = (SERVICE_NS as f64 / load / f64::from(servers)).round() as u64;
        let customer = vec![Op::Begin(0), Op::Io { device: 0, work: Span::Exponential(SERVICE_NS) }, Op::Done(0)];
        let batch_ns = interval_ns * customers / BATCHES as u64;
        let load_of = open(customer, servers, interval_ns);
        let batches = run(&machine(2, free()), &load_of, 1, batch_ns, BATCHES, |seen| lengths(seen, 0));
        let service = SERVICE_NS as f64;
        let offered = service / interval_ns as f64;
        let expect = service + chance_to_wait(servers, offered) * service / (f64::from(servers) - offered);
        let name = format!("M/M/{servers} at {load}");
        results.push(Estimate::ratio(&batches).check(&format!("{name}, time in system ns"), expect));
        let rates: Vec<(f64, f64)> = batches.iter().map(|(_, count)| (count * 1e9, batch_ns as f64)).collect();
        results.push(Estimate::ratio(&rates).check(&format!("{name}, customers/s"), 1e9 / interval_ns as f64));
        let present: Vec<(f64, f64)> = batches.iter().map(|(sum, _)| (*sum, batch_ns as f64)).collect();
        results.push(Estimate::ratio(&present).check(&format!("{name}, customers"), expect / interval_ns as f64));
    }
    println!("{}", none_deviates(results));
}
