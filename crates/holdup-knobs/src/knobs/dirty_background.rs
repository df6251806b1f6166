//! From which amount of dirty memory on the kernel writes in the background.

use crate::dirty_limit::DirtyLimit;
use crate::sample::{KernelText, Sample, Surface};
use holdup_model::Meta;

/// `dirty-background`.
pub(crate) static KNOB: DirtyLimit = DirtyLimit {
    meta: &Meta {
        id: "dirty-background",
        summary: "dirty memory at which the kernel begins to write: 10% or 64MB",
        docs: "While more memory than this is dirty, the kernel writes it to disk in the background. A share is one of the \
               memory that is available, an amount is absolute. The kernel keeps one of the two and shows the other as \
               0; holdup puts back the one that was in force.",
        references: &[
            "Documentation/admin-guide/sysctl/vm.rst: dirty_background_bytes, dirty_background_ratio (v6.18)",
            "mm/page-writeback.c:dirty_background_bytes_handler, dirty_background_ratio_handler (v6.18)",
        ],
    },
    ratio: "/proc/sys/vm/dirty_background_ratio",
    bytes: "/proc/sys/vm/dirty_background_bytes",
    samples: &[Sample {
        real_levels: &["5%", "64MB"],
        ..Sample::new(
            "dirty-background",
            Surface::File(KernelText::new("/proc/sys/vm/dirty_background_ratio", "10\n")),
            ["5%", "15%"],
        )
    }],
};
