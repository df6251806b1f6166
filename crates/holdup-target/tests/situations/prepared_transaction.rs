//! A transaction was prepared after it updated a row, and is not ended.

use crate::situations::Situation;

pub(crate) static SITUATION: Situation = Situation {
    name: "prepared transaction",
    setup: &[
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t VALUES (1, 0)",
        "ALTER SYSTEM SET max_prepared_transactions = 1",
    ],
    held: &["BEGIN", "UPDATE t SET v = 1 WHERE id = 1", "PREPARE TRANSACTION 'left'"],
    sessions: 8,
    statement: "UPDATE t SET v = v + 1 WHERE id = 1",
    first: &["heavyweight-lock"],
    says: "Row locks: sessions spend 100 %",
    never: &["oversubscription", "lightweight-lock", "slow-disk"],
};
