//! A transaction has more subtransactions than a snapshot lists, and readers look them up.

use crate::situations::{Situation, USUAL, judge_beside};
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "subtransactions",
    setup: &["CREATE TABLE t (id int, r float8)", "CREATE INDEX ON t (r)"],
    held: &[
        "BEGIN",
        "INSERT INTO t VALUES (0, 0)",
        "DO $$ BEGIN FOR i IN 1..150000 LOOP BEGIN INSERT INTO t VALUES (i, random()); EXCEPTION WHEN OTHERS THEN NULL; \
         END; END LOOP; END $$",
    ],
    sessions: 8,
    statement: "SELECT count(id) FROM t WHERE r < 0.2",
    first: &["lightweight-lock", "oversubscription"],
    says: "sessions spend",
    never: &["heavyweight-lock", "replication", "wal"],
};

pub(crate) fn readers_of_subtransactions() {
    let (_, arm, ()) = judge_beside(&SITUATION, USUAL, |server| {
        // What began after the last transaction that ended is in no snapshot, and is not looked up.
        server.ask("SELECT txid_current()");
        std::thread::sleep(Duration::from_millis(300));
    });
    // With few CPUs waiting for one is more.
    assert!(arm.answer.to_lowercase().contains("lightweight locks"), "{}", arm.answer);
}
