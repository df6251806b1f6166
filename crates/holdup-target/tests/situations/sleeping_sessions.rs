//! Sessions sleep because their statements ask for it.

use crate::situations::Situation;

pub(crate) static SITUATION: Situation = Situation {
    name: "sleeping sessions",
    setup: &[],
    held: &[],
    sessions: 8,
    statement: "SELECT pg_sleep(30)",
    first: &["other-wait"],
    says: "pg_sleep(): sessions spend 100 %",
    never: &["oversubscription", "heavyweight-lock", "slow-disk"],
};
