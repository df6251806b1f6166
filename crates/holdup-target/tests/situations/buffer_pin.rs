//! A cursor pins the page that a VACUUM has to itself.

use crate::situations::Situation;

pub(crate) static SITUATION: Situation = Situation {
    name: "buffer pin",
    setup: &["CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 100) g"],
    held: &["BEGIN", "DECLARE c CURSOR FOR SELECT * FROM t", "FETCH 1 FROM c"],
    sessions: 1,
    statement: "VACUUM (FREEZE) t",
    first: &["other-wait"],
    says: "Buffer pins: sessions spend 100 %",
    never: &["oversubscription", "heavyweight-lock", "lightweight-lock", "slow-disk"],
};
