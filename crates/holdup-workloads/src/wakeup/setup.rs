//! The parameters of `wakeup`, read and checked.

use crate::wakeup::trial::may_be_fifo;
use holdup_catalogue::wakeup::{self, LONGEST_NS};
use holdup_host::Host;
use holdup_load::placement::Placement;
use holdup_model::{Parameters, Problem};

/// One arm's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) threads: usize,
    pub(crate) interval_ns: u64,
    pub(crate) distance_ns: u64,
    /// 0 for SCHED_OTHER.
    pub(crate) priority: u32,
    pub(crate) pin: bool,
    /// Where the threads may run, not empty.
    pub(crate) cpus: Vec<u32>,
}

impl Setup {
    /// Reads the parameters of an arm, defaults included.
    ///
    /// # Errors
    /// When a value is missing, of the wrong type or out of bounds, or when this machine has no such CPUs.
    pub(crate) fn read(parameters: &Parameters, host: &Host) -> Result<Self, Problem> {
        let p = wakeup::Parameters::read(parameters)?;
        let setup = Setup {
            threads: p.threads as usize,
            interval_ns: p.interval,
            distance_ns: p.distance,
            priority: p.priority,
            pin: p.pin,
            cpus: cpus(&p, host)?,
        };
        let last_ns = setup.interval_of(setup.threads - 1);
        if last_ns > LONGEST_NS as u64 {
            let (threads, s) = (setup.threads, last_ns as f64 / 1e9);
            return Err(Problem::usage(
                format!("distance {} ns", setup.distance_ns),
                format!("the last of {threads} threads would wake every {s} s"),
            )
            .hint("take fewer threads or a shorter distance: the longest interval is 1 s"));
        }
        Ok(setup)
    }

    /// The interval of a thread, ns.
    pub(crate) fn interval_of(&self, thread: usize) -> u64 {
        self.interval_ns.saturating_add(self.distance_ns.saturating_mul(thread as u64))
    }

    /// Whether the threads may have their priority.
    ///
    /// # Errors
    /// Of kind `Host` when they may not.
    pub(crate) fn possible(&self) -> Result<(), Problem> {
        if self.priority == 0 {
            return Ok(());
        }
        may_be_fifo().map_err(|e| {
            Problem::host(format!("priority {}", self.priority), format!("SCHED_FIFO is refused: {e}"))
                .hint("run as root, raise RLIMIT_RTPRIO (ulimit -r), or take priority 0")
        })
    }
}

/// The CPUs of the threads: those named, those of a placement, or all that are allowed.
fn cpus(p: &wakeup::Parameters, host: &Host) -> Result<Vec<u32>, Problem> {
    let allowed: Vec<u32> = holdup_host::cpu_topologies(host).iter().map(|place| place.cpu).collect();
    let placement = Placement::on(p.placement, host)?;
    let named = p.cpus.as_str();
    let what = || format!("cpus {named}");
    if named == "allowed" {
        let cpus = placement.client.unwrap_or(allowed);
        return if cpus.is_empty() { Err(Problem::host(what(), "no CPU is allowed")) } else { Ok(cpus) };
    }
    if placement.client.is_some() {
        return Err(Problem::usage(what(), "placement names CPUs as well").hint("give one of the two"));
    }
    let cpus = holdup_host::cpu_list(named).filter(|cpus| !cpus.is_empty());
    let cpus = cpus.ok_or_else(|| Problem::usage(what(), "it is no list of CPUs").hint("write it as 0-3,8"))?;
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(cpus),
        Some(cpu) => Err(Problem::host(what(), format!("CPU {cpu} is not among those that holdup may use"))
            .hint(format!("allowed are {}", holdup_host::cpu_ranges(&allowed)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Value;

    fn read(changes: &[(&str, Value)]) -> String {
        let mut parameters = wakeup::Parameters::defaults(2);
        for (name, value) in changes {
            parameters.set(name, value.clone());
        }
        match Setup::read(&parameters, &Host::real()) {
            Ok(setup) => format!("{} threads", setup.threads),
            Err(problem) => format!("{}: {}", problem.what, problem.why),
        }
    }

    #[test]
    fn parameters_are_checked_once_more() {
        let check = |changes: &[(&str, Value)], expect: &str| assert_eq!(read(changes), expect, "{changes:?}");
        check(&[], "2 threads");
        check(&[("interval", 9_999.into())], "interval 9999: it must be from 10us to 1s");
        check(&[("interval", 2_000_000_000.into())], "interval 2000000000: it must be from 10us to 1s");
        check(&[("threads", 0.into())], "threads 0: it must be from 1 to 4096");
        check(
            &[("threads", 3.into()), ("distance", 600_000_000.into())],
            "distance 600000000 ns: the last of 3 threads would wake every 1.201 s",
        );
        check(&[("cpus", "moon".into())], "cpus moon: it is no list of CPUs");
        check(&[("cpus", "".into())], "cpus : it is no list of CPUs");
        check(&[("cpus", "65000".into())], "cpus 65000: CPU 65000 is not among those that holdup may use");
        check(&[("cpus", "0".into()), ("placement", "same-cpu".into())], "cpus 0: placement names CPUs as well");
        check(&[("placement", "same-cpu".into())], "2 threads");
    }
}
