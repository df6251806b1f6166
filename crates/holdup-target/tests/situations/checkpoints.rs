//! Checkpoints follow one another, beside sessions that write.

use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use holdup_model::outcome::FindingVerdict;

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
    // Where the disk is fast and the CPUs are not, four sessions that write wait for a CPU for longer.
    first: &["wal", "oversubscription"],
    says: "sessions spend",
    never: &["heavyweight-lock", "replication"],
    ..QUIET
};

pub(crate) fn checkpoints_that_follow_one_another() {
    let (_, arm, ()) = judge_beside(&SITUATION, USUAL, |_| ());
    let wal = arm.causes.iter().find(|cause| cause.id == "wal").expect("it is judged");
    assert_eq!(wal.verdict, FindingVerdict::Supported, "{arm:#?}");
    assert!(wal.sentence.contains("Write-ahead log: sessions spend"), "{}", wal.sentence);
}
