//! What a PostgreSQL server says that answers (collectors `postgres-statistics`, `blockers`).

use super::{Family, Kind, Reading, pairs};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "holdup_postgres_statistics",
        help: "Counters of pg_stat_database, pg_stat_wal, pg_stat_bgwriter and the like, by view and column.",
        kind: Kind::Counter,
        unit: "",
        labels: &["view", "column"],
        read: |seen, into| pairs(seen, "postgres-statistics", "postgres", " ", into),
    },
    Family {
        name: "holdup_blocked_sessions",
        help: "Sessions that wait behind another one's heavyweight lock in the last window, on average.",
        kind: Kind::Gauge,
        unit: "",
        labels: &[],
        read: |seen, into| {
            if seen.collector("blockers").is_some() {
                let blocked = seen.items("blockers", "blocked_sessions").map(|(_, sessions)| sessions);
                into(&[], Reading::Number(blocked.sum()));
            }
        },
    },
];
