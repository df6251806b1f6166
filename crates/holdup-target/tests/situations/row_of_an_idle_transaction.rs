//! A transaction has updated a row and does nothing more.

use crate::situations::{Situation, USUAL, answer, needs_account, server};

pub(crate) const SITUATION: Situation = Situation {
    name: "row of an idle transaction",
    setup: &["CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0)"],
    held: &["BEGIN", "UPDATE t SET v = 1 WHERE id = 1"],
    sessions: 8,
    statement: "UPDATE t SET v = v + 1 WHERE id = 1",
    first: &["heavyweight-lock"],
    says: "Row locks: sessions spend 100 %",
    never: &["oversubscription", "lightweight-lock", "slow-disk"],
};

const WITH_IDS: [&str; 4] =
    [SITUATION.setup[0], SITUATION.setup[1], "ALTER SYSTEM SET compute_query_id = on", "SELECT pg_reload_conf()"];

/// Who asks the server learns who holds the row; that its own sessions start and end is no storm of connections.
pub(crate) fn who_holds_a_row() {
    needs_account();
    let with_ids = Situation { setup: &WITH_IDS, never: &["oversubscription", "short-connections"], ..SITUATION };
    let bundle = server::watch_and_ask(&with_ids, USUAL);
    let arm = answer(&with_ids, &bundle);
    assert!(arm.answer.contains(" blocks 8 of them on average: idle in transaction"), "{}", arm.answer);
    let cause = arm.causes.iter().find(|c| c.id == "heavyweight-lock").expect("it is the answer");
    assert!(cause.details.iter().any(|d| d == "The locks are on t 100 %."), "{:?}", cause.details);
    let of_one_query = |d: &String| d.starts_with("By query id: ") && d.contains(" 100 %. SELECT query FROM");
    assert!(cause.details.iter().any(of_one_query), "{:?}", cause.details);
    assert!(cause.advice[0].change.contains("idle_in_transaction_session_timeout"), "{:?}", cause.advice);
}
