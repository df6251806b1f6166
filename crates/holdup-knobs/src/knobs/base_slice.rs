//! How long a task may run before another one's turn comes.

use crate::kernel_file::{KernelFile, KernelNumber};
use crate::sample::Sample;
use holdup_model::{Meta, ParameterKind};

const FILE: &str = "/sys/kernel/debug/sched/base_slice_ns";

/// `base-slice`.
pub(crate) static KNOB: KernelNumber = KernelNumber {
    meta: &Meta {
        id: "base-slice",
        summary: "the scheduler's slice (2.8ms on 8 CPUs and more, 1.4ms on 2)",
        docs: "The time that a task of the normal policy asks for, and that it runs on while others wait, unless it \
               has set its own slice (sched_setattr, from 6.12 on). A longer slice means fewer switches, so \
               fewer holders of a lock are taken off their CPU, and a longer wait for the next task in the queue.\n\n\
               Three names, one idea: base_slice_ns in debugfs from Linux 6.6 on, min_granularity_ns there from 5.13 \
               to 6.5, the sysctl kernel.sched_min_granularity_ns up to 5.12. Before 6.6 it is a lower bound: the \
               slice was the latency divided among the waiting tasks, and not shorter than this.\n\n\
               The sysctl refuses what is below 100us or above 1s. The files in debugfs take any number, also 0, with \
               which every tick ends a slice; holdup keeps to the old bounds everywhere. The kernel multiplies its \
               default by 1 + log2 of the number of CPUs (at most 8 count) and sets the product anew when a CPU goes \
               on or off line, which undoes a change of this knob.",
        references: &[
            "kernel/sched/fair.c:sysctl_sched_base_slice, update_sysctl, update_deadline (v6.18)",
            "kernel/sched/debug.c:sched_init_debug (v5.13, v6.6 and later)",
            "kernel/sysctl.c:min_sched_granularity_ns, max_sched_granularity_ns (v5.10)",
        ],
    },
    kind: ParameterKind::DURATION,
    samples: &[Sample {
        real_levels: &["1ms", "3ms", "4ms"],
        ..Sample::number("base-slice", FILE, "2100000\n", ["4ms", "100us"])
    }],
    touches: "the scheduler's base_slice_ns (debugfs; min_granularity_ns before 6.6, a sysctl up to 5.12), for the \
              whole host",
    file: KernelFile {
        newest: FILE,
        older: &[
            ("up to Linux 5.12", "/proc/sys/kernel/sched_min_granularity_ns"),
            ("Linux 5.13 to 6.5", "/sys/kernel/debug/sched/min_granularity_ns"),
        ],
        needs: "a kernel with CONFIG_SCHED_DEBUG=y (from 6.15 on all have it)",
    },
    bounds: (100_000, 1_000_000_000),
    expected: "a duration from 100us to 1s, such as 3ms",
    hindrance: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Knob, KnobContext};
    use holdup_host::fake::MemoryFs;
    use holdup_model::{Availability, Value};

    const MOUNTS: (&str, &str) = ("/proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n");

    #[test]
    fn each_kernel_has_it_at_its_own_place() {
        for place in [
            "/sys/kernel/debug/sched/base_slice_ns",
            "/sys/kernel/debug/sched/min_granularity_ns",
            "/proc/sys/kernel/sched_min_granularity_ns",
        ] {
            let fs = MemoryFs::of(&[MOUNTS, (place, "2800000\n")]);
            let host = fs.host();
            let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
            assert_eq!(KNOB.probe(&context, ""), Availability::Ready, "{place}");
            assert_eq!(KNOB.read(&context, "").expect("there"), Value::Integer(2_800_000));
            KNOB.write(&context, "", &Value::Integer(3_000_000)).expect("there");
            assert_eq!(fs.get(place).as_deref(), Some("3000000"));
            assert!(KNOB.by_hand("", &Value::Integer(7)).contains(place));
        }
        let host = MemoryFs::of(&[MOUNTS]).host();
        let found = KNOB.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, "");
        let Availability::Unavailable { reason, remedy } = found else { panic!("{found:?}") };
        assert_eq!(
            reason,
            "neither /sys/kernel/debug/sched/base_slice_ns nor /sys/kernel/debug/sched/min_granularity_ns nor \
             /proc/sys/kernel/sched_min_granularity_ns exists in this kernel"
        );
        assert!(remedy.is_some_and(|remedy| remedy.contains("CONFIG_SCHED_DEBUG=y")));
    }

    #[test]
    fn slices_that_no_sysctl_took_are_refused_and_yet_put_back() {
        for wrong in [0, 99_999, 1_000_000_001, -1] {
            let refused = KNOB.check("", &Value::Integer(wrong)).expect_err("out of bounds");
            assert!(refused.hint.is_some_and(|hint| hint.contains("100us to 1s")), "{wrong}");
        }
        assert!(KNOB.check("", &Value::Text("3ms".to_owned())).is_err());
        for right in [100_000, 1_000_000_000] {
            KNOB.check("", &Value::Integer(right)).expect("in bounds");
        }
        let fs = MemoryFs::of(&[MOUNTS, ("/sys/kernel/debug/sched/base_slice_ns", "50000\n")]);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        let saved = KNOB.read(&context, "").expect("a number");
        KNOB.write(&context, "", &saved).expect("someone had set it before");
    }
}
