//! The parameters of `lock-contention`, read and checked.

use crate::algorithms;
use crate::lock::{Algorithm, Sharing};
use crate::record::TruthRecord;
use holdup_load::parameters::{whole, word};
use holdup_model::{Availability, Parameter, ParameterKind, Parameters, Problem, Value};
use std::path::PathBuf;

/// The most workers. Each has 70 KB in the region.
pub const MOST_WORKERS: i64 = 4096;

/// What users may set, each also as an axis.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "threads",
        kind: ParameterKind::Integer { min: 1, max: MOST_WORKERS },
        default: Some("1x cpus"),
        required: false,
        summary: "workers that want the lock, threads or processes",
        simulated: true,
    },
    Parameter {
        name: "algorithm",
        kind: ParameterKind::Choice(algorithms::IDS),
        default: Some("tas"),
        required: false,
        summary: "the lock, see `holdup list algorithms`",
        simulated: true,
    },
    Parameter {
        name: "section",
        kind: ParameterKind::DURATION,
        default: Some("100ns"),
        required: false,
        summary: "work inside the lock, calibrated; 0 is really none",
        simulated: true,
    },
    Parameter {
        name: "think",
        kind: ParameterKind::DURATION,
        default: Some("100ns"),
        required: false,
        summary: "work outside the lock, calibrated; 0 is really none",
        simulated: true,
    },
    Parameter {
        name: "sharing",
        kind: ParameterKind::Choice(Sharing::WORDS),
        default: Some("threads"),
        required: false,
        summary: "whether workers share page tables (threads) or not (processes)",
        simulated: true,
    },
    Parameter {
        name: "faults",
        kind: ParameterKind::Integer { min: 0, max: 4096 },
        default: Some("0"),
        required: false,
        summary: "first touches of 4 KB steps of memory inside the lock",
        simulated: true,
    },
    Parameter {
        name: "pages",
        kind: ParameterKind::Choice(&["4k", "huge"]),
        default: Some("4k"),
        required: false,
        summary: "the pages that `faults` touches: 4 KB, or reserved 2 MB ones",
        simulated: true,
    },
    Parameter {
        name: "sample_every",
        kind: ParameterKind::Integer { min: 0, max: 1_000_000_000 },
        default: Some("0"),
        required: false,
        summary: "one of n acquisitions is timed; 0: as often as costs 2 %",
        simulated: true,
    },
    Parameter {
        name: "pin",
        kind: ParameterKind::Bool,
        default: Some("off"),
        required: false,
        summary: "whether worker i stays on the i-th allowed CPU, round and round",
        simulated: true,
    },
    Parameter {
        name: "truth",
        kind: ParameterKind::Text,
        default: None,
        required: false,
        summary: "for tests: a file that names where workers record what they do; absent: none do",
        simulated: true,
    },
    Parameter {
        name: "truth_record",
        kind: ParameterKind::Choice(TruthRecord::WORDS),
        default: None,
        required: false,
        summary: "for tests: what names the holder, the lock's word (default; by another instruction) or one beside it",
        simulated: true,
    },
];

/// One arm's parameters.
#[derive(Debug, Clone)]
pub struct Setup {
    /// How many workers.
    pub workers: usize,
    /// The lock.
    pub algorithm: &'static Algorithm,
    /// Work inside the lock, ns.
    pub section_ns: u64,
    /// Work outside the lock, ns.
    pub think_ns: u64,
    /// Threads or processes.
    pub sharing: Sharing,
    /// First touches inside the lock.
    pub faults: usize,
    /// Whether they touch huge pages.
    pub huge: bool,
    /// One of n acquisitions is timed; 0: see [`Setup::sampling`].
    pub sample_every: u64,
    /// Whether workers stay on one CPU.
    pub pin: bool,
    /// Where the workers' record is published, when one is kept.
    pub(crate) truth: Option<(PathBuf, TruthRecord)>,
}

impl Setup {
    /// Reads the parameters of an arm, defaults included.
    ///
    /// # Errors
    /// When a value is missing, of the wrong type or out of bounds, which the plan's checker should have seen.
    pub fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let name = parameters.required_text("algorithm")?;
        let algorithm = algorithms::find(name).ok_or_else(|| {
            Problem::usage(format!("algorithm {name}"), "there is no such lock algorithm")
                .hint(format!("it is one of {}", algorithms::IDS.join(", ")))
        })?;
        Ok(Setup {
            workers: whole(parameters, "threads", 1, MOST_WORKERS)? as usize,
            algorithm,
            section_ns: whole(parameters, "section", 0, i64::MAX)?,
            think_ns: whole(parameters, "think", 0, i64::MAX)?,
            sharing: if word(parameters, "sharing", Sharing::WORDS)? == 0 {
                Sharing::Threads
            } else {
                Sharing::Processes
            },
            faults: whole(parameters, "faults", 0, 4096)? as usize,
            huge: word(parameters, "pages", &["4k", "huge"])? == 1,
            sample_every: whole(parameters, "sample_every", 0, 1_000_000_000)?,
            pin: parameters.required_boolean("pin")?,
            truth: recorded(parameters)?,
        })
    }

    /// Whether the lock works on this machine.
    ///
    /// # Errors
    /// Of kind `Host` when it does not, with what would make it work.
    pub fn available(&self) -> Result<(), Problem> {
        let Availability::Unavailable { reason, remedy } = self.algorithm.probe() else { return Ok(()) };
        let problem = Problem::host(format!("algorithm {}", self.algorithm.meta.id), reason);
        Err(match remedy {
            Some(remedy) => problem.hint(remedy),
            None => problem,
        })
    }
}

/// Where the workers' record is published and what it is to be exact about, when one is kept.
fn recorded(parameters: &Parameters) -> Result<Option<(PathBuf, TruthRecord)>, Problem> {
    let Some(path) = parameters.text("truth")? else { return Ok(None) };
    let exact = match parameters.text("truth_record")? {
        None => TruthRecord::LockWord,
        Some(_) => TruthRecord::ALL[word(parameters, "truth_record", TruthRecord::WORDS)?],
    };
    Ok(Some((path.into(), exact)))
}

/// What timing may add to an uncontended operation, as a share.
const TIMING_SHARE: f64 = 0.02;
/// What timing one acquisition costs, in readings of the clock: two of them, and about as much again
/// because the CPU cannot overlap the acquisition with its neighbours.
const READINGS_PER_SAMPLE: f64 = 4.0;
/// What the cheapest pair of lock and unlock takes, ns.
const LEAST_PAIR_NS: f64 = 2.0;

impl Setup {
    /// How many acquisitions go on one that is timed. Where the plan does not say, the number at which timing adds
    /// about 2 % to an uncontended operation, as a power of two so that it is the same in each session.
    pub fn sampling(&self, clock_ns: f64) -> u64 {
        if self.sample_every > 0 {
            return self.sample_every;
        }
        let operation_ns = self.section_ns as f64 + self.think_ns as f64 + LEAST_PAIR_NS;
        let every = READINGS_PER_SAMPLE * clock_ns / (TIMING_SHARE * operation_ns);
        (every.ceil() as u64).clamp(1, 1 << 20).next_power_of_two()
    }
}

/// The defaults as values, but for `threads`, whose default is relative to a machine.
#[doc(hidden)]
pub fn defaults(threads: i64) -> Parameters {
    let mut parameters = Parameters::default();
    let values: [(&str, Value); 9] = [
        ("threads", threads.into()),
        ("algorithm", "tas".into()),
        ("section", 100.into()),
        ("think", 100.into()),
        ("sharing", "threads".into()),
        ("faults", 0.into()),
        ("pages", "4k".into()),
        ("sample_every", 0.into()),
        ("pin", false.into()),
    ];
    for (name, value) in values {
        parameters.set(name, value);
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timing_costs_little_where_the_plan_does_not_say_how_often() {
        let check = |section: i64, think: i64, sample_every: i64, expect: u64| {
            let mut parameters = defaults(1);
            parameters.set("section", section);
            parameters.set("think", think);
            parameters.set("sample_every", sample_every);
            let setup = Setup::read(&parameters).expect("valid");
            assert_eq!(setup.sampling(20.0), expect, "{section} ns inside, {think} ns outside, {sample_every}");
        };
        check(0, 0, 0, 2048);
        check(100, 100, 0, 32);
        check(1_000, 3_000, 0, 1);
        check(i64::MAX, i64::MAX, 0, 1);
        check(0, 0, 64, 64);
        check(1_000_000, 0, 1_000_000_000, 1_000_000_000);
    }

    #[test]
    fn parameters_are_checked_once_more() {
        let check = |name: &str, value: Value, expect: Result<(), &str>| {
            let mut parameters = defaults(2);
            parameters.set(name, value.clone());
            let got = Setup::read(&parameters).map(|_| ()).map_err(|p| format!("{}: {}", p.what, p.why));
            assert_eq!(got, expect.map_err(str::to_owned), "{name} = {value}");
        };
        check("threads", 1.into(), Ok(()));
        check("threads", 4096.into(), Ok(()));
        check("threads", 0.into(), Err("threads 0: it is not between 1 and 4096"));
        check("threads", 4097.into(), Err("threads 4097: it is not between 1 and 4096"));
        check(
            "threads",
            "two".into(),
            Err("parameter threads: a whole number was expected, the checked plan holds Text(\"two\")"),
        );
        check("section", 0.into(), Ok(()));
        check("section", i64::MAX.into(), Ok(()));
        check("think", (-1).into(), Err("think -1: it is not between 0 and 9223372036854775807"));
        check("algorithm", "mcs".into(), Err("algorithm mcs: there is no such lock algorithm"));
        check("sharing", "fibers".into(), Err("sharing fibers: it is neither threads nor processes"));
        check("pages", "1g".into(), Err("pages 1g: it is neither 4k nor huge"));
        check("sample_every", 0.into(), Ok(()));
        check("sample_every", (-1).into(), Err("sample_every -1: it is not between 0 and 1000000000"));
        check(
            "pin",
            "maybe".into(),
            Err("parameter pin: on or off was expected, the checked plan holds Text(\"maybe\")"),
        );
        let none = Setup::read(&Parameters::default()).expect_err("nothing was given");
        assert_eq!(none.to_string(), "parameter algorithm: the checked plan holds no value for it");
    }
}
