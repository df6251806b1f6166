//! Sessions insert rows that refer to one row, which they lock together.

use crate::situations::{QUIET, Situation, judge};

static SITUATION: Situation = Situation {
    name: "foreign keys",
    setup: &[
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (id int REFERENCES parent)",
        "INSERT INTO parent VALUES (1)",
        "ALTER SYSTEM SET synchronous_commit = off",
        "SELECT pg_reload_conf()",
    ],
    sessions: 16,
    statement: "INSERT INTO child VALUES (1)",
    first: &["oversubscription", "lightweight-lock"],
    says: "sessions spend",
    never: &["replication", "other-wait", "slow-disk"],
    ..QUIET
};

pub(crate) fn rows_that_refer_to_one() {
    judge(&SITUATION);
}
