//! pgbench, the real program, on a PostgreSQL of holdup's own or on an existing one.

use holdup_catalogue::pgbench::FACTORS;
use holdup_host::Host;
use holdup_load::{PostgresOptions, PrepareContext, Prepared, Shared, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{Availability, ClosedLoop, Meta, Metric, Parameter, Parameters, Problem, Semantics, Think};
use holdup_postgres::RunAs;
use holdup_postgres::pgbench::session::{PgbenchSession, binaries};

pub struct Pgbench;

const META: Meta = Meta {
    id: "pgbench",
    summary: "PostgreSQL under its own benchmark, with every latency",
    docs: "\
Runs the pgbench that belongs to the server. Without `--pg` holdup makes a temporary cluster in a private folder \
(mode 0700, Unix socket only, no port), as the user `postgres` or `nobody` when holdup is root, and removes it at the \
end; what a killed run has left is removed at the next start. Settings are PostgreSQL's defaults but for \
max_connections; each setting in force is among the facts.

Every transaction's latency is read from pgbench's log, which is written to memory (/dev/shm). A transaction counts \
when it ended inside the window; warm-up and the end of the load are excluded. The window opens when all clients \
were connected and the warm-up is over. Afterwards pgbench is ended as its own timer ends it, so that each client \
completes its transaction, and its own count must equal that of its log. With a rate, latency counts from the \
scheduled start, so a server that stalls is not flattered (coordinated omission).

Before each trial pgbench_history is emptied and the two small tables are vacuumed, as pgbench does by itself; the \
accounts table is not, so updates leave their traces from trial to trial and blocks are what evens that out.

The factor `postgres.pool`: warm reads tables and indexes into shared buffers after each start (pg_prewarm, or index \
scans where that is not installed); cold restarts the server before the trial, so that shared buffers are empty. \
The page cache of the system stays as it is in both. With warm, tables larger than shared_buffers do not fit.

With `--pg URL` nothing is started, stopped or restarted, so pool=cold and settings that need a restart cannot be \
had. Tables of pgbench are used when they have the wanted scale and fill factor, made and removed again when there \
are none, and refused otherwise. A user's script must bring its own tables there.

With two ends (`[hosts]`, docs/hosts.md) pgbench runs on the client hosts, which have the clients and the rate in equal parts. \
The server listens at one address then and lets in those hosts alone, each with a password of the run (SCRAM, not TLS: what is \
measured is as it would be without). A script is the client hosts' file, and `threads` are those of each.",
    references: &[
        "https://www.postgresql.org/docs/current/pgbench.html",
        "PostgreSQL src/bin/pgbench/pgbench.c: doLog, threadRun, handle_sig_alarm (15.18)",
        "PostgreSQL src/backend/storage/buffer/freelist.c: GetAccessStrategy (17.11)",
    ],
};

impl Workload for Pgbench {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::pgbench::Parameters::ALL
    }

    fn factors(&self) -> &'static [Parameter] {
        FACTORS
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        holdup_postgres::pgbench::metrics()
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("tps")
    }

    fn semantics(&self) -> Semantics {
        Semantics {
            closed_loops: vec![ClosedLoop {
                in_flight: vec!["clients".to_owned()],
                closed_when: vec![("rate".to_owned(), 0.into())],
                throughput: "tps".to_owned(),
                latency: "latency_mean_us".to_owned(),
                think: Think::Measured("think_mean_us".to_owned()),
            }],
            diagnostics: ["think_mean_us", "connect_ms", "pgbench_tps"].map(str::to_owned).into(),
        }
    }

    fn may_be_background(&self) -> bool {
        true
    }

    fn has_two_ends(&self) -> bool {
        true
    }

    fn shared(&self) -> Option<&'static Shared> {
        Some(&holdup_postgres::pgbench::SHARED)
    }

    fn has_postgres(&self) -> bool {
        true
    }

    /// Uses with tables of the same size share a cluster, for any script and load.
    fn session_key(&self, parameters: &Parameters) -> String {
        format!("scale {:?} fillfactor {:?}", parameters.get("scale"), parameters.get("fillfactor"))
    }

    fn probe(&self, host: &Host, postgres: &PostgresOptions) -> Availability {
        let usable = binaries(postgres).and_then(|bin| match postgres.url {
            Some(_) => Ok(bin),
            None => RunAs::for_this_process(host).map(|_| bin),
        });
        match usable {
            Ok(_) => Availability::Ready,
            Err(Problem { what, why, hint, .. }) => {
                Availability::Unavailable { reason: format!("{what}: {why}"), remedy: hint }
            }
        }
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        Ok(Box::new(PgbenchSession::prepare(context)?))
    }
}
