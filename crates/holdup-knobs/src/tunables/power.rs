//! Frequencies and idle states.

use super::{Group, Tunable};

pub(super) const GROUP: Group = Group {
    id: "power",
    summary: "CPU frequency, idle states",
    tunables: &[
        Tunable::safe(
            "cpu-governor",
            &["performance", "powersave", "schedutil"],
            "TuneD's profiles for servers say performance",
        ),
        Tunable::ordered("cpu-dma-latency", &["1", "100"], "TuneD's profile for PostgreSQL has 1 us"),
    ],
};
