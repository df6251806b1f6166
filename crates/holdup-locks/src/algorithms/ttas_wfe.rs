//! Test-and-test-and-set with arm64's `wfe`.

use super::ttas::{NOT_MEASURED, Turn, entry, on_arm64};
use crate::lock::{Algorithm, Word};
use crate::note;
use holdup_model::Meta;

/// The catalogue entry.
pub const ALGORITHM: Algorithm = entry::<Event>(&Meta {
    id: "ttas-wfe",
    summary: "test-and-test-and-set with wfe (arm64)",
    docs: "As ttas with a load that claims the line (ldaxr) and wfe, which stops the core until another one writes to the \
           line, an interrupt comes or the kernel's event stream ticks (every 100 \u{b5}s where it is on). The line is \
           read once for each write. The core that waits is still taken: to the scheduler this is spinning.",
    references: &[
        "Arm Architecture Reference Manual for A-profile, DDI 0487: Wait for Event",
        "arch/arm64/include/asm/cmpxchg.h:__cmpwait (v6.18); drivers/clocksource/arm_arch_timer.c: event stream (v6.18)",
    ],
})
.only_real(NOT_MEASURED)
.where_available(on_arm64);

struct Event;

impl Turn for Event {
    note::points!("lock-contention: ttas-wfe", 16);
    #[inline(always)]
    fn pass<W: Word>(word: &W) {
        word.wait_while_held();
    }
}
