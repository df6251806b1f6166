//! A transaction has updated a row and does nothing more.

use crate::Situation;

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
