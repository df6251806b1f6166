//! The parameters of `request`, read and checked.

use holdup_host::Host;
use holdup_load::by;
use holdup_load::parameters;
use holdup_load::placement::{self, Placement};
use holdup_model::{Parameter, ParameterKind, Parameters, Problem, Value};

/// The most messengers and workers together: each worker has 140 KB for its latencies.
pub const MOST_TASKS: usize = 4096;
/// The highest rate of requests: one in 100 ns is more than any messenger posts.
pub const HIGHEST_RATE: f64 = 1e7;

const fn parameter(name: &'static str, kind: ParameterKind, default: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, kind, default: Some(default), required: false, summary, simulated: true }
}

const TASKS: ParameterKind = ParameterKind::Integer { min: 1, max: MOST_TASKS as i64 - 1 };

/// What users may set, each also as an axis.
pub const PARAMETERS: &[Parameter] = &[
    parameter("messengers", TASKS, "1", "threads that wake workers"),
    parameter("workers", TASKS, "1x cpus", "threads that work, for each messenger"),
    parameter("work", ParameterKind::DURATION, "1ms", "one operation of a request, calibrated; 0 is really none"),
    parameter(
        "operations",
        ParameterKind::Integer { min: 0, max: 1_000_000 },
        "5",
        "operations of a request, under the lock of the CPU",
    ),
    parameter("think", ParameterKind::DURATION, "100us", "sleep of a request before its operations"),
    parameter("lock", ParameterKind::Bool, "on", "whether operations hold a spin lock of the CPU that they begin on"),
    parameter(
        "rate",
        ParameterKind::Float { min: 0.0, max: HIGHEST_RATE },
        "0",
        "requests per second that arrive at fixed distances; 0: when a worker asks",
    ),
    placement::PLACEMENT,
    by::parameter(&[by::OWN, "schbench"]),
];

/// One arm's parameters.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Threads that wake workers.
    pub messengers: usize,
    /// Threads that work, for each messenger.
    pub workers: usize,
    /// One operation, ns.
    pub work_ns: u64,
    /// Operations of a request.
    pub operations: u64,
    /// Sleep before the operations, ns.
    pub think_ns: u64,
    /// Whether operations hold a lock of their CPU.
    pub lock: bool,
    /// Distance of two requests that arrive at one messenger, ns; `None` where they come when a worker asks.
    pub interval_ns: Option<f64>,
    /// Messengers are the client side, workers the server side.
    pub placement: Placement,
}

impl Setup {
    /// Reads the parameters of an arm, defaults included.
    ///
    /// # Errors
    /// When a value is missing, of the wrong type or out of bounds, when there are too many threads, or no CPUs as
    /// asked for.
    pub fn read(parameters: &Parameters, host: &Host) -> Result<Self, Problem> {
        let whole = |name: &str, min: i64, max: i64| parameters::whole(parameters, name, min, max);
        let most = MOST_TASKS as i64 - 1;
        let (messengers, workers) = (whole("messengers", 1, most)? as usize, whole("workers", 1, most)? as usize);
        if messengers + messengers * workers > MOST_TASKS {
            return Err(Problem::usage(
                format!("{messengers} messengers with {workers} workers each"),
                format!("{} threads are more than {MOST_TASKS}", messengers + messengers * workers),
            ));
        }
        let rate = parameters::number(parameters, "rate", HIGHEST_RATE)?;
        Ok(Setup {
            messengers,
            workers,
            work_ns: whole("work", 0, i64::MAX)?,
            operations: whole("operations", 0, 1_000_000)?,
            think_ns: whole("think", 0, i64::MAX)?,
            lock: parameters.required_boolean("lock")?,
            interval_ns: (rate > 0.0).then(|| messengers as f64 * 1e9 / rate),
            placement: Placement::read(parameters, host)?,
        })
    }

    /// The workers of all messengers.
    pub fn all_workers(&self) -> usize {
        self.messengers * self.workers
    }
}

/// The defaults as values, but for `workers`, whose default is relative to a machine.
#[doc(hidden)]
pub fn defaults(workers: i64) -> Parameters {
    let mut parameters = Parameters::default();
    let values: [(&str, Value); 8] = [
        ("messengers", 1.into()),
        ("workers", workers.into()),
        ("work", 1_000_000.into()),
        ("operations", 5.into()),
        ("think", 100_000.into()),
        ("lock", true.into()),
        ("rate", 0.0.into()),
        ("placement", "none".into()),
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
    fn parameters_are_checked_before_anything_starts() {
        let check = |changes: &[(&str, Value)], expect: Result<Option<f64>, &str>| {
            let mut parameters = defaults(2);
            for (name, value) in changes {
                parameters.set(name, value.clone());
            }
            let got = Setup::read(&parameters, &Host::real());
            let got = got.map(|s| s.interval_ns).map_err(|p| format!("{}: {}", p.what, p.why));
            assert_eq!(got, expect.map_err(str::to_owned), "{changes:?}");
        };
        check(&[], Ok(None));
        check(&[("rate", 1_000.0.into())], Ok(Some(1e6)));
        check(&[("rate", 1_000.into()), ("messengers", 4.into())], Ok(Some(4e6)));
        check(&[("rate", (-1.0).into())], Err("rate -1: it is not between 0 and 10000000"));
        check(&[("rate", f64::NAN.into())], Err("rate NaN: it is not between 0 and 10000000"));
        check(&[("workers", 0.into())], Err("workers 0: it is not between 1 and 4095"));
        check(&[("workers", 4095.into())], Ok(None));
        check(
            &[("workers", 2048.into()), ("messengers", 2.into())],
            Err("2 messengers with 2048 workers each: 4098 threads are more than 4096"),
        );
        check(&[("work", (-1).into())], Err("work -1: it is not between 0 and 9223372036854775807"));
        check(&[("operations", 1_000_001.into())], Err("operations 1000001: it is not between 0 and 1000000"));
        check(
            &[("lock", "maybe".into())],
            Err("parameter lock: on or off was expected, the checked plan holds Text(\"maybe\")"),
        );
    }
}
