//! Real trials of pgbench on a real PostgreSQL.

use crate::common;
use common::{Ran, binaries, is_alive, kill_after, names, parameters, pool, prepare, prepare_with, trial, workdir};
use holdup_load::{Cancel, PostgresOptions, Prepared, TrialContext, WindowHooks};
use holdup_model::plan::Level;
use holdup_model::{Measured, Problem, ProblemKind, Window};
use std::collections::BTreeMap;

fn run(prepared: &mut dyn Prepared, given: &[(&str, &str)], times: (u64, u64)) -> Ran {
    trial(prepared, &parameters(given), times, &mut |_| {})
}

/// N = X·(R + Z): clients are throughput times latency and the time that pgbench's thread lets them wait.
fn littles_law(ran: &Ran, clients: f64) {
    let (x, r, z) = (ran.metric("tps"), ran.metric("latency_mean_us"), ran.metric("think_mean_us"));
    let n = x * (r + z) / 1e6;
    assert!((n / clients - 1.0).abs() < 0.1, "{x}/s * ({r} + {z}) us is {n} of {clients} clients");
    eprintln!("Little's law: {x:.0}/s * ({r:.1} + {z:.1}) us = {n:.3} of {clients} clients");
}

const SELECT: [(&str, &str); 3] = [("script", "select-only"), ("scale", "1"), ("clients", "8")];
const UPDATE: [(&str, &str); 4] = [("script", "simple-update"), ("scale", "1"), ("clients", "4"), ("max_tries", "2")];
const OPEN_LOOP: [(&str, &str); 6] = [
    ("script", "select-only"),
    ("scale", "1"),
    ("clients", "4"),
    ("rate", "400"),
    ("latency_limit", "500000000"),
    ("protocol", "simple"),
];

/// All on one cluster, as a session has it.
fn trials_measure_what_they_should() {
    binaries();
    let folder = workdir();
    let script = folder.path().join("wrong.sql");
    std::fs::write(&script, "SELECT no_such_column;\n").unwrap();
    let wrong = [("script", "file"), ("file", script.to_str().unwrap()), ("scale", "1"), ("clients", "2")];
    let uses = [parameters(&SELECT), parameters(&UPDATE), parameters(&OPEN_LOOP), parameters(&wrong)];
    let mut prepared = prepare(&folder, &uses, None).unwrap();
    prepared.set(&BTreeMap::new()).unwrap();
    closed_loop(prepared.as_mut(), &SELECT, 8.0);
    closed_loop(prepared.as_mut(), &UPDATE, 4.0);
    facts_are_there(prepared.as_mut());
    open_loop_keeps_its_rate(prepared.as_mut());
    let problem = run(prepared.as_mut(), &wrong, (100, 5_000)).result.unwrap_err();
    assert!(problem.why.contains("column \"no_such_column\" does not exist"), "{problem}");
    assert_eq!(problem.kind, ProblemKind::Trial);
    cancelling_ends_it_immediately(prepared.as_mut());
    // Dropping does the same as closing.
    drop(prepared);
    assert_eq!(names(folder.path()), ["wrong.sql"]);
}

fn closed_loop(prepared: &mut dyn Prepared, given: &[(&str, &str)], clients: f64) {
    let ran = run(prepared, given, (200, 800));
    littles_law(&ran, clients);
    assert_eq!(ran.completed(), ran.count("latency"));
    assert!(ran.completed() > 100, "{}", ran.completed());
    let quantiles = ["latency_p50_us", "latency_p95_us"].map(|id| ran.metric(id));
    assert!(quantiles[0] > 0.0 && quantiles[0] <= quantiles[1], "{quantiles:?}");
    assert_eq!(ran.metric("failed_transactions"), 0.0);
    assert!(ran.metric("connect_ms") > 0.0 && ran.metric("pgbench_tps") > 0.0);
    let roles: Vec<&str> = ran.subjects.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["load", "server"]);
    assert_eq!(Some(ran.subjects[1].1), prepared.postgres().unwrap().postmaster_pid());
    let notes = &ran.result.as_ref().unwrap().notes;
    assert!(notes.iter().all(|n| !n.contains("not known") && !n.contains("stderr")), "{notes:?}");
    assert!(!is_alive(ran.subjects[0].1));
}

fn facts_are_there(prepared: &mut dyn Prepared) {
    let facts = prepared.facts();
    let fact = |key: &str| facts.iter().find(|f| f.key == key).unwrap_or_else(|| panic!("{key} in {facts:?}")).clone();
    assert_eq!(fact("postgres.max_connections").value.as_deref(), Some("100"));
    assert!(fact("postgres.postmaster").steady && fact("postgres.postmaster").value.is_some());
    assert!(fact("postgres.huge_pages_in_effect").value.is_some());
    assert!(fact("postgres.shared_buffers").value.is_some());
    // Nothing moves while nothing is done.
    assert_eq!(facts, prepared.facts());
}

fn open_loop_keeps_its_rate(prepared: &mut dyn Prepared) {
    let ran = run(prepared, &OPEN_LOOP, (100, 1000));
    // A Poisson process of mean 400: five standard deviations.
    let (completed, skipped) = (ran.completed() as f64, ran.metric("skipped"));
    assert!((completed + skipped - 400.0).abs() < 100.0, "{completed} completed, {skipped} skipped");
    assert_eq!(ran.count("schedule_lag"), ran.count("latency"));
    assert!(ran.metric("schedule_lag_mean_us") < ran.metric("latency_mean_us"));
    let result = ran.result.unwrap();
    let p999 = result.measurements.iter().find(|m| m.metric == "latency_p999_us").unwrap();
    let Measured::Absent(why) = &p999.value else { panic!("{:?}", p999.value) };
    assert!(why.ends_with(" beyond it; 10 are needed"), "{why}");
}

struct CancellingHooks(Cancel);

impl WindowHooks for CancellingHooks {
    fn open(&mut self, _: &[(String, u32)]) -> Result<(), Problem> {
        self.0.cancel();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        panic!("a cancelled window is not closed by the workload")
    }
}

fn cancelling_ends_it_immediately(prepared: &mut dyn Prepared) {
    let cancel = Cancel::default();
    let refused = prepared
        .run(TrialContext {
            parameters: &parameters(&SELECT),
            warmup_ns: 0,
            duration_ns: 3_600_000_000_000,
            seed: 1,
            cancel: cancel.clone(),
            enough: holdup_load::Cancel::default(),
            window: &mut CancellingHooks(cancel),
        })
        .unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Interrupted);
}

fn the_window_is_exact_and_the_warm_up_is_excluded() {
    binaries();
    let folder = workdir();
    let script = folder.path().join("stamp.sql");
    std::fs::write(&script, "INSERT INTO stamps VALUES (clock_timestamp());\n").unwrap();
    let given = [("script", "file"), ("file", script.to_str().unwrap()), ("scale", "1"), ("clients", "3")];
    let mut prepared = prepare(&folder, &[parameters(&given)], None).unwrap();
    let server = prepared.postgres().unwrap();
    let config = server.connection_string().replace("dbname='postgres'", "dbname='pgbench_s1_f100'");
    let mut client = config.parse::<postgres::Config>().unwrap().connect(postgres::NoTls).unwrap();
    client.batch_execute("CREATE UNLOGGED TABLE stamps (at timestamptz); SET synchronous_commit = off").unwrap();
    // The script can change after the session began, and even go.
    std::fs::remove_file(&script).unwrap();
    let ran = run(prepared.as_mut(), &given, (600, 500));
    let window = ran.window.unwrap();
    let count = |from: i64, to: i64| -> i64 {
        let seconds = |ns: i64| ns as f64 / 1e9;
        let sql = "SELECT count(*) FROM stamps WHERE at BETWEEN to_timestamp($1) AND to_timestamp($2)";
        let mut client = config.parse::<postgres::Config>().unwrap().connect(postgres::NoTls).unwrap();
        client.query_one(sql, &[&seconds(from), &seconds(to)]).unwrap().get(0)
    };
    let inside = count(window.begin_unix_ns, window.end_unix_ns);
    let all = count(0, i64::MAX / 2);
    let completed = i64::try_from(ran.completed()).unwrap();
    // Stamped before and ended after an edge: at most one transaction for each client and edge.
    assert!((completed - inside).abs() <= 2 * 3, "{completed} counted, {inside} stamped inside, {all} in all");
    assert!(completed > 20 && all - inside > 20, "{completed} counted, {inside} stamped inside, {all} in all");
    drop(client);
    prepared.close().unwrap();
}

fn a_killed_pgbench_and_a_killed_server_void_the_trial_and_leave_nothing() {
    binaries();
    let folder = workdir();
    let given = [("script", "simple-update"), ("scale", "1"), ("clients", "2")];
    let mut prepared = prepare(&folder, &[parameters(&given)], None).unwrap();
    for (victim, says) in [("load", "pgbench: it ended inside the window"), ("server", "PostgreSQL server: it is gone")]
    {
        let mut kill = |subjects: &[(String, u32)]| {
            kill_after(subjects.iter().find(|(role, _)| role == victim).unwrap().1, 100);
        };
        let ran = trial(prepared.as_mut(), &parameters(&given), (50, 20_000), &mut kill);
        let problem = ran.result.as_ref().unwrap_err();
        assert_eq!(problem.kind, ProblemKind::Trial, "{problem}");
        assert!(problem.to_string().starts_with(says), "{problem}");
        assert!(ran.subjects.iter().all(|(role, pid)| role == "server" && victim == "load" || !is_alive(*pid)));
        // The next trial finds a server that works, and a warm pool.
        prepared.set(&pool("warm")).unwrap();
        assert!(run(prepared.as_mut(), &given, (50, 200)).completed() > 0);
    }
    let server = prepared.postgres().unwrap().postmaster_pid().unwrap();
    prepared.close().unwrap();
    assert!(!is_alive(server));
    assert_eq!(names(folder.path()), [""; 0]);
}

/// Buffers of accounts that a scan finds in the pool, and those that it must read.
fn hit_and_read(prepared: &dyn Prepared) -> (u64, u64) {
    let server = prepared.postgres().unwrap();
    let config = server.connection_string().replace("dbname='postgres'", "dbname='pgbench_s1_f100'");
    let mut client = config.parse::<postgres::Config>().unwrap().connect(postgres::NoTls).unwrap();
    let explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT sum(abalance) FROM pgbench_accounts";
    let message = client.simple_query(explain).unwrap();
    let text = message
        .iter()
        .find_map(|m| if let postgres::SimpleQueryMessage::Row(row) = m { row.get(0) } else { None })
        .unwrap();
    let plan: serde_json::Value = serde_json::from_str(text).unwrap();
    let number = |key: &str| plan[0]["Plan"][key].as_u64().unwrap();
    (number("Shared Hit Blocks"), number("Shared Read Blocks"))
}

fn the_pool_is_warm_or_cold_as_asked() {
    binaries();
    let folder = workdir();
    let given = [("script", "select-only"), ("scale", "1"), ("clients", "2")];
    let mut prepared = prepare(&folder, &[parameters(&given)], None).unwrap();
    let postmaster = |p: &dyn Prepared| p.postgres().unwrap().postmaster_pid().unwrap();
    // 100,000 rows of scale 1 are 1640 pages.
    prepared.set(&pool("cold")).unwrap();
    let first = postmaster(prepared.as_ref());
    let (hit, read) = hit_and_read(prepared.as_ref());
    assert!(hit < 10 && read > 1600, "cold: {hit} hit, {read} read");
    prepared.set(&pool("warm")).unwrap();
    let (hit, read) = hit_and_read(prepared.as_ref());
    assert!(hit > 1600 && read == 0, "warm: {hit} hit, {read} read");
    assert_eq!(postmaster(prepared.as_ref()), first, "warming restarts nothing");
    prepared.set(&pool("cold")).unwrap();
    assert_ne!(postmaster(prepared.as_ref()), first);
    let cold = run(prepared.as_mut(), &given, (0, 200));
    assert!(cold.result.unwrap().notes.iter().any(|n| n.contains("page cache of the system was not")));
    let second = postmaster(prepared.as_ref());
    prepared.set(&pool("cold")).unwrap();
    assert_ne!(postmaster(prepared.as_ref()), second, "a trial warmed it");
    prepared.close().unwrap();
}

/// Two names of the installed server stand for two builds of one version.
fn builds_serve_the_same_tables_in_turn() {
    let bin = binaries().bin;
    let folder = workdir();
    let other = folder.path().join("other");
    std::os::unix::fs::symlink(&bin, &other).unwrap();
    let builds = BTreeMap::from([("stock".to_owned(), bin.clone()), ("patches/x".to_owned(), other.clone())]);
    let given = [("script", "select-only"), ("scale", "1"), ("clients", "2")];
    let options = PostgresOptions { builds, ..PostgresOptions::default() };
    let mut prepared = prepare_with(&folder, &[parameters(&given)], &options).unwrap();
    let arm = |build: &str| BTreeMap::from([("postgres.build".to_owned(), Level::plain(build))]);
    let mut last = None;
    for (build, place, restarts) in [("patches/x", &other, true), ("patches/x", &other, false), ("stock", &bin, true)] {
        prepared.set(&arm(build)).unwrap();
        let postmaster = prepared.postgres().unwrap().postmaster_pid();
        assert_eq!(postmaster != last, restarts, "{build}");
        last = postmaster;
        let facts = prepared.facts();
        let fact = |key: &str| facts.iter().find(|fact| fact.key == key).unwrap().value.clone();
        assert_eq!(fact("postgres.build").unwrap().to_string(), build);
        assert_eq!(fact("postgres.bin").unwrap().to_string(), place.display().to_string());
        let begun = std::fs::read(format!("/proc/{}/cmdline", postmaster.unwrap())).unwrap();
        assert!(begun.starts_with(place.join("postgres").as_os_str().as_encoded_bytes()));
        run(prepared.as_mut(), &given, (0, 100)).result.unwrap();
    }
    let unknown = prepared.set(&arm("patches/y")).unwrap_err();
    assert!(unknown.to_string().contains("patches/y"), "{unknown}");
    prepared.close().unwrap();
    assert_eq!(names(folder.path()), ["other"]);
}

holdup_testkit::tests!(
    alone:
    builds_serve_the_same_tables_in_turn,
    trials_measure_what_they_should,
    the_window_is_exact_and_the_warm_up_is_excluded,
    a_killed_pgbench_and_a_killed_server_void_the_trial_and_leave_nothing,
    the_pool_is_warm_or_cold_as_asked
);
