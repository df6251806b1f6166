//! What things cost on this host: the calibration of the simulator.
//!
//! In it: one measurement per file, each with a [`Cost`], and [`ALL`], their list. A measurement has 21 repeats of some
//! milliseconds. Its value is their median, its range their 5th and 95th percentile. Within a repeat the lower quartile of
//! many short pieces counts: another thread on the CPU, or a host that takes the CPU away, makes a piece longer, never
//! shorter. What one measurement subtracts from another is in its documentation. Every measurement has its own thread,
//! which stays on one CPU; nothing of the host is changed. What PostgreSQL computes is measured on a temporary server, which
//! makes no difference to any other.
//!
//! Not in it: machine files (`holdup-sim` reads them, `holdup-target` writes them) and the target `sim` itself.
//!
//! Start with [`measure`] and the smallest measurement, `syscall.rs`.

mod atomic;
mod bench;
mod contender;
mod far_sleeper;
mod fault;
mod forget;
mod fork;
mod huge_fault;
mod idle_exit;
mod interrupt;
mod ipi;
mod ipi_send;
mod pages;
mod pg_flush;
mod pg_read;
mod receive;
mod samples;
mod send;
mod sockets;
mod spin;
mod statements;
mod switch;
mod syscall;
mod tick;
mod timer_slack;
mod touch;
mod transfer;
mod wake;

use holdup_host::{CpuTopology, Host};
use holdup_load::Cancel;
use holdup_model::Problem;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

pub use samples::Samples;

/// A measurement of one cost.
pub struct Cost {
    /// The name of the cost in machine files.
    pub name: &'static str,
    /// What is measured and how, with its limits; at most 300 bytes on one line.
    pub docs: &'static str,
    pub measure: fn(&Context) -> Result<Samples, Problem>,
}

/// Every measurement, in an order in which each comes after those that it takes off.
pub const ALL: &[&Cost] = &[
    &syscall::COST,
    &atomic::COST,
    &spin::COST,
    &transfer::CORE,
    &transfer::LLC,
    &transfer::NODE,
    &transfer::FAR,
    &contender::COST,
    &touch::COST,
    &fault::COST,
    &forget::COST,
    &huge_fault::COST,
    &send::COST,
    &receive::COST,
    &fork::COST,
    &wake::COST,
    &switch::COST,
    &tick::COST,
    &ipi::COST,
    &ipi_send::COST,
    &interrupt::COST,
    &idle_exit::COST,
    &timer_slack::COST,
    &pg_read::COST,
    &pg_flush::COST,
    &statements::CLIENT,
    &statements::BEGIN,
    &statements::SELECT,
    &statements::UPDATE,
    &statements::INSERT,
    &statements::END,
];

/// What measurements need.
pub struct Context {
    /// The CPUs that may be used.
    pub cpus: Vec<CpuTopology>,
    /// Memory pages of 2 MB that are reserved and free.
    pub huge_pages_free: u64,
    /// Ticks per second.
    pub hz: u32,
    /// Where files for measurements go.
    pub workdir: PathBuf,
    /// What was measured so far, ns.
    pub measured: BTreeMap<&'static str, f64>,
    /// The folder with PostgreSQL's programs; `None` to look for it.
    pub pg_bin: Option<PathBuf>,
    /// Asks to end.
    pub cancel: Cancel,
    statements: OnceLock<Result<statements::Times, Problem>>,
}

impl Context {
    /// That of this host, with the number of its ticks per second.
    pub fn of_this_host(host: &Host, hz: u32, workdir: PathBuf) -> Self {
        let huge_pages_free = |text: String| -> Option<u64> {
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
            // Other sizes than 2 MB are not what the cost is about.
            (field("Hugepagesize:")? == "2048").then_some(field("HugePages_Free:")?.parse().ok()?)
        };
        Context {
            cpus: holdup_host::cpu_topologies(host),
            huge_pages_free: host.read_text("/proc/meminfo").ok().and_then(huge_pages_free).unwrap_or(0),
            hz,
            workdir,
            measured: BTreeMap::new(),
            pg_bin: None,
            cancel: Cancel::default(),
            statements: OnceLock::new(),
        }
    }

    /// The CPU that everything runs on for which one is enough.
    fn cpu(&self) -> Result<u32, Problem> {
        let first = self.cpus.first().ok_or_else(|| Problem::host("a CPU", "none is allowed"))?;
        Ok(first.cpu)
    }

    /// Two CPUs, of two cores where there are two.
    fn two_cpus(&self) -> Result<(u32, u32), Problem> {
        let cpu = self.cpu()?;
        let apart = self.cpus.iter().skip(1).find(|other| !other.core.contains(&cpu));
        let second = apart.or_else(|| self.cpus.get(1));
        second.map(|second| (cpu, second.cpu)).ok_or_else(|| Problem::host("a second CPU", "only one may be used"))
    }

    /// A cost that was measured before.
    fn known(&self, name: &str) -> Result<f64, Problem> {
        self.measured
            .get(name)
            .copied()
            .ok_or_else(|| Problem::host(name, "it could not be measured, and is part of it"))
    }
}

/// What came of one measurement.
pub struct Outcome {
    /// The measurement.
    pub cost: &'static Cost,
    /// What it gave, or why there is nothing.
    pub result: Result<Samples, Problem>,
}

/// Measures everything that can be; `step` is called with the name of each cost before it is measured.
pub fn measure(context: &mut Context, step: &mut dyn FnMut(&str)) -> Result<Vec<Outcome>, Problem> {
    let mut outcomes = Vec::with_capacity(ALL.len());
    for &cost in ALL {
        step(cost.name);
        let result = (cost.measure)(context);
        if context.cancel.is_cancelled() {
            return Err(Problem::interrupted("the calibration"));
        }
        if let Ok(samples) = &result {
            context.measured.insert(cost.name, samples.median_ns());
        }
        outcomes.push(Outcome { cost, result });
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        Context::of_this_host(&Host::real(), 250, std::env::temp_dir())
    }

    #[test]
    fn what_can_be_measured_here_is_a_time_within_its_range() {
        let mut steps = Vec::new();
        let outcomes = measure(&mut context(), &mut |name| steps.push(name.to_owned())).expect("nothing asks to end");
        assert_eq!(steps.len(), ALL.len());
        for Outcome { cost, result } in &outcomes {
            match result {
                Ok(samples) => {
                    let (low, high) = samples.range_ns();
                    let median = samples.median_ns();
                    assert!(median.is_finite() && median > 0.0, "{}: {samples:?}", cost.name);
                    assert!(low <= median && median <= high, "{}: {samples:?}", cost.name);
                    assert!(samples.count() >= samples::FEWEST, "{}: {samples:?}", cost.name);
                }
                Err(problem) => assert!(!problem.why.is_empty(), "{}", cost.name),
            }
        }
        // These need one CPU and nothing else, so that only a fault could keep them from being measured.
        for name in ["syscall_ns", "atomic_ns", "spin_ns", "touch_ns", "fault_ns", "fork_ns"] {
            let outcome = outcomes.iter().find(|o| o.cost.name == name).expect("it is in the list");
            assert!(outcome.result.is_ok(), "{name}: {:?}", outcome.result);
        }
    }

    #[test]
    fn every_cost_stands_once_and_says_what_it_is_on_one_line() {
        let mut names: Vec<&str> = ALL.iter().map(|cost| cost.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for cost in ALL {
            assert!(cost.name.ends_with("_ns"), "{}", cost.name);
            assert!((1..=300).contains(&cost.docs.len()), "{}: {}", cost.name, cost.docs.len());
            assert!(!cost.docs.chars().any(char::is_control), "{}", cost.name);
        }
    }

    #[test]
    fn one_cpu_none_and_one_that_is_not_there_are_reasons_and_no_crash() {
        let needs_two = ["ipi_ns", "ipi_send_ns", "interrupt_ns", "idle_exit_ns", "contender_ns", "transfer_llc_ns"];
        let place = |cpu: u32| CpuTopology { cpu, core: vec![cpu], llc: Vec::new(), node: Vec::new() };
        let mut one = context();
        one.cpus.truncate(1);
        let missing = Context { cpus: vec![place(1020), place(1021), place(1022)], ..context() };
        let none = Context { cpus: Vec::new(), ..context() };
        for cost in ALL {
            if needs_two.contains(&cost.name) {
                assert!((cost.measure)(&one).is_err(), "{}", cost.name);
            }
            if !cost.name.starts_with("pg_") {
                assert!((cost.measure)(&missing).is_err(), "{}", cost.name);
                assert!((cost.measure)(&none).is_err(), "{}", cost.name);
            }
        }
    }

    #[test]
    fn a_request_to_end_is_obeyed() {
        let mut context = context();
        context.cancel.cancel();
        let problem = measure(&mut context, &mut |_| ()).err().expect("it ends");
        assert_eq!(problem.kind, holdup_model::ProblemKind::Interrupted);
    }
}
