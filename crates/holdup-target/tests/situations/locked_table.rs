//! A transaction has locked a table and does nothing more.

use crate::situations::Situation;

pub(crate) static SITUATION: Situation = Situation {
    name: "locked table",
    setup: &["CREATE TABLE t (id int)"],
    held: &["BEGIN", "LOCK TABLE t"],
    sessions: 8,
    statement: "SELECT count(*) FROM t",
    first: &["heavyweight-lock"],
    says: "Table locks: sessions spend 100 %",
    never: &["oversubscription", "lightweight-lock", "slow-disk"],
};
