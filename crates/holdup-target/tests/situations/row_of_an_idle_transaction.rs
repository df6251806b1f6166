//! A transaction has updated a row and does nothing more.

use crate::{Situation, USUAL, answer, needs_account, server};

pub(crate) static SITUATION: Situation = Situation {
    name: "row of an idle transaction",
    setup: &["CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0)"],
    held: &["BEGIN", "UPDATE t SET v = 1 WHERE id = 1"],
    sessions: 8,
    statement: "UPDATE t SET v = v + 1 WHERE id = 1",
    first: &["heavyweight-lock"],
    says: "Row locks: sessions spend 100 %",
    never: &["oversubscription", "lightweight-lock", "slow-disk"],
};

/// Who asks the server learns who holds the row; that its own sessions start and end is no storm of connections.
pub(crate) fn who_holds_a_row() {
    needs_account();
    let bundle = server::watch_and_ask(&SITUATION, USUAL);
    let arm = answer(&Situation { never: &["oversubscription", "short-connections"], ..SITUATION }, &bundle);
    assert!(arm.answer.contains(" blocks 8 of them on average: idle in transaction"), "{}", arm.answer);
    let cause = arm.causes.iter().find(|c| c.id == "heavyweight-lock").expect("it is the answer");
    assert!(cause.details.iter().any(|d| d == "The locks are on t 100 %."), "{:?}", cause.details);
    assert!(cause.advice[0].change.contains("idle_in_transaction_session_timeout"), "{:?}", cause.advice);
}
