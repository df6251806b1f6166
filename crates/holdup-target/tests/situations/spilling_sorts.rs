//! Statements of one session that run longer than they might, on a CPU or by others: sorts that do not fit into work_mem, and a
//! leader that waits for its parallel workers.

use crate::situations::server::Server;
use crate::situations::{QUIET, Situation, USUAL, judge_beside};

static SORTS: Situation = Situation {
    name: "spilling sorts",
    setup: &[
        "CREATE TABLE t AS SELECT random() AS r, repeat('x', 200) AS text FROM generate_series(1, 100000) g",
        "ALTER SYSTEM SET work_mem = '64kB'",
        "ALTER SYSTEM SET max_parallel_workers_per_gather = 0",
        "SELECT pg_reload_conf()",
    ],
    sessions: 1,
    statement: "SELECT count(*) FROM (SELECT * FROM t ORDER BY r OFFSET 0) s",
    ..QUIET
};

pub(crate) fn sorts_that_spill() {
    judge_beside(&SORTS, USUAL, Server::prefer);
}

static PARALLEL: Situation = Situation {
    name: "parallel query",
    setup: &[
        "CREATE TABLE t AS SELECT g AS id, repeat('x', 100) AS text FROM generate_series(1, 300000) g",
        "ALTER SYSTEM SET parallel_leader_participation = off",
        "SELECT pg_reload_conf()",
    ],
    sessions: 1,
    statement: "SELECT sum(length(text)) FROM t",
    first: &["other-wait"],
    says: "Parallel workers: sessions spend",
    never: &["heavyweight-lock", "lightweight-lock", "replication", "wal", "slow-disk"],
    ..QUIET
};

pub(crate) fn a_leader_that_waits_for_its_workers() {
    judge_beside(&PARALLEL, USUAL, Server::prefer);
}
