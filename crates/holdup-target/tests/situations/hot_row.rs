//! Many sessions update one row. Which wait is the largest, for the row, for the table of locks or for a CPU, depends on the
//! CPUs and on what else runs there.

use crate::Situation;

pub(crate) static SITUATION: Situation = Situation {
    name: "hot row",
    setup: &["CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0)"],
    held: &[],
    sessions: 20,
    statement: "UPDATE t SET v = v + 1 WHERE id = 1",
    first: &["heavyweight-lock", "lightweight-lock", "oversubscription"],
    says: "sessions spend",
    never: &["replication", "other-wait", "saturated-thread"],
};
