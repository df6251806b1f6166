//! Commits wait for a synchronous standby that is not there.

use crate::situations::Situation;

pub(crate) static SITUATION: Situation = Situation {
    name: "lost standby",
    setup: &[
        "CREATE TABLE t (id int)",
        "ALTER SYSTEM SET synchronous_standby_names = 'nowhere'",
        "SELECT pg_reload_conf()",
    ],
    held: &[],
    sessions: 8,
    statement: "INSERT INTO t VALUES (1)",
    first: &["replication"],
    says: "Synchronous replication: sessions spend 100 %",
    never: &["oversubscription", "wal", "slow-disk"],
};
