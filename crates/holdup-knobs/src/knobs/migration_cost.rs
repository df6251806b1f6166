//! How long a task counts as hot in its CPU's cache.

use crate::kernel_file::{KernelFile, KernelNumber};
use crate::sample::Sample;
use holdup_model::{Meta, ParameterKind};

const FILE: &str = "/sys/kernel/debug/sched/migration_cost_ns";

/// `migration-cost`.
pub(crate) static KNOB: KernelNumber = KernelNumber {
    meta: &Meta {
        id: "migration-cost",
        summary: "how long a task counts as cache-hot and is not moved (default 500us)",
        docs: "A task that ran on a CPU within this time counts as hot there, and the load balancer leaves it. A CPU \
               that becomes idle looks for work elsewhere only when it expects to be idle for longer than that. So a \
               larger value keeps tasks where they are, and a smaller one spreads them sooner.\n\n\
               Up to Linux 5.12 it is the sysctl kernel.sched_migration_cost_ns, from 5.13 on the debugfs file \
               sched/migration_cost_ns, which a locked-down kernel closes to everybody. Advice to set it contradicts \
               itself: measure.",
        references: &[
            "kernel/sched/fair.c:task_hot, sched_balance_newidle (v6.18)",
            "kernel/sched/debug.c:sched_init_debug (v5.13 and later)",
            "kernel/sysctl.c (v5.10)",
        ],
    },
    kind: ParameterKind::DURATION,
    samples: &[Sample {
        real_levels: &["500us", "5ms"],
        is_paired: true,
        ..Sample::number("migration-cost", FILE, "500000\n", ["5ms", "0ns"])
    }],
    touches: "the scheduler's migration_cost_ns (debugfs, or a sysctl up to 5.12), for the whole host",
    file: KernelFile {
        newest: FILE,
        older: &[("up to Linux 5.12", "/proc/sys/kernel/sched_migration_cost_ns")],
        needs: "a kernel with CONFIG_SMP=y, and up to 6.14 with CONFIG_SCHED_DEBUG=y",
    },
    // The kernel keeps it in 32 bits (`sysctl_sched_migration_cost`, kernel/sched/sched.h).
    bounds: (0, u32::MAX as i64),
    expected: "a duration from 0ns to 4.2s, such as 500us",
    hindrance: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Knob, KnobContext};
    use holdup_host::fake::MemoryFs;
    use holdup_model::Value;

    const DEBUG: &str = "/sys/kernel/debug/sched/migration_cost_ns";
    const SYSCTL: &str = "/proc/sys/kernel/sched_migration_cost_ns";

    #[test]
    fn each_reason_has_its_remedy() {
        let check = |files: &[(&str, &str)], refuse: Option<(&str, &str, i32)>, expect: &str| {
            let fs = MemoryFs::of(files);
            if let Some((operation, path, errno)) = refuse {
                fs.refuse(operation, path, errno);
            }
            let host = fs.host();
            let found = KNOB.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, "");
            assert!(format!("{found:?}").contains(expect), "{files:?}: {found:?}");
        };
        let mounts = ("/proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n");
        let locked = ("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
        check(&[], None, "mount -t debugfs");
        check(&[("/proc/filesystems", "nodev\tsysfs\nnodev\tdebugfs\n")], None, "mount -t debugfs");
        check(&[("/proc/filesystems", "nodev\tsysfs\n\text4\n")], None, "CONFIG_DEBUG_FS=y");
        check(&[mounts], None, "neither /sys");
        check(&[mounts], None, "CONFIG_SMP=y");
        check(&[mounts, locked], None, "closes debugfs");
        check(&[mounts, (DEBUG, "500000\n")], None, "Ready");
        check(&[(SYSCTL, "500000\n")], None, "Ready");
        check(&[mounts, (DEBUG, "half a millisecond\n")], None, "is not what the kernel writes there");
        check(&[mounts, locked, (DEBUG, "500000\n")], Some(("read", DEBUG, libc::EPERM)), "locked down, also for root");
        check(&[mounts, (DEBUG, "500000\n")], Some(("read", DEBUG, libc::EPERM)), "locked down, also for root");
        check(&[mounts, (DEBUG, "500000\n")], Some(("read", DEBUG, libc::EACCES)), "run holdup as root");
        check(&[mounts, (DEBUG, "500000\n")], Some(("write", DEBUG, libc::EACCES)), "run holdup as root");
    }

    #[test]
    fn values_beyond_32_bits_are_refused_before_anything_is_touched() {
        for wrong in [Value::Integer(-1), Value::Integer(1 << 32), Value::Text("5ms".to_owned())] {
            assert!(KNOB.check("", &wrong).is_err(), "{wrong:?}");
        }
        assert!(KNOB.check("", &Value::Integer(5_000_000)).is_ok());
    }

    #[test]
    fn what_was_there_is_put_back_even_if_a_plan_may_not_set_it() {
        // An administrator may have switched the cost off with -1, which the old sysctl takes.
        let fs = MemoryFs::of(&[(SYSCTL, "-1\n")]);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        let saved = KNOB.read(&context, "").expect("a number");
        KNOB.write(&context, "", &Value::Integer(7)).expect("written");
        KNOB.write(&context, "", &saved).expect("put back");
        assert_eq!(fs.get(SYSCTL).as_deref(), Some("-1"));
        let garbage: [&[u8]; 4] = [b"99999999999999999999", b"4294967296", b"", &[0xff, 0xfe]];
        for content in garbage {
            fs.put(SYSCTL, content);
            assert!(KNOB.read(&context, "").is_err(), "{content:?}");
        }
    }
}
