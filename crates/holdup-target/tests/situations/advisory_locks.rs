//! An application's own lock is held by a session that does nothing more.

use crate::situations::Situation;

pub(crate) static SITUATION: Situation = Situation {
    name: "advisory locks",
    setup: &[],
    held: &["SELECT pg_advisory_lock(7)"],
    sessions: 8,
    statement: "SELECT pg_advisory_lock(7)",
    first: &["heavyweight-lock"],
    says: "Advisory locks: sessions spend 100 %",
    never: &["oversubscription", "lightweight-lock", "slow-disk"],
};
