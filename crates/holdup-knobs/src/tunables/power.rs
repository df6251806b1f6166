//! Frequencies.

use super::{Group, Tunable};

pub(super) const GROUP: Group = Group {
    id: "power",
    summary: "CPU frequency",
    tunables: &[Tunable::safe(
        "cpu-governor",
        &["performance", "powersave", "schedutil"],
        "TuneD's profiles for servers say performance",
    )],
};
