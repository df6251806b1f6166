//! A server whose only session waits for its client.

use crate::situations::{Situation, WAITS};

pub(crate) static SITUATION: Situation = Situation {
    name: "idle server",
    setup: &[],
    held: &["SELECT 1"],
    sessions: 0,
    statement: "",
    first: &["nothing"],
    says: "hardly run",
    never: &WAITS,
};
