//! Whether the kernel takes memory from programs or from the page cache first.

use crate::kernel_file::{KernelFile, KernelNumber};
use crate::sample::Sample;
use holdup_model::{Meta, ParameterKind};

const FILE: &str = "/proc/sys/vm/swappiness";

/// `swappiness`.
pub(crate) static KNOB: KernelNumber = KernelNumber {
    meta: &Meta {
        id: "swappiness",
        summary: "anonymous memory against page cache in reclaim, 0 to 200",
        docs: "When memory is short, the kernel swaps out memory of programs or drops pages of files. With 100 both cost \
               the same to it, below that it takes files first, with 0 it swaps only when hardly any page of a file is \
               left. Without swap, and while memory is not short, it does nothing.\n\n\
               Control groups of version 1 have a value of their own (memory.swappiness), which this does not change.",
        references: &[
            "Documentation/admin-guide/sysctl/vm.rst: swappiness (v6.18)",
            "mm/vmscan.c:get_scan_count (v6.18)",
        ],
    },
    kind: ParameterKind::Integer { min: 0, max: 200 },
    samples: &[Sample {
        real_levels: &["10", "60", "100"],
        ..Sample::number("swappiness", FILE, "60\n", ["1", "100"])
    }],
    touches: "the sysctl vm.swappiness, for the whole host",
    file: KernelFile { newest: FILE, older: &[], needs: "a kernel with sysctls in /proc" },
    bounds: (0, 200),
    expected: "a number from 0 to 200",
    hindrance: None,
};
