//! The parameters of `pgbench`, as plans name them and as pgbench wants them.

use holdup_catalogue::pgbench;
use holdup_model::{Parameters, Problem};
use std::path::PathBuf;

/// The script of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Script {
    /// One of pgbench's own, by its id.
    Builtin(&'static str),
    /// A user's file.
    File(PathBuf),
}

/// Which tables a trial needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableSize {
    pub(crate) scale: u32,
    pub(crate) fillfactor: u32,
}

impl TableSize {
    /// The database in a cluster of our own.
    pub(crate) fn database(self) -> String {
        format!("pgbench_s{}_f{}", self.scale, self.fillfactor)
    }
}

/// The parameters of one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) script: Script,
    pub(crate) tables: TableSize,
    pub(crate) clients: u32,
    pub(crate) threads: u32,
    pub(crate) protocol: pgbench::Protocol,
    pub(crate) rate: Option<f64>,
    pub(crate) latency_limit_ns: Option<u64>,
    pub(crate) max_tries: u32,
}

/// CPUs that this process may use.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()).unwrap_or(1)
}

impl Settings {
    /// Takes them from a checked plan.
    pub(crate) fn from(parameters: &Parameters) -> Result<Self, Problem> {
        let p = pgbench::Parameters::read(parameters)?;
        let script = match (p.script, p.file) {
            (pgbench::Script::File, Some(file)) => Script::File(file),
            (pgbench::Script::File, None) => {
                return Err(Problem::usage("pgbench parameter script", "`file` needs the parameter file")
                    .hint("give the script's path as file = \"…\""));
            }
            (builtin, Some(file)) => {
                return Err(Problem::usage(
                    format!("pgbench parameter file = {}", file.display()),
                    format!("the script is {builtin}, so the file would not be used"),
                )
                .hint("set script = \"file\", or leave file away"));
            }
            (builtin, None) => Script::Builtin(builtin.word()),
        };
        let (rate, latency_limit_ns) = (p.rate, p.latency_limit);
        if latency_limit_ns.is_some() && rate.is_none() {
            return Err(Problem::usage(
                "pgbench parameter latency_limit",
                "only with a rate are late transactions skipped",
            )
            .hint("set rate as well, or leave latency_limit away"));
        }
        Ok(Settings {
            script,
            tables: TableSize { scale: p.scale, fillfactor: p.fillfactor },
            clients: p.clients,
            // pgbench itself takes no more threads than clients.
            threads: p.threads.unwrap_or(cpus()).min(p.clients),
            protocol: p.protocol,
            rate,
            latency_limit_ns,
            max_tries: p.max_tries,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(given: &[(&str, &str)]) -> Parameters {
        let mut parameters = pgbench::Parameters::defaults(cpus());
        for (name, text) in given {
            match text.parse::<i64>() {
                Ok(number) => parameters.set(name, number),
                Err(_) => parameters.set(name, *text),
            }
        }
        parameters
    }

    #[test]
    fn what_is_absent_has_its_default() {
        let settings = Settings::from(&parameters(&[])).unwrap();
        assert_eq!(settings.script, Script::Builtin("tpcb-like"));
        assert_eq!(settings.tables.database(), "pgbench_s10_f100");
        assert_eq!((settings.clients, settings.threads), (cpus(), cpus()));
        let few = Settings::from(&parameters(&[("clients", "1"), ("threads", "8")])).unwrap();
        assert_eq!(few.threads, 1);
    }

    #[test]
    fn contradictions_are_refused() {
        let check = |given: &[(&str, &str)], expect: &str| {
            let refused = Settings::from(&parameters(given)).unwrap_err().to_string();
            assert!(refused.contains(expect), "{refused}");
        };
        check(&[("script", "file")], "`file` needs the parameter file");
        check(&[("script", "select-only"), ("file", "a.sql")], "the script is select-only");
        check(&[("latency_limit", "5000000")], "only with a rate");
        check(&[("clients", "0")], "clients 0: it must be from 1 to 100000");
    }
}
