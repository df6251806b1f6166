//! Test-and-test-and-set with arm64's `yield`.

use super::ttas::{NOT_MEASURED, Turn, entry, on_arm64};
use crate::lock::{Algorithm, Word};
use crate::{arch, note};
use holdup_model::Meta;

/// The catalogue entry.
pub const ALGORITHM: Algorithm = entry::<Yield>(&Meta {
    id: "ttas-yield",
    summary: "test-and-test-and-set with yield (arm64)",
    docs: "As ttas with yield, a hint for cores with several threads; most arm64 cores have one and take it as nop, so \
           that the turn is about as short as without a pause.",
    references: &["Arm Architecture Reference Manual for A-profile, DDI 0487: YIELD"],
})
.only_real(NOT_MEASURED)
.where_available(on_arm64);

struct Yield;

impl Turn for Yield {
    note::points!("lock-contention: ttas-yield", 15);
    #[inline(always)]
    fn pass<W: Word>(_word: &W) {
        arch::yield_turn();
    }
}
