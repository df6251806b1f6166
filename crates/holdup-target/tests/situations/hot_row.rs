//! Many sessions update one row. Which wait is the larger one, for the row or for the table of locks, depends on the CPUs.

use crate::situations::pgbench::account_s;
use crate::situations::sampling::{Sample, half_interval, mean, sampled};
use crate::situations::server::Server;
use crate::situations::{Situation, USUAL, judge, judge_beside};
use holdup_model::{BundleData, Trial};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

static SITUATION: Situation = Situation {
    name: "hot row",
    setup: &["CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0)"],
    held: &[],
    sessions: 20,
    statement: "UPDATE t SET v = v + 1 WHERE id = 1",
    first: &["heavyweight-lock", "lightweight-lock"],
    says: "sessions spend",
    never: &["replication", "other-wait", "saturated-thread"],
};

/// The account reads what PostgreSQL keeps with this setting, too.
static UNTRACKED: Situation = Situation {
    name: "hot row without track_activities",
    setup: &[
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t VALUES (1, 0)",
        "ALTER SYSTEM SET track_activities = off",
        "SELECT pg_reload_conf()",
    ],
    ..SITUATION
};

const EVENTS: &str = "SELECT wait_event_type || ':' || wait_event, count(*) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND wait_event IS NOT NULL GROUP BY 1";

/// Asks the server again and again what its sessions wait for.
fn sample(server: &mut Server) -> Arc<Mutex<Vec<Sample>>> {
    let samples = Arc::new(Mutex::new(Vec::new()));
    let (kept, mut client) = (samples.clone(), server.connect());
    server.thread(move |_| {
        std::thread::sleep(Duration::from_millis(10));
        let Ok(rows) = holdup_postgres::sql::rows(&mut client, EVENTS) else { return false };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let at = i64::try_from(now.as_nanos()).expect("before 2262");
        let of_row = |row: Vec<Option<String>>| Some((row[0].clone()?, row[1].as_ref()?.parse().ok()?));
        let events = rows.into_iter().filter_map(of_row).collect();
        kept.lock().unwrap_or_else(PoisonError::into_inner).push((at, events));
        true
    });
    samples
}

/// Those that sleep in it, and all that could run, on a CPU or not, by the account of a window.
fn accounted(trial: &Trial, event: &str) -> (f64, f64) {
    let length_s = trial.window.expect("it was closed").length_ns as f64 / 1e9;
    let sum = |is_meant: &dyn Fn(&str) -> bool| {
        let of_backends = |label: &str| label.strip_prefix("client backend | ").is_some_and(is_meant);
        account_s(trial, "account_s", of_backends) / length_s
    };
    (sum(&|rest| rest == format!("asleep | {event}")), sum(&|rest| !rest.starts_with("asleep")))
}

/// A session that was woken is in its wait event until it runs, which the account counts as waiting for a CPU: so samples lie
/// between what sleeps, and that with all that could run.
fn agrees(bundle: &BundleData, samples: &[Sample]) {
    assert_eq!(bundle.trials.len(), 4);
    for event in ["Lock:transactionid", "Lock:tuple", "LWLock:LockManager"] {
        let of_samples: Vec<f64> = bundle.trials.iter().map(|trial| sampled(samples, trial, event)).collect();
        let (asleep, ready): (Vec<f64>, Vec<f64>) = bundle.trials.iter().map(|trial| accounted(trial, event)).unzip();
        let off = half_interval(&of_samples) + half_interval(&asleep);
        let [of_samples, asleep, ready] = [of_samples, asleep, ready].map(|all| mean(&all));
        println!("  {event}: {of_samples:.2} sampled, {asleep:.2} asleep, intervals ±{off:.2}, {ready:.2} could run");
        let more = of_samples - asleep;
        assert!(more > -off && more < off + ready, "{event}: {of_samples} sampled, {asleep} asleep, {ready} could run");
    }
}

pub(crate) fn a_hot_row() {
    let (bundle, _, samples) = judge_beside(&SITUATION, USUAL, sample);
    agrees(&bundle, &samples.lock().unwrap_or_else(PoisonError::into_inner));
}

pub(crate) fn a_hot_row_without_track_activities() {
    judge(&UNTRACKED);
}
