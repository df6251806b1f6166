//! The group of the server has less memory than its sessions read again and again, and the disk is slow.

use crate::{QUIET, Situation, USUAL, judge_beside};
use holdup_induce::{DiskLimit, Group};
use holdup_testkit::ignore;
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "memory limit",
    setup: &[
        // A worker's memory alone would be more than the limit.
        "ALTER SYSTEM SET autovacuum = off",
        "CREATE TABLE t AS SELECT g AS id, repeat('x', 1000) AS text FROM generate_series(1, 40000) g",
        "CREATE INDEX ON t (id)",
        "ALTER SYSTEM SET shared_buffers = '1MB'",
        "ALTER SYSTEM SET max_parallel_workers_per_gather = 0",
    ],
    first: &["memory-pressure"],
    says: "Memory is short: tasks of their control group stall",
    never: &["heavyweight-lock", "replication", "wal", "slow-disk"],
    ..QUIET
};

const RANDOM_ROWS: &str = "SELECT (SELECT length(text) FROM t WHERE id = r) FROM \
                           (SELECT (random() * 39999)::int + 1 AS r FROM generate_series(1, 100) OFFSET 0) s";

pub(crate) fn a_memory_limit_below_the_need() {
    judge_beside(&SITUATION, USUAL, |server| {
        let group = Group::with_memory_limit(40 << 20).unwrap_or_else(|problem| ignore(problem));
        if group.is_v2 {
            ignore("here a process is in one group, and the limits of this test are of two");
        }
        server.join_until_the_end(group);
        let seen = Group::new("unified", "memory").unwrap_or_else(|problem| ignore(problem));
        server.join_until_the_end(seen);
        server.forget("t");
        server.sessions(4, |client| client.simple_query(RANDOM_ROWS).is_ok());
        // Until the limit is reached.
        std::thread::sleep(Duration::from_secs(4));
        let disk = Group::with_disk_limit(server.folder(), DiskLimit::BytesRead, 8 << 20);
        server.join_until_the_end(disk.unwrap_or_else(|problem| ignore(problem)));
    });
}
