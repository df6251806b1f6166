//! Checkpoints follow one another, beside sessions that write.

use crate::{QUIET, Situation, judge};

static SITUATION: Situation = Situation {
    name: "checkpoints",
    setup: &[
        "CREATE TABLE t AS SELECT g AS id, 0 AS v, repeat('x', 400) AS text FROM generate_series(1, 100000) g",
        "CREATE INDEX ON t (id)",
        "ALTER SYSTEM SET shared_buffers = '2MB'",
        "ALTER SYSTEM SET max_wal_size = '32MB'",
        "ALTER SYSTEM SET min_wal_size = '32MB'",
    ],
    sessions: 4,
    statement: "UPDATE t SET v = v + 1 WHERE id = (SELECT (random() * 99999)::int)",
    first: &["wal"],
    says: "Write-ahead log: sessions spend",
    never: &["heavyweight-lock", "replication"],
    ..QUIET
};

pub(crate) fn checkpoints_that_follow_one_another() {
    judge(&SITUATION);
}
