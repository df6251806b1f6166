//! The parameters of `pgbench`.

use crate::Nanoseconds;
use crate::parameters::{parameters, words};
use holdup_model::{Parameter, ParameterKind};
use std::path::PathBuf;

words! {
    /// What clients run.
    Script {
        /// One UPDATE, one SELECT and one INSERT in a transaction.
        SimpleUpdate,
        /// The transaction of TPC-B: three UPDATEs, one SELECT and one INSERT.
        TpcbLike,
        /// One SELECT.
        SelectOnly,
        /// A script of the user.
        File,
    }
}

words! {
    /// The query protocol.
    Protocol {
        /// One message with the text of the statement.
        Simple,
        /// Parse, bind, execute.
        Extended,
        /// Statements are prepared once.
        Prepared,
    }
}

parameters! {
    /// What a plan sets of `pgbench`.
    "pgbench"

    /// one of pgbench's built-in scripts, or `file`
    script: Script = "tpcb-like",
    /// the script, in pgbench's language (with script = file)
    #[real]
    file: Option<PathBuf>,
    /// scale factor; 1 is 100,000 accounts, about 15 MB
    scale: u32 [1..=1_000_000] = "10",
    /// fill factor of the tables, percent
    fillfactor: u32 [10..=100] = "100",
    /// connections that run transactions at the same time
    clients: u32 [1..=100_000] = "1x cpus",
    /// threads of pgbench; when absent the smaller of clients and CPUs
    threads: Option<u32> [1..=100_000],
    /// query protocol
    protocol: Protocol = "prepared",
    /// open loop: transactions started per second over all clients; when absent a closed loop
    #[real]
    rate: Option<f64> [0.001..=1e9],
    /// with rate: transactions that cannot start this long after their time are skipped
    #[real]
    latency_limit: Option<Nanoseconds>,
    /// how often a transaction is tried that a serialization failure or a deadlock ended
    max_tries: u32 [1..=1_000_000] = "1",
}

/// The factor that says what is in the buffer pool when a trial begins.
pub const POOL: &str = "postgres.pool";

/// The factor that says which patches the server was built with.
pub const BUILD: &str = "postgres.build";

/// The version of the servers that are built; a plan has one.
pub const VERSION: &str = "postgres.version";

/// The version of a plan that names none.
pub const DEFAULT_VERSION: &str = "18";

/// Factors that are no parameters.
pub const FACTORS: &[Parameter] = &[
    Parameter {
        name: POOL,
        kind: ParameterKind::Choice(&["warm", "cold"]),
        default: Some("warm"),
        required: false,
        summary: "the buffer pool before a trial: tables read into it, or emptied by a restart",
        simulated: true,
    },
    Parameter {
        name: BUILD,
        kind: ParameterKind::Text,
        default: None,
        required: false,
        summary: "a server that holdup builds: stock, or patches/NAME[,patches/NAME…]; when absent one that is installed",
        simulated: true,
    },
    Parameter {
        name: VERSION,
        kind: ParameterKind::Text,
        default: Some(DEFAULT_VERSION),
        required: false,
        summary: "the version of the servers that holdup builds, such as 18; one for a plan, in [set]",
        simulated: false,
    },
];
