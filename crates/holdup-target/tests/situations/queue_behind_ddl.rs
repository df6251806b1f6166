//! A change of a table waits for a long statement, and all later statements wait for the change.

use crate::situations::{Situation, USUAL, judge_beside};
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "queue behind DDL",
    setup: &["CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)"],
    held: &[],
    sessions: 1,
    statement: "SELECT pg_sleep(60) FROM t",
    first: &["heavyweight-lock"],
    says: "Table locks: sessions spend 90 %",
    never: &["oversubscription", "lightweight-lock", "slow-disk"],
};

pub(crate) fn a_queue_behind_ddl() {
    judge_beside(&SITUATION, USUAL, |server| {
        server.sessions(1, |client| client.simple_query("ALTER TABLE t ADD c int").is_ok());
        std::thread::sleep(Duration::from_millis(300));
        server.sessions(8, |client| client.simple_query("SELECT count(*) FROM t").is_ok());
        std::thread::sleep(Duration::from_millis(300));
    });
}
