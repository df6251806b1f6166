//! The parameters of `request`, read and checked.

use holdup_catalogue::request::{self, MOST_TASKS};
use holdup_host::Host;
use holdup_load::placement::Placement;
use holdup_model::{Parameters, Problem};

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
    /// True if operations hold a lock of their CPU.
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
        let p = request::Parameters::read(parameters)?;
        let (messengers, workers) = (p.messengers as usize, p.workers as usize);
        if messengers + messengers * workers > MOST_TASKS as usize {
            return Err(Problem::usage(
                format!("{messengers} messengers with {workers} workers each"),
                format!("{} threads are more than {MOST_TASKS}", messengers + messengers * workers),
            ));
        }
        Ok(Setup {
            messengers,
            workers,
            work_ns: p.work,
            operations: p.operations,
            think_ns: p.think,
            lock: p.lock,
            interval_ns: (p.rate > 0.0).then(|| messengers as f64 * 1e9 / p.rate),
            placement: Placement::on(p.placement, host)?,
        })
    }

    /// The workers of all messengers.
    pub fn all_workers(&self) -> usize {
        self.messengers * self.workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Value;

    #[test]
    fn parameters_are_checked_before_anything_starts() {
        let check = |changes: &[(&str, Value)], expect: Result<Option<f64>, &str>| {
            let mut parameters = request::Parameters::defaults(2);
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
        check(&[("rate", (-1.0).into())], Err("rate -1: it must be from 0 to 10000000"));
        check(&[("rate", f64::NAN.into())], Err("rate NaN: it must be from 0 to 10000000"));
        check(&[("workers", 0.into())], Err("workers 0: it must be from 1 to 4095"));
        check(&[("workers", 4095.into())], Ok(None));
        check(
            &[("workers", 2048.into()), ("messengers", 2.into())],
            Err("2 messengers with 2048 workers each: 4098 threads are more than 4096"),
        );
        check(&[("work", (-1).into())], Err("work -1: it must be 0ns or more"));
        check(&[("operations", 1_000_001.into())], Err("operations 1000001: it must be from 0 to 1000000"));
        check(&[("lock", "maybe".into())], Err("lock maybe: it must be on or off"));
    }
}
