//! The parameters of `wakeup`, read and checked.

use crate::wakeup::trial::may_be_fifo;
use holdup_host::Host;
use holdup_load::by;
use holdup_load::parameters::whole;
use holdup_load::placement::{PLACEMENT, Placement};
use holdup_model::{Parameter, ParameterKind, Parameters, Problem};

/// The most threads.
const MOST_THREADS: i64 = 4096;
/// A shorter interval leaves a thread no time to do anything but be late.
const SHORTEST_NS: i64 = 10_000;
/// A trial cannot end before the last of its threads wakes.
const LONGEST_NS: i64 = 1_000_000_000;

/// What users may set, each also as an axis.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "threads",
        kind: ParameterKind::Integer { min: 1, max: MOST_THREADS },
        default: Some("1x cpus"),
        required: false,
        summary: "threads, each with its own timer",
        simulated: true,
    },
    Parameter {
        name: "interval",
        kind: ParameterKind::DURATION,
        default: Some("1ms"),
        required: false,
        summary: "time from one wake-up of the first thread to the next, 10 us to 1 s",
        simulated: true,
    },
    Parameter {
        name: "distance",
        kind: ParameterKind::DURATION,
        default: Some("0"),
        required: false,
        summary: "how much longer the interval of each further thread is",
        simulated: true,
    },
    Parameter {
        name: "priority",
        kind: ParameterKind::Integer { min: 0, max: 99 },
        default: Some("0"),
        required: false,
        summary: "SCHED_FIFO priority of the threads; 0 is SCHED_OTHER",
        simulated: true,
    },
    Parameter {
        name: "pin",
        kind: ParameterKind::Bool,
        default: Some("on"),
        required: false,
        summary: "whether thread i stays on the i-th of the CPUs, round and round",
        simulated: true,
    },
    Parameter {
        name: "cpus",
        kind: ParameterKind::Text,
        default: Some("allowed"),
        required: false,
        summary: "the CPUs that the threads run on, such as 0-3,8",
        simulated: true,
    },
    PLACEMENT,
    by::parameter(&[by::OWN, "cyclictest"]),
];

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
        let setup = Setup {
            threads: whole(parameters, "threads", 1, MOST_THREADS)? as usize,
            interval_ns: whole(parameters, "interval", SHORTEST_NS, LONGEST_NS)?,
            distance_ns: whole(parameters, "distance", 0, LONGEST_NS)?,
            priority: whole(parameters, "priority", 0, 99)? as u32,
            pin: parameters.required_boolean("pin")?,
            cpus: cpus(parameters, host)?,
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
fn cpus(parameters: &Parameters, host: &Host) -> Result<Vec<u32>, Problem> {
    let allowed: Vec<u32> = holdup_host::cpu_places(host).iter().map(|place| place.cpu).collect();
    let placement = Placement::read(parameters, host)?;
    let named = parameters.required_text("cpus")?;
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
        let mut parameters = Parameters::default();
        let defaults: [(&str, Value); 7] = [
            ("threads", 2.into()),
            ("interval", 1_000_000.into()),
            ("distance", 0.into()),
            ("priority", 0.into()),
            ("pin", true.into()),
            ("cpus", "allowed".into()),
            ("placement", "none".into()),
        ];
        for (name, value) in defaults.iter().chain(changes) {
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
        check(&[("interval", 9_999.into())], "interval 9999: it is not between 10000 and 1000000000");
        check(&[("interval", 2_000_000_000.into())], "interval 2000000000: it is not between 10000 and 1000000000");
        check(&[("threads", 0.into())], "threads 0: it is not between 1 and 4096");
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
