//! Two sessions lock two rows in opposite orders, again and again.

use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "deadlocks",
    setup: &["CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0), (2, 0)"],
    first: &["heavyweight-lock"],
    says: "Row locks: sessions spend",
    never: &["oversubscription", "lightweight-lock", "replication", "slow-disk"],
    ..QUIET
};

pub(crate) fn sessions_that_deadlock() {
    judge_beside(&SITUATION, USUAL, |server| {
        for (first, second) in [(1, 2), (2, 1)] {
            server.sessions(1, move |client| {
                let update = |id| format!("UPDATE t SET v = v + 1 WHERE id = {id}");
                let has_begun = client.simple_query(&format!("BEGIN; {}", update(first))).is_ok();
                std::thread::sleep(Duration::from_millis(5));
                let _one_fails = client.simple_query(&update(second));
                let _rolls_back = client.simple_query("COMMIT");
                has_begun
            });
        }
        std::thread::sleep(Duration::from_millis(300));
    });
}
