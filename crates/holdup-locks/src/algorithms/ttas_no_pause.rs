//! Test-and-test-and-set without a pause.

use super::ttas::{NOT_MEASURED, Turn, entry};
use crate::lock::{Algorithm, Word};
use crate::note;
use holdup_model::Meta;

/// The catalogue entry.
pub const ALGORITHM: Algorithm = entry::<Nothing>(&Meta {
    id: "ttas-no-pause",
    summary: "test-and-test-and-set without a pause",
    docs: "As ttas, with nothing between two looks: the shortest turn, which takes the most of what a core has from the \
           other thread of the core, and of its power.",
    references: &[
        "Intel 64 and IA-32 Architectures Optimization Reference Manual, Pause Latency in Skylake Client Microarchitecture",
    ],
})
.only_real(NOT_MEASURED);

struct Nothing;

impl Turn for Nothing {
    note::points!("lock-contention: ttas-no-pause", 14);
    #[inline(always)]
    fn pass<W: Word>(_word: &W) {}
}
