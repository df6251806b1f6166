//! More sessions compute than there are CPUs; nothing is locked.

use crate::situations::{Situation, WAITS};

pub(crate) static SITUATION: Situation = Situation {
    name: "many readers",
    setup: &[],
    held: &[],
    sessions: 16,
    statement: "SELECT sum(g) FROM generate_series(1, 50000) g",
    first: &["oversubscription"],
    says: "CPU-bound: sessions spend",
    never: &WAITS,
};
