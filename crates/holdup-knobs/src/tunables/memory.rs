//! Memory.

use super::{Class, Group, Levels, PAGES_OF_POOL, Tunable};

pub(super) const GROUP: Group = Group {
    id: "memory",
    summary: "huge pages, NUMA balancing",
    tunables: &[
        Tunable::safe("transparent-huge-pages", &["always", "madvise", "never"], "guides for databases say never"),
        Tunable {
            name: "huge-pages",
            class: Class::Safe,
            is_ordered: false,
            levels: Levels::Together(&[(
                "on",
                &[("huge-pages-reserved", PAGES_OF_POOL), ("postgres.huge_pages", "on")],
            )]),
            why: "no page faults in the buffer pool, and a smaller page table for each session",
        },
        Tunable::safe("dirty-memory", &["512MB", "40%"], "TuneD: 512 MB for PostgreSQL, 40 % for throughput"),
        Tunable::safe("dirty-background", &["64MB", "256MB"], "TuneD's profile for PostgreSQL has 64 MB"),
        Tunable::safe("swappiness", &["1", "10"], "guides for databases say 1 to 10"),
        Tunable::safe("numa-balancing", &["0", "1"], "guides for databases say 0"),
    ],
};
