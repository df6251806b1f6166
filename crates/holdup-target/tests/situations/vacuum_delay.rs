//! A VACUUM that pauses by vacuum_cost_delay, beside sessions whose clients are silent.

use crate::situations::{Situation, USUAL, judge_beside};
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "vacuum delay",
    setup: &[
        "CREATE TABLE t AS SELECT g AS id, repeat('x', 500) AS text FROM generate_series(1, 20000) g",
        "ALTER SYSTEM SET vacuum_cost_delay = 20",
        "ALTER SYSTEM SET vacuum_cost_limit = 20",
        "SELECT pg_reload_conf()",
    ],
    held: &[],
    sessions: 1,
    statement: "VACUUM (DISABLE_PAGE_SKIPPING) t",
    first: &["other-wait"],
    says: "Vacuum delay: sessions spend",
    never: &["oversubscription", "heavyweight-lock", "lightweight-lock", "wal"],
};

pub(crate) fn a_vacuum_beside_idle_sessions() {
    judge_beside(&SITUATION, USUAL, |server| {
        server.sessions(10, |client| {
            std::thread::sleep(Duration::from_millis(50));
            !client.is_closed()
        });
    });
}
