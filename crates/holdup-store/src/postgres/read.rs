//! What a store knows, out of the tables.

use super::PostgresStore;
use crate::incoming::hex;
use crate::{Facts, in_order};
use flate2::read::ZlibDecoder;
use holdup_model::kept::{KeptFilter, KeptMetric, KeptRun, KeptSeries, KeptValue};
use holdup_model::{Direction, Metric, Problem};
use holdup_sql::{Row, ToSql};
use std::collections::BTreeMap;
use std::io::Read as _;

/// The largest part of a bundle, bytes: no more is unpacked.
const MOST: u64 = 64 << 20;

/// The bytes of a bundle, checked against what was pushed.
pub(super) fn pull(store: &mut PostgresStore, run_id: &str) -> Result<Vec<u8>, Problem> {
    let missing = || Problem::usage(format!("run {run_id}"), "the store has no such run");
    let rows = store.rows("SELECT run, bundle_bytes, bundle_sha256 FROM holdup.run WHERE run_id = $1", &[&run_id])?;
    let row = rows.first().ok_or_else(missing)?;
    let (run, length, sha256): (i64, i64, String) = (row.get(0), row.get(1), row.get(2));
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).min(1 << 30));
    for part in 0_i32.. {
        let rows = store.rows("SELECT zlib FROM holdup.bundle_part WHERE run = $1 AND part = $2", &[&run, &part])?;
        let Some(row) = rows.first() else { break };
        let zlib: &[u8] = row.get(0);
        let damaged = |e: std::io::Error| Problem::host(format!("bundle of run {run_id}"), format!("part {part}: {e}"));
        ZlibDecoder::new(zlib).take(MOST).read_to_end(&mut bytes).map_err(damaged)?;
    }
    if hex(&bytes) != sha256 {
        return Err(Problem::host(
            format!("bundle of run {run_id}"),
            "what the store gave back is not what was pushed",
        )
        .hint("look for damage in the database: pg_amcheck, the log of the server"));
    }
    Ok(bytes)
}

const RUN: &str = "r.run, r.run_id, r.created_unix_ns, r.plan, r.question, r.target, r.emulated, r.host, r.kernel, r.server, \
                   r.holdup_version, r.ending, r.trials_done, r.trials_void";

/// The condition of a filter over holdup.run; parameters from $1 to $5.
const WHERE: &str = "($1::text IS NULL OR r.plan = $1) AND ($2::text IS NULL OR r.host = $2) \
                     AND ($3::text IS NULL OR starts_with(r.run_id, $3)) AND ($4::bigint IS NULL OR r.created_unix_ns >= $4) \
                     AND ($5::bigint IS NULL OR r.created_unix_ns < $5)";

fn parameters(filter: &KeptFilter) -> [&(dyn ToSql + Sync); 5] {
    [&filter.plan, &filter.host, &filter.run, &filter.since_unix_ns, &filter.before_unix_ns]
}

fn run(row: &Row) -> KeptRun {
    let count = |column: usize| u32::try_from(row.get::<_, i32>(column)).unwrap_or(0);
    KeptRun {
        run_id: row.get(1),
        created_unix_ns: row.get(2),
        plan: row.get(3),
        question: row.get(4),
        target: row.get(5),
        emulated: row.get(6),
        host: row.get(7),
        kernel: row.get(8),
        server: row.get(9),
        holdup_version: row.get(10),
        ending: row.get(11),
        trials_done: count(12),
        trials_void: count(13),
    }
}

/// The runs, oldest first, each with the number of its row.
pub(super) fn runs(store: &mut PostgresStore, filter: &KeptFilter) -> Result<Vec<(i64, KeptRun)>, Problem> {
    let sql = format!("SELECT {RUN} FROM holdup.run r WHERE {WHERE}");
    let rows = store.rows(&sql, &parameters(filter))?;
    let mut runs: Vec<(i64, KeptRun)> = rows.iter().map(|row| (row.get(0), run(row))).collect();
    in_order(&mut runs, |(_, run)| run, filter.last);
    Ok(runs)
}

/// The series of a metric, or of the primary ones.
pub(super) fn series(
    store: &mut PostgresStore,
    filter: &KeptFilter,
    metric: Option<&str>,
) -> Result<KeptSeries, Problem> {
    let runs = runs(store, filter)?;
    let places: BTreeMap<i64, usize> = runs.iter().enumerate().map(|(place, (row, _))| (*row, place)).collect();
    let metrics = metric_rows(store)?;
    // Texts that rows share come as numbers: most of the time went into them.
    let sql = format!(
        "SELECT v.run, a.arm, a.label, a.workload, a.design, v.metric, v.is_primary, v.margin, v.trials, v.mean, v.cv \
         FROM holdup.arm_value v JOIN holdup.arm a USING (run, arm) JOIN holdup.run r USING (run) \
         JOIN holdup.metric m USING (metric) \
         WHERE {WHERE} AND a.replica IS NULL AND ($6::text IS NULL AND v.is_primary OR m.id = $6)"
    );
    let [a, b, c, d, e] = parameters(filter);
    let rows = store.rows(&sql, &[a, b, c, d, e, &metric])?;
    let mut values: Vec<(i32, i32, KeptValue)> = Vec::with_capacity(rows.len());
    for row in &rows {
        let Some(place) = places.get(&row.get::<_, i64>(0)) else { continue };
        let id: i32 = row.get(5);
        let Some(metric) = metrics.get(&id) else { continue };
        let value = KeptMetric {
            metric: metric.clone(),
            is_primary: row.get(6),
            margin: row.get(7),
            trials: u32::try_from(row.get::<_, i32>(8)).unwrap_or(0),
            mean: row.get(9),
            cv: row.get(10),
        };
        let value = KeptValue { run: *place, arm: row.get(2), workload: row.get(3), design: row.get(4), value };
        values.push((row.get(1), id, value));
    }
    values.sort_by_key(|(arm, metric, value)| (value.run, *arm, *metric));
    Ok(KeptSeries {
        runs: runs.into_iter().map(|(_, run)| run).collect(),
        values: values.into_iter().map(|(_, _, value)| value).collect(),
    })
}

fn metric_rows(store: &mut PostgresStore) -> Result<BTreeMap<i32, Metric>, Problem> {
    let rows = store.rows("SELECT metric, id, unit, better, summary FROM holdup.metric", &[])?;
    let metric = |row: &Row| Metric {
        id: row.get(1),
        unit: row.get(2),
        better: if row.get::<_, &str>(3) == "higher" { Direction::Higher } else { Direction::Lower },
        summary: row.get(4),
    };
    Ok(rows.iter().map(|row| (row.get(0), metric(row))).collect())
}

pub(super) fn facts(store: &mut PostgresStore, run_ids: &[String]) -> Result<Facts, Problem> {
    let rows = store.rows(
        "SELECT r.run_id, f.key, f.value FROM holdup.run r JOIN holdup.environment e USING (environment) \
         CROSS JOIN LATERAL jsonb_each_text(e.facts) f WHERE r.run_id = ANY($1)",
        &[&run_ids],
    )?;
    let mut facts = Facts::new();
    for row in &rows {
        facts.entry(row.get(0)).or_default().insert(row.get(1), row.get(2));
    }
    Ok(facts)
}
