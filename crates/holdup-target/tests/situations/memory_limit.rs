//! The group of the server has less memory than its sessions read again and again, and the disk is slow.

use crate::situations::{QUIET, Situation, USUAL, judge_beside};
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
        // Little less than the need: what is read back was taken recently, and such reads count as memory pressure.
        let group = Group::with_memory_limit(45 << 20).unwrap_or_else(|problem| ignore(problem));
        if group.is_v2 {
            ignore("here a process is in one group, and the limits of this test are of two");
        }
        let stat = format!("{}/memory.stat", group.folder());
        server.join_until_the_end(group);
        let seen = Group::new("unified", "memory").unwrap_or_else(|problem| ignore(problem));
        server.join_until_the_end(seen);
        server.forget("t");
        server.sessions(4, |client| client.simple_query(RANDOM_ROWS).is_ok());
        wait_for_refaults(&stat);
        let disk = Group::with_disk_limit(server.folder(), DiskLimit::BytesRead, 8 << 20);
        server.join_until_the_end(disk.unwrap_or_else(|problem| ignore(problem)));
    });
}

/// Until pages were read back often enough that the kernel knows which are active: it counts reads of those as pressure, and
/// with a slow disk it would learn that only after the windows.
fn wait_for_refaults(stat: &str) {
    const ENOUGH: u64 = 50_000;
    let refaults = || {
        let text = std::fs::read_to_string(stat).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("workingset_refault_file "));
        line.and_then(|count| count.parse::<u64>().ok())
    };
    for _ in 0..300 {
        std::thread::sleep(Duration::from_millis(100));
        if refaults().is_some_and(|count| count >= ENOUGH) {
            return;
        }
    }
}
