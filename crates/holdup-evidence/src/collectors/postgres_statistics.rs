//! What PostgreSQL counted: transactions, blocks, WAL, buffers.

use crate::postgres::{NO_SERVER, probe};
use crate::reading::{Meter, Produces, all_absent};
use crate::{About, CollectContext, Collecting, Collector, Continuous};
use holdup_host::Host;
use holdup_model::{Availability, Collected, Coverage, EvidenceItem, Meta, Problem};
use holdup_sql::{Client, Config};
use std::collections::BTreeMap;

pub(crate) struct PostgresStatistics;

static META: Meta = Meta {
    id: "postgres-statistics",
    summary: "PostgreSQL's own counters: transactions, blocks hit and read, WAL",
    docs: "Sums over pg_stat_database, and pg_stat_bgwriter, pg_stat_checkpointer and pg_stat_wal where the version has \
           them. Read on a connection that is opened before the window and used at its two edges. Backends hand their \
           counts in when idle and at most once a second while busy, so each edge is blurred by up to a second: in short \
           windows compare arms, not absolute values. Columns that a version does not have are left out.",
    references: &[
        "PostgreSQL 15-18 manual, The Cumulative Statistics System",
        "src/backend/utils/activity/pgstat.c: PGSTAT_MIN_INTERVAL (15.18)",
    ],
};

const PRODUCES: Produces = &[("postgres", "1", "increase of a counter, by view and column")];

/// Each query gives one row of numbers under the names of its columns. The second part is the first version that
/// has it and the third the first that has not, as server_version_num.
const QUERIES: &[(&str, i64, i64)] = &[
    (
        "SELECT sum(xact_commit)::float8 AS \"database xact_commit\", sum(xact_rollback)::float8 AS \"database xact_rollback\", \
         sum(blks_hit)::float8 AS \"database blks_hit\", sum(blks_read)::float8 AS \"database blks_read\", \
         sum(temp_files)::float8 AS \"database temp_files\", sum(deadlocks)::float8 AS \"database deadlocks\" \
         FROM pg_stat_database",
        0,
        i64::MAX,
    ),
    (
        "SELECT buffers_alloc::float8 AS \"bgwriter buffers_alloc\", buffers_clean::float8 AS \"bgwriter buffers_clean\" \
         FROM pg_stat_bgwriter",
        0,
        i64::MAX,
    ),
    (
        "SELECT buffers_backend::float8 AS \"bgwriter buffers_backend\", buffers_checkpoint::float8 AS \
         \"checkpointer buffers_written\" FROM pg_stat_bgwriter",
        0,
        170_000,
    ),
    ("SELECT buffers_written::float8 AS \"checkpointer buffers_written\" FROM pg_stat_checkpointer", 170_000, i64::MAX),
    (
        "SELECT wal_records::float8 AS \"wal wal_records\", wal_bytes::float8 AS \"wal wal_bytes\", \
         wal_buffers_full::float8 AS \"wal wal_buffers_full\" FROM pg_stat_wal",
        140_000,
        i64::MAX,
    ),
];

type Reading = BTreeMap<String, f64>;

fn version(client: &mut Client) -> Result<i64, holdup_sql::Error> {
    let row = client.query_one("SELECT current_setting('server_version_num')::bigint", &[])?;
    Ok(row.try_get(0)?)
}

fn read(client: &mut Client, version: i64) -> Result<Reading, holdup_sql::Error> {
    let mut all = Reading::new();
    for (sql, from, until) in QUERIES {
        if (*from..*until).contains(&version) {
            let row = client.query_one(sql, &[])?;
            for (index, column) in row.columns().iter().enumerate() {
                // Sums over no rows are NULL: then the counter is left out.
                if let Some(value) = row.try_get::<_, Option<f64>>(index)? {
                    all.insert(column.name().to_owned(), value);
                }
            }
        }
    }
    Ok(all)
}

struct Running {
    client: Client,
    version: i64,
    before: Reading,
    meter: Meter,
    host: Host,
}

impl Continuous for Running {
    fn cut(&mut self) -> Collected {
        let mut meter = std::mem::take(&mut self.meter);
        let after = match meter.spend(&self.host, |_| read(&mut self.client, self.version)) {
            Ok(after) => after,
            Err(e) => return all_absent(META.id, PRODUCES, &format!("PostgreSQL did not answer: {e}"), meter.0),
        };
        let mut coverage = Coverage { seen: 2, lost: 0, notes: Vec::new() };
        let mut items = Vec::new();
        for (name, now) in &after {
            match self.before.get(name).map(|then| now - then) {
                Some(more) if more >= 0.0 => items.push(EvidenceItem::labelled("postgres", name, "1", more)),
                _ => coverage.lost += 1,
            }
        }
        if coverage.lost > 0 {
            coverage.notes.push(format!("{} counters were reset inside the window", coverage.lost));
        }
        self.before = after;
        Collected { collector: META.id.to_owned(), items, coverage, cost: meter.0, ..Collected::default() }
    }
}

impl Collecting for Running {
    fn continuous(&mut self) -> Option<&mut dyn Continuous> {
        Some(self)
    }

    fn stop(mut self: Box<Self>) -> Collected {
        self.cut()
    }
}

impl Collector for PostgresStatistics {
    fn about(&self) -> About {
        About { is_default: true, needs_postgres: true, ..About::of(&META, PRODUCES) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(context)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        let failed = |why: String| Problem::host("collector postgres-statistics", why);
        let server = context.postgres.as_deref().ok_or_else(|| failed(NO_SERVER.to_owned()))?;
        let mut meter = Meter::default();
        let host = context.host.clone();
        let opened = meter.spend(&host, |_| {
            let mut client = Client::connect(&server.parse::<Config>()?)?;
            let version = version(&mut client)?;
            let before = read(&mut client, version)?;
            Ok::<_, holdup_sql::Error>((client, version, before))
        });
        let (client, version, before) = opened.map_err(|e| failed(e.to_string()))?;
        Ok(Box::new(Running { client, version, before, meter, host }))
    }
}
