//! An autovacuum worker computes statistics again and again, beside sessions that compute.

use crate::situations::record::MANY;
use crate::situations::{QUIET, Situation, WAITS, judge_beside};
use std::time::{Duration, Instant};

static SITUATION: Situation = Situation {
    name: "autovacuum",
    setup: &[
        "ALTER SYSTEM SET default_statistics_target = 10000",
        "SELECT pg_reload_conf()",
        "CREATE TABLE a AS SELECT g AS id, 0 AS v, md5(g::text) AS b, md5((g + 1)::text) AS c, md5((g + 2)::text) AS d, \
         md5((g + 3)::text) AS e, md5((g + 4)::text) AS f FROM generate_series(1, 1000000) g",
        "ALTER TABLE a SET (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0)",
        "ALTER SYSTEM SET autovacuum = on",
        "ALTER SYSTEM SET autovacuum_naptime = 1",
        "ALTER SYSTEM SET autovacuum_vacuum_cost_delay = 0",
        "SELECT pg_reload_conf()",
    ],
    sessions: 4,
    statement: "SELECT sum(g) FROM generate_series(1, 50000) g",
    first: &["oversubscription"],
    says: "CPU-bound: sessions spend",
    never: &WAITS,
    ..QUIET
};

const WORKERS: &str =
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND query LIKE '%ANALYZE%'";

pub(crate) fn an_autovacuum_worker_that_has_a_cpu() {
    let (_, arm, ()) = judge_beside(&SITUATION, MANY, |server| {
        server.sessions(1, |client| {
            std::thread::sleep(Duration::from_millis(100));
            client.simple_query("UPDATE a SET v = v + 1 WHERE id = 1").is_ok()
        });
        // It takes longer than the record, and begins again.
        let begun = Instant::now();
        while server.ask(WORKERS).is_empty() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let cause = arm.causes.iter().find(|c| c.id == "oversubscription").expect("it was judged");
    println!("  {:?}", cause.details);
    assert!(cause.details.iter().any(|detail| detail.contains("autovacuum worker")), "{cause:#?}");
}
