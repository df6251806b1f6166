//! The parameters of `pgbench`, as plans name them and as pgbench wants them.

use holdup_model::{Parameter, ParameterKind, Parameters, Problem};
use std::path::PathBuf;

const fn parameter(
    name: &'static str,
    kind: ParameterKind,
    default: Option<&'static str>,
    summary: &'static str,
) -> Parameter {
    Parameter { name, kind, default, required: false, summary, simulated: true }
}

/// Every parameter.
pub const PARAMETERS: &[Parameter] = &[
    parameter(
        "script",
        ParameterKind::Choice(&["simple-update", "tpcb-like", "select-only", "file"]),
        Some("tpcb-like"),
        "one of pgbench's built-in scripts, or `file`",
    ),
    parameter("file", ParameterKind::Path, None, "the script, in pgbench's language (with script = file)"),
    parameter(
        "scale",
        ParameterKind::Integer { min: 1, max: 1_000_000 },
        Some("10"),
        "scale factor; 1 is 100,000 accounts, about 15 MB",
    ),
    parameter(
        "fillfactor",
        ParameterKind::Integer { min: 10, max: 100 },
        Some("100"),
        "fill factor of the tables, percent",
    ),
    parameter(
        "clients",
        ParameterKind::Integer { min: 1, max: 100_000 },
        Some("1x cpus"),
        "connections that run transactions at the same time",
    ),
    parameter(
        "threads",
        ParameterKind::Integer { min: 1, max: 100_000 },
        None,
        "threads of pgbench; when absent the smaller of clients and CPUs",
    ),
    parameter(
        "protocol",
        ParameterKind::Choice(&["simple", "extended", "prepared"]),
        Some("prepared"),
        "query protocol",
    ),
    parameter(
        "rate",
        ParameterKind::Float { min: 0.001, max: 1e9 },
        None,
        "open loop: transactions started per second over all clients; when absent a closed loop",
    ),
    parameter(
        "latency_limit",
        ParameterKind::DURATION,
        None,
        "with rate: transactions that cannot start this long after their time are skipped",
    ),
    parameter(
        "max_tries",
        ParameterKind::Integer { min: 1, max: 1_000_000 },
        Some("1"),
        "how often a transaction is tried that a serialization failure or a deadlock ended",
    ),
];

/// What the factor `postgres.pool` can be.
pub const FACTORS: &[Parameter] = &[Parameter {
    name: "postgres.pool",
    kind: ParameterKind::Choice(&["warm", "cold"]),
    default: Some("warm"),
    required: false,
    summary: "the buffer pool before a trial: tables read into it, or emptied by a restart",
    simulated: true,
}];

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
    pub(crate) scale: i64,
    pub(crate) fillfactor: i64,
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
    pub(crate) protocol: String,
    pub(crate) rate: Option<f64>,
    pub(crate) latency_limit_ns: Option<i64>,
    pub(crate) max_tries: i64,
}

/// CPUs that this process may use.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()).unwrap_or(1)
}

impl Settings {
    /// Takes them from a checked plan; what is absent gets the default of the table above.
    ///
    /// # Errors
    /// When parameters contradict each other.
    pub(crate) fn from(parameters: &Parameters) -> Result<Self, Problem> {
        let whole = |name: &str, default: i64| parameters.integer(name).map(|v| v.unwrap_or(default));
        let file = parameters.text("file")?.filter(|f| !f.is_empty()).map(PathBuf::from);
        let script = match (parameters.text("script")?.unwrap_or("tpcb-like"), file) {
            ("file", Some(file)) => Script::File(file),
            ("file", None) => {
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
            ("simple-update", None) => Script::Builtin("simple-update"),
            ("select-only", None) => Script::Builtin("select-only"),
            ("tpcb-like", None) => Script::Builtin("tpcb-like"),
            (other, None) => {
                return Err(Problem::internal("pgbench parameter script", format!("`{other}` is not a script")));
            }
        };
        let count = |name: &str, value: i64| {
            u32::try_from(value)
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| Problem::usage(format!("pgbench parameter {name} = {value}"), "it must be 1 or more"))
        };
        let clients = count("clients", whole("clients", i64::from(cpus()))?)?;
        let threads = count("threads", whole("threads", i64::from(clients.min(cpus())))?)?;
        let (rate, latency_limit_ns) = (parameters.float("rate")?, parameters.integer("latency_limit")?);
        if latency_limit_ns.is_some() && rate.is_none() {
            return Err(Problem::usage(
                "pgbench parameter latency_limit",
                "only with a rate are late transactions skipped",
            )
            .hint("set rate as well, or leave latency_limit away"));
        }
        Ok(Settings {
            script,
            tables: TableSize { scale: whole("scale", 10)?, fillfactor: whole("fillfactor", 100)? },
            clients,
            // pgbench itself takes no more threads than clients.
            threads: threads.min(clients),
            protocol: parameters.text("protocol")?.unwrap_or("prepared").to_owned(),
            rate,
            latency_limit_ns,
            max_tries: whole("max_tries", 1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(given: &[(&str, &str)]) -> Parameters {
        let mut parameters = Parameters::default();
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
        let settings = Settings::from(&Parameters::default()).unwrap();
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
        check(&[("clients", "0")], "clients = 0: it must be 1 or more");
    }
}
