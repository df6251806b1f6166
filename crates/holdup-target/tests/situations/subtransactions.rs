//! A transaction has more subtransactions than a snapshot lists, and readers look them up.

use crate::{Situation, judge};

static SITUATION: Situation = Situation {
    name: "subtransactions",
    setup: &["CREATE TABLE t (id int, r float8)", "CREATE INDEX ON t (r)"],
    held: &[
        "BEGIN",
        "INSERT INTO t VALUES (0, 0)",
        "DO $$ BEGIN FOR i IN 1..150000 LOOP BEGIN INSERT INTO t VALUES (i, random()); EXCEPTION WHEN OTHERS THEN NULL; \
         END; END LOOP; END $$",
    ],
    sessions: 8,
    statement: "SELECT count(id) FROM t WHERE r < 0.2",
    first: &["lightweight-lock", "oversubscription"],
    says: "sessions spend",
    never: &["heavyweight-lock", "replication", "wal"],
};

pub(crate) fn readers_of_subtransactions() {
    judge(&SITUATION);
}
