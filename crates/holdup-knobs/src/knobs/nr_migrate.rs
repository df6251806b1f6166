//! How many tasks the load balancer looks at in one go.

use crate::kernel_file::{KernelFile, KernelNumber};
use crate::sample::Sample;
use holdup_model::{Meta, ParameterKind};

const FILE: &str = "/sys/kernel/debug/sched/nr_migrate";

/// `nr-migrate`.
pub(crate) static KNOB: KernelNumber = KernelNumber {
    meta: &Meta {
        id: "nr-migrate",
        summary: "tasks that the load balancer looks at in one go (default 32, RT 8)",
        docs: "When the load balancer takes tasks from a busy CPU, it looks at no more than this many of that CPU's \
               queue. It does so with interrupts off: a larger number evens out long queues in fewer rounds, and \
               makes each round, and with it the longest wait for an interrupt, longer. With the queues of a server \
               that has many more busy backends than CPUs it can matter; with short queues it cannot.\n\n\
               Up to Linux 5.12 it is the sysctl kernel.sched_nr_migrate, from 5.13 on the debugfs file \
               sched/nr_migrate. The default is 32, and 8 on a PREEMPT_RT kernel. The kernel takes any number; with 0 \
               no task is moved in this way.",
        references: &[
            "kernel/sched/fair.c:sched_balance_rq, detach_tasks (v6.18)",
            "kernel/sched/sched.h:SCHED_NR_MIGRATE_BREAK (v6.18)",
            "kernel/sched/debug.c:sched_init_debug (v5.13 and later)",
            "kernel/sysctl.c (v5.10)",
        ],
    },
    kind: ParameterKind::Integer { min: 0, max: MOST },
    samples: &[Sample {
        real_levels: &["8", "16", "32", "64"],
        ..Sample::number("nr-migrate", FILE, "32\n", ["128", "8"])
    }],
    touches: "the scheduler's nr_migrate (debugfs, or a sysctl up to 5.12), for the whole host",
    file: KernelFile {
        newest: FILE,
        older: &[("up to Linux 5.12", "/proc/sys/kernel/sched_nr_migrate")],
        needs: "a kernel with CONFIG_SMP=y, and up to 6.14 with CONFIG_SCHED_DEBUG=y",
    },
    bounds: (0, MOST),
    expected: "a number of tasks from 0 to 2147483647",
    hindrance: None,
};

/// What the sysctl, which is signed, and the file in debugfs both take.
const MOST: i64 = i32::MAX as i64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Knob, KnobContext};
    use holdup_host::fake::MemoryFs;
    use holdup_model::{Availability, Value};

    #[test]
    fn the_sysctl_of_old_kernels_is_used_where_it_is() {
        let fs = MemoryFs::of(&[("/proc/sys/kernel/sched_nr_migrate", "32\n")]);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        assert_eq!(KNOB.probe(&context, ""), Availability::Ready);
        KNOB.write(&context, "", &Value::Integer(128)).expect("there");
        assert_eq!(KNOB.read(&context, "").expect("there"), Value::Integer(128));
        let nothing = MemoryFs::new().host();
        let found = KNOB.probe(&KnobContext { host: &nothing, postgres: None, pids: Vec::new() }, "");
        assert!(format!("{found:?}").contains("mount -t debugfs"), "{found:?}");
    }

    #[test]
    fn what_is_no_number_of_tasks_is_refused() {
        for wrong in [Value::Integer(-1), Value::Integer(MOST + 1), Value::Bool(true), Value::Text("many".to_owned())] {
            assert!(KNOB.check("", &wrong).is_err(), "{wrong:?}");
        }
        KNOB.check("", &Value::Integer(0)).expect("the kernel takes it");
        let host = MemoryFs::of(&[("/proc/sys/kernel/sched_nr_migrate", "32 64\n")]).host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        assert!(KNOB.read(&context, "").expect_err("two").why.contains("`32 64`"));
        assert!(!KNOB.probe(&context, "").is_usable());
    }
}
