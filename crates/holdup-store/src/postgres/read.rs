//! What a store knows, out of the tables.

use super::PostgresStore;
use crate::incoming::{MOST as MOST_OF_A_BUNDLE, hex};
use crate::{Facts, in_order};
use flate2::read::ZlibDecoder;
use holdup_model::kept::{KeptFilter, KeptMetric, KeptRun, KeptSeries, KeptValue};
use holdup_model::{Direction, Metric, Problem};
use holdup_sql::{Error, Row};
use std::collections::BTreeMap;
use std::io::Read as _;

/// The largest part of a bundle, bytes: no more is unpacked.
const MOST: u64 = 64 << 20;

/// The bytes of a bundle, checked against what was pushed.
pub(super) fn pull(store: &mut PostgresStore, run_id: &str) -> Result<Vec<u8>, Problem> {
    let missing = || Problem::usage(format!("run {run_id}"), "the store has no such run");
    let rows = store.rows("SELECT run, bundle_bytes, bundle_sha256 FROM holdup.run WHERE run_id = $1", &[&run_id])?;
    let row = rows.first().ok_or_else(missing)?;
    let known = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    let (run, length, sha256): (i64, i64, String) = known().map_err(|e: Error| store.problem(&e))?;
    let length = u64::try_from(length).unwrap_or(0).min(MOST_OF_A_BUNDLE);
    let mut bytes = Vec::new();
    for part in 0_i32.. {
        // The store says how long it is, and what it gives is no longer.
        let room = (length + 1).saturating_sub(bytes.len() as u64).min(MOST);
        let rows = store.rows("SELECT zlib FROM holdup.bundle_part WHERE run = $1 AND part = $2", &[&run, &part])?;
        let Some(row) = rows.first() else { break };
        let zlib: &[u8] = row.try_get(0).map_err(|e| store.problem(&e.into()))?;
        let damaged = |e: std::io::Error| Problem::host(format!("bundle of run {run_id}"), format!("part {part}: {e}"));
        ZlibDecoder::new(zlib).take(room).read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() as u64 > length {
            break;
        }
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

/// The runs of a filter, the newest first; parameters from $1 to $6.
const FILTERED: &str = "WHERE ($1::text IS NULL OR r.plan = $1) AND ($2::text IS NULL OR r.host = $2) \
                     AND ($3::text IS NULL OR starts_with(r.run_id, $3)) AND ($4::bigint IS NULL OR r.created_unix_ns >= $4) \
                     AND ($5::bigint IS NULL OR r.created_unix_ns < $5) \
                     ORDER BY r.created_unix_ns DESC, r.run_id COLLATE \"C\" DESC LIMIT $6::bigint";

fn run(row: &Row) -> Result<KeptRun, Error> {
    let count = |column: usize| Ok::<_, Error>(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or(0));
    Ok(KeptRun {
        run_id: row.try_get(1)?,
        created_unix_ns: row.try_get(2)?,
        plan: row.try_get(3)?,
        question: row.try_get(4)?,
        target: row.try_get(5)?,
        emulated: row.try_get(6)?,
        host: row.try_get(7)?,
        kernel: row.try_get(8)?,
        server: row.try_get(9)?,
        holdup_version: row.try_get(10)?,
        ending: row.try_get(11)?,
        trials_done: count(12)?,
        trials_void: count(13)?,
    })
}

/// The runs, oldest first, each with the number of its row.
pub(super) fn runs(store: &mut PostgresStore, filter: &KeptFilter) -> Result<Vec<(i64, KeptRun)>, Problem> {
    let sql = format!("SELECT {RUN} FROM holdup.run r {FILTERED}");
    let KeptFilter { plan, host, run: begin, since_unix_ns, before_unix_ns, last } = filter;
    let last = last.map(|last| i64::try_from(last).unwrap_or(i64::MAX));
    let rows = store.rows(&sql, &[plan, host, begin, since_unix_ns, before_unix_ns, &last])?;
    let runs: Result<Vec<(i64, KeptRun)>, Error> = rows.iter().map(|row| Ok((row.try_get(0)?, run(row)?))).collect();
    let mut runs = runs.map_err(|e| store.problem(&e))?;
    in_order(&mut runs, |(_, run)| run, None);
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
    let sql = "SELECT v.run, a.arm, a.label, a.workload, a.design, v.metric, v.is_primary, v.margin, v.trials, v.mean, v.cv \
         FROM unnest($1::bigint[]) r (run) JOIN holdup.arm_value v USING (run) JOIN holdup.arm a USING (run, arm) \
         JOIN holdup.metric m USING (metric) \
         WHERE a.replica IS NULL AND ($2::text IS NULL AND v.is_primary OR m.id = $2)";
    let rows = store.rows(sql, &[&places.keys().collect::<Vec<_>>(), &metric])?;
    let value = |row: &Row| -> Result<Option<(i32, i32, KeptValue)>, Error> {
        let id: i32 = row.try_get(5)?;
        let (Some(place), Some(metric)) = (places.get(&row.try_get::<_, i64>(0)?), metrics.get(&id)) else {
            return Ok(None);
        };
        let value = KeptMetric {
            metric: metric.clone(),
            is_primary: row.try_get(6)?,
            margin: row.try_get(7)?,
            trials: u32::try_from(row.try_get::<_, i32>(8)?).unwrap_or(0),
            mean: row.try_get(9)?,
            cv: row.try_get(10)?,
        };
        let (arm, workload, design) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        Ok(Some((row.try_get(1)?, id, KeptValue { run: *place, arm, workload, design, value })))
    };
    let values: Result<Vec<_>, Error> = rows.iter().filter_map(|row| value(row).transpose()).collect();
    let mut values = values.map_err(|e| store.problem(&e))?;
    values.sort_by_key(|(arm, metric, value)| (value.run, *arm, *metric));
    Ok(KeptSeries {
        runs: runs.into_iter().map(|(_, run)| run).collect(),
        values: values.into_iter().map(|(_, _, value)| value).collect(),
    })
}

fn metric_rows(store: &mut PostgresStore) -> Result<BTreeMap<i32, Metric>, Problem> {
    let rows = store.rows("SELECT metric, id, unit, better, summary FROM holdup.metric", &[])?;
    let metric = |row: &Row| -> Result<(i32, Metric), Error> {
        let better = if row.try_get::<_, &str>(3)? == "higher" { Direction::Higher } else { Direction::Lower };
        let metric = Metric { id: row.try_get(1)?, unit: row.try_get(2)?, better, summary: row.try_get(4)? };
        Ok((row.try_get(0)?, metric))
    };
    rows.iter().map(metric).collect::<Result<_, _>>().map_err(|e| store.problem(&e))
}

pub(super) fn facts(store: &mut PostgresStore, run_ids: &[String]) -> Result<Facts, Problem> {
    let rows = store.rows(
        "SELECT r.run_id, f.key, f.value FROM holdup.run r JOIN holdup.environment e USING (environment) \
         CROSS JOIN LATERAL jsonb_each_text(e.facts) f WHERE r.run_id = ANY($1)",
        &[&run_ids],
    )?;
    let mut facts = Facts::new();
    let mut add = |row: &Row| -> Result<(), Error> {
        facts.entry(row.try_get(0)?).or_default().insert(row.try_get(1)?, row.try_get(2)?);
        Ok(())
    };
    rows.iter().try_for_each(&mut add).map_err(|e| store.problem(&e))?;
    Ok(facts)
}
