//! How long a task counts as hot in its CPU's cache.

use crate::refused::{garbled, is_locked_down, write_refused, wrong};
use crate::{Knob, KnobContext};
use holdup_host::Host;
use holdup_model::profile::Place;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use std::io::ErrorKind;

/// `migration-cost`.
pub(crate) struct MigrationCost;

/// Where it is from 5.13 on.
const DEBUG: &str = "/sys/kernel/debug/sched/migration_cost_ns";
/// Where it was up to 5.12.
const SYSCTL: &str = "/proc/sys/kernel/sched_migration_cost_ns";

static META: Meta = Meta {
    id: "migration-cost",
    summary: "how long a task counts as cache-hot and is not moved (default 500us)",
    docs: "A task that ran on a CPU within this time counts as hot there, and the load balancer leaves it. A CPU that \
           becomes idle looks for work elsewhere only when it expects to be idle for longer than that. So a larger \
           value keeps tasks where they are, and a smaller one spreads them sooner.\n\n\
           Up to Linux 5.12 it is the sysctl kernel.sched_migration_cost_ns, from 5.13 on the debugfs file \
           sched/migration_cost_ns, which a locked-down kernel closes to everybody. Advice to set it contradicts \
           itself: measure.",
    references: &[
        "kernel/sched/fair.c:task_hot, sched_balance_newidle (v6.18)",
        "kernel/sched/debug.c:sched_init_debug (v5.13 and later)",
        "kernel/sysctl.c (v5.10)",
    ],
};

impl Knob for MigrationCost {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Duration
    }

    fn touches(&self, _instance: &str) -> String {
        "the scheduler's migration_cost_ns (debugfs, or a sysctl up to 5.12), for the whole host".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        let host = context.host;
        let path = path(host);
        match host.read_value(path) {
            Ok(_) => match host.may_write(path) {
                Ok(()) => Availability::Ready,
                Err(e) => write_refused(host, &e),
            },
            Err(e) if e.kind == ErrorKind::NotFound => missing(host),
            Err(e) => write_refused(host, &e),
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let path = path(context.host);
        let text = context.host.read_value(path)?;
        text.parse().map(Value::Integer).map_err(|_| garbled(path, &text))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        nanoseconds(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        Ok(context.host.write(path(context.host), &nanoseconds(value)?.to_string())?)
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        format!("echo {saved} > {DEBUG}   (up to Linux 5.12: {SYSCTL})")
    }

    fn places(&self, _instance: &str, value: &Value) -> Vec<Place> {
        let file = |ns: u32| Place::File { path: DEBUG.to_owned(), value: ns.to_string() };
        nanoseconds(value).map(file).into_iter().collect()
    }
}

fn path(host: &Host) -> &'static str {
    if host.exists(SYSCTL) { SYSCTL } else { DEBUG }
}

/// The kernel keeps it in 32 bits (`sysctl_sched_migration_cost`, kernel/sched/sched.h).
fn nanoseconds(value: &Value) -> Result<u32, Problem> {
    match value {
        Value::Integer(ns) => u32::try_from(*ns).ok(),
        _ => None,
    }
    .ok_or_else(|| wrong("migration-cost", value, "a duration from 0ns to 4.2s, such as 500us"))
}

/// Why neither file is there.
fn missing(host: &Host) -> Availability {
    let is_mounted = host.read_text("/proc/mounts").is_ok_and(|mounts| {
        mounts.lines().any(|line| line.split_ascii_whitespace().nth(1) == Some("/sys/kernel/debug"))
    });
    if !is_mounted {
        return Availability::unavailable_but(
            "debugfs is not mounted, and the sysctl of kernels up to 5.12 is not there",
            "mount -t debugfs none /sys/kernel/debug   (as root)",
        );
    }
    if is_locked_down(host) {
        return Availability::unavailable_but(
            "the kernel is locked down, which closes debugfs",
            "boot without lockdown",
        );
    }
    Availability::unavailable(format!("neither {DEBUG} nor {SYSCTL} exists in this kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn each_reason_has_its_remedy() {
        let check = |files: &[(&str, &str)], refuse: Option<(&str, &str, i32)>, expect: &str| {
            let fs = MemoryFs::of(files);
            if let Some((operation, path, errno)) = refuse {
                fs.refuse(operation, path, errno);
            }
            let host = fs.host();
            let found = MigrationCost.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, "");
            assert!(format!("{found:?}").contains(expect), "{files:?}: {found:?}");
        };
        let mounts = ("/proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n");
        let locked = ("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
        check(&[], None, "mount -t debugfs");
        check(&[mounts], None, "neither /sys");
        check(&[mounts, locked], None, "closes debugfs");
        check(&[mounts, (DEBUG, "500000\n")], None, "Ready");
        check(&[(SYSCTL, "500000\n")], None, "Ready");
        check(&[mounts, locked, (DEBUG, "500000\n")], Some(("read", DEBUG, libc::EPERM)), "locked down, also for root");
        check(&[mounts, (DEBUG, "500000\n")], Some(("read", DEBUG, libc::EPERM)), "locked down, also for root");
        check(&[mounts, (DEBUG, "500000\n")], Some(("read", DEBUG, libc::EACCES)), "run holdup as root");
    }

    #[test]
    fn values_beyond_32_bits_are_refused_before_anything_is_touched() {
        for wrong in [Value::Integer(-1), Value::Integer(1 << 32), Value::Text("5ms".to_owned())] {
            assert!(MigrationCost.check("", &wrong).is_err(), "{wrong:?}");
        }
        assert!(MigrationCost.check("", &Value::Integer(5_000_000)).is_ok());
    }
}
