//! A run on its way into the tables, in one transaction.

use crate::incoming::{hex, is_newer};
use crate::{Incoming, Pushed};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use holdup_model::Direction;
use holdup_model::kept::{KeptRun, KeptTrial};
use holdup_sql::{Client, Error};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

/// How much of a bundle is in one row, bytes.
const PART: usize = 1 << 20;

type Result<T> = std::result::Result<T, Error>;

/// Keeps a run. Two pushes of the same run wait for each other at the row of the run.
pub(super) fn push(client: &mut Client, bundle: &Incoming) -> Result<Pushed> {
    let run = &bundle.kept.run;
    let mut pushed = Pushed::New;
    let known = client
        .query_once("SELECT run, trials_done, trials_void, ending FROM holdup.run WHERE run_id = $1", &[&run.run_id])?;
    if let Some(row) = known.first() {
        let count = |column: usize| Ok::<_, Error>(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or(0));
        let (done, void) = (count(1)?, count(2)?);
        let known = KeptRun { trials_done: done, trials_void: void, ending: row.try_get(3)?, ..run.clone() };
        if !is_newer(run, &known) {
            return Ok(Pushed::There);
        }
        client.execute("DELETE FROM holdup.run WHERE run = $1", &[&row.try_get::<_, i64>(0)?])?;
        pushed = Pushed::Replaced;
    }
    let environment = environment(client, bundle)?;
    let metrics = metrics(client, bundle)?;
    let Some(row) = insert_run(client, bundle, environment)? else { return Ok(Pushed::There) };
    insert_arms(client, bundle, row, &metrics)?;
    insert_trials(client, &bundle.trials, row)?;
    insert_bytes(client, &bundle.bytes, row)?;
    Ok(pushed)
}

/// The row of the facts, which many runs share.
fn environment(client: &mut Client, bundle: &Incoming) -> Result<i64> {
    let json = serde_json::to_string(&bundle.kept.facts).map_err(|e| Error::System(e.into()))?;
    let sha256 = hex(json.as_bytes());
    loop {
        let rows = client.query_once("SELECT environment FROM holdup.environment WHERE sha256 = $1", &[&sha256])?;
        if let Some(row) = rows.first() {
            return Ok(row.try_get(0)?);
        }
        client.execute(
            "INSERT INTO holdup.environment (sha256, facts) VALUES ($1, ($2::text)::jsonb) ON CONFLICT DO NOTHING",
            &[&sha256, &json],
        )?;
    }
}

/// The numbers of all metrics that the bundle has, by id; what two workloads call by one id is one metric here.
fn metrics(client: &mut Client, bundle: &Incoming) -> Result<BTreeMap<String, i32>> {
    let all = bundle.kept.arms.iter().flat_map(|arm| &arm.metrics).map(|m| &m.metric);
    let mut wanted: BTreeMap<&str, (&str, &str, &str)> = BTreeMap::new();
    for metric in all {
        wanted.entry(&metric.id).or_insert((&metric.unit, word(metric.better), &metric.summary));
    }
    // Trials may have metrics of which no arm has a mean.
    let ids: BTreeSet<&str> = bundle.metrics.values().flatten().map(String::as_str).collect();
    for id in ids {
        wanted.entry(id).or_insert(("", "higher", "no value in this run"));
    }
    // In one order, so that two pushes do not wait for each other in a ring.
    let text = |text: &&str| (*text).to_owned();
    let columns: [Vec<String>; 4] = [
        wanted.keys().map(text).collect(),
        wanted.values().map(|(unit, ..)| text(unit)).collect(),
        wanted.values().map(|(_, better, _)| text(better)).collect(),
        wanted.values().map(|(.., summary)| text(summary)).collect(),
    ];
    let [ids, units, betters, summaries] = &columns;
    let select = "SELECT m.id, m.metric FROM holdup.metric m \
                  JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) w(id, unit, better, summary) \
                  USING (id, unit, better, summary)";
    loop {
        let rows = client.query_once(select, &[ids, units, betters, summaries])?;
        if rows.len() == wanted.len() {
            return rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect();
        }
        client.execute(
            "INSERT INTO holdup.metric (id, unit, better, summary) \
             SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) ON CONFLICT DO NOTHING",
            &[ids, units, betters, summaries],
        )?;
    }
}

fn word(better: Direction) -> &'static str {
    match better {
        Direction::Higher => "higher",
        Direction::Lower => "lower",
    }
}

/// The number of the run's row; `None` where another push has just kept it.
fn insert_run(client: &mut Client, bundle: &Incoming, environment: i64) -> Result<Option<i64>> {
    let run = &bundle.kept.run;
    let (done, void) = (signed(run.trials_done), signed(run.trials_void));
    let bytes = i64::try_from(bundle.bytes.len()).unwrap_or(i64::MAX);
    let rows = client.query_once(
        "INSERT INTO holdup.run (run_id, created_unix_ns, plan, question, target, emulated, host, kernel, server, holdup_version, \
         ending, trials_done, trials_void, bundle_bytes, bundle_sha256, environment) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
         ON CONFLICT (run_id) DO NOTHING RETURNING run",
        &[
            &run.run_id,
            &run.created_unix_ns,
            &run.plan,
            &run.question,
            &run.target,
            &run.emulated,
            &run.host,
            &run.kernel,
            &run.server,
            &run.holdup_version,
            &run.ending,
            &done,
            &void,
            &bytes,
            &bundle.sha256,
            &environment,
        ],
    )?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

fn signed(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn insert_arms(client: &mut Client, bundle: &Incoming, row: i64, metrics: &BTreeMap<String, i32>) -> Result<()> {
    let arms = &bundle.kept.arms;
    let of_workload = |workload: &str| -> String {
        let ids = bundle.metrics.get(workload).into_iter().flatten().filter_map(|id| metrics.get(id));
        format!("{{{}}}", ids.map(i32::to_string).collect::<Vec<_>>().join(","))
    };
    let numbers: Vec<i32> = arms.iter().map(|a| signed(a.arm)).collect();
    let labels: Vec<&str> = arms.iter().map(|a| a.label.as_str()).collect();
    let workloads: Vec<&str> = arms.iter().map(|a| a.workload.as_str()).collect();
    let designs: Vec<&str> = arms.iter().map(|a| a.design.as_str()).collect();
    let replicas: Vec<Option<&str>> = arms.iter().map(|a| a.replica.as_deref()).collect();
    let lists: Vec<String> = arms.iter().map(|a| of_workload(&a.workload)).collect();
    client.execute(
        "INSERT INTO holdup.arm (run, arm, label, workload, design, replica, metrics) \
         SELECT $1, a, l, w, d, r, m::integer[] FROM unnest($2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) \
         u(a, l, w, d, r, m)",
        &[&row, &numbers, &labels, &workloads, &designs, &replicas, &lists],
    )?;
    let values: Vec<_> = arms
        .iter()
        .flat_map(|arm| arm.metrics.iter().map(move |m| (arm.arm, m)))
        .filter_map(|(arm, m)| Some((signed(arm), *metrics.get(&m.metric.id)?, m)))
        .collect();
    let numbers: Vec<i32> = values.iter().map(|(arm, ..)| *arm).collect();
    let ids: Vec<i32> = values.iter().map(|(_, id, _)| *id).collect();
    let primary: Vec<bool> = values.iter().map(|(.., m)| m.is_primary).collect();
    let margins: Vec<f64> = values.iter().map(|(.., m)| m.margin).collect();
    let trials: Vec<i32> = values.iter().map(|(.., m)| signed(m.trials)).collect();
    let means: Vec<f64> = values.iter().map(|(.., m)| m.mean).collect();
    let cvs: Vec<Option<f64>> = values.iter().map(|(.., m)| m.cv).collect();
    client.execute(
        "INSERT INTO holdup.arm_value (run, arm, metric, is_primary, margin, trials, mean, cv) \
         SELECT $1, * FROM unnest($2::integer[], $3::integer[], $4::boolean[], $5::float8[], $6::integer[], $7::float8[], $8::float8[])",
        &[&row, &numbers, &ids, &primary, &margins, &trials, &means, &cvs],
    )?;
    Ok(())
}

fn insert_trials(client: &mut Client, trials: &[KeptTrial], row: i64) -> Result<()> {
    // Arrays of different lengths cannot be an array of arrays: each is a text, as PostgreSQL writes it.
    let list = |t: &KeptTrial| {
        let values: Vec<String> =
            t.values.iter().map(|v| v.map_or_else(|| "NULL".to_owned(), |v| format!("{v:?}"))).collect();
        format!("{{{}}}", values.join(","))
    };
    let column = |of: fn(&KeptTrial) -> u32| -> Vec<i32> { trials.iter().map(|t| signed(of(t))).collect() };
    let (numbers, arms) = (column(|t| t.trial), column(|t| t.arm));
    let (sessions, blocks) = (column(|t| t.session), column(|t| t.block));
    let reasons: Vec<Option<&str>> = trials.iter().map(|t| t.void_reason.as_deref()).collect();
    let started: Vec<i64> = trials.iter().map(|t| t.started_unix_ns).collect();
    let windows: Vec<Option<i64>> = trials.iter().map(|t| t.window_ns.and_then(|ns| i64::try_from(ns).ok())).collect();
    let lists: Vec<String> = trials.iter().map(list).collect();
    client.execute(
        "INSERT INTO holdup.trial (run, trial, arm, session, block, void_reason, started_unix_ns, window_ns, \"values\") \
         SELECT $1, t, a, s, b, v, st, w, l::float8[] FROM unnest($2::integer[], $3::integer[], $4::integer[], $5::integer[], \
         $6::text[], $7::bigint[], $8::bigint[], $9::text[]) u(t, a, s, b, v, st, w, l)",
        &[&row, &numbers, &arms, &sessions, &blocks, &reasons, &started, &windows, &lists],
    )?;
    Ok(())
}

fn insert_bytes(client: &mut Client, bytes: &[u8], row: i64) -> Result<()> {
    for (number, part) in (0_i32..).zip(bytes.chunks(PART)) {
        let mut encoder = ZlibEncoder::new(Vec::with_capacity(part.len() / 2), Compression::new(3));
        encoder.write_all(part).map_err(Error::System)?;
        let zlib = encoder.finish().map_err(Error::System)?;
        client
            .execute("INSERT INTO holdup.bundle_part (run, part, zlib) VALUES ($1, $2, $3)", &[&row, &number, &zlib])?;
    }
    Ok(())
}
