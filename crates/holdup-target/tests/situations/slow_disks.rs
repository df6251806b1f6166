//! The disk gives the server little, or takes little from it.

use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use holdup_induce::{DiskLimit, Group};
use holdup_testkit::ignore;

static COLD: Situation = Situation {
    name: "cold pool",
    setup: &[
        "CREATE TABLE t AS SELECT g AS id, repeat('x', 1000) AS text FROM generate_series(1, 60000) g",
        "ALTER SYSTEM SET shared_buffers = '1MB'",
        "ALTER SYSTEM SET max_parallel_workers_per_gather = 0",
    ],
    first: &["slow-disk"],
    says: "I/O wait: sessions spend",
    never: &["oversubscription", "heavyweight-lock", "replication", "wal"],
    ..QUIET
};

static FLUSHES: Situation = Situation {
    name: "slow flushes",
    setup: &["CREATE TABLE t (id int)"],
    sessions: 8,
    statement: "INSERT INTO t VALUES (1)",
    first: &["wal"],
    says: "Write-ahead log: sessions spend",
    never: &["oversubscription", "heavyweight-lock", "replication", "slow-disk"],
    ..QUIET
};

fn judge(situation: &Situation, limit: DiskLimit, per_s: u64) {
    judge_beside(situation, USUAL, |server| {
        let group = Group::with_disk_limit(server.folder(), limit, per_s).unwrap_or_else(|problem| ignore(problem));
        server.join_until_the_end(group);
    });
}

/// The table is in no cache, and the disk gives a few MB a second.
pub(crate) fn a_pool_that_is_cold() {
    judge_beside(&COLD, USUAL, |server| {
        let group = Group::with_disk_limit(server.folder(), DiskLimit::BytesRead, 4 << 20);
        server.join_until_the_end(group.unwrap_or_else(|problem| ignore(problem)));
        server.forget("t");
        server.sessions(4, |client| client.simple_query("SELECT sum(length(text)) FROM t").is_ok());
        std::thread::sleep(std::time::Duration::from_millis(300));
    });
}

pub(crate) fn flushes_that_take_long() {
    judge(&FLUSHES, DiskLimit::Writes, 50);
}
