//! Whether the scheduler shares the CPU among sessions before it shares it among their tasks.

use crate::refused::{garbled, write_refused, wrong};
use crate::sample::{KernelText, Sample, Surface};
use crate::{Knob, KnobContext};
use holdup_host::cgroup;
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use std::io::ErrorKind;

/// `autogroup`.
pub(crate) struct Autogroup;

const PATH: &str = "/proc/sys/kernel/sched_autogroup_enabled";

static META: Meta = Meta {
    id: "autogroup",
    summary: "share the CPU by session first (kernel.sched_autogroup_enabled)",
    docs: "With autogroup each session (setsid) is one group, and groups get equal shares: a program with many tasks \
           in one session gets as much as a lone task in another. Without it every task counts for itself. \
           PostgreSQL makes a session of each backend, pgbench is one session with all its threads.\n\n\
           It acts on tasks in the root task group only. A service in a control group with the cpu controller (the \
           default under systemd) is not touched by it; holdup says so when that is so for the processes under \
           test.\n\n\
           The change is host-wide, but the kernel looks at it only when a task is forked, begins a session or is \
           moved to another control group: what runs already keeps its share. holdup sets it before the load of a \
           trial starts, so that the load and the server's new backends are under it; a server's long-lived helper \
           processes stay as they were when they began.",
    references: &[
        "kernel/sched/autogroup.c:autogroup_task_group, task_wants_autogroup; kernel/sched/core.c:sched_cgroup_fork (v6.18)",
        "PostgreSQL: src/backend/utils/init/miscinit.c:InitPostmasterChild calls setsid",
        "sched(7), The autogroup feature",
        "Documentation/admin-guide/kernel-parameters.txt: noautogroup",
    ],
};

impl Knob for Autogroup {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Bool
    }

    fn samples(&self) -> &'static [Sample] {
        const {
            &[Sample {
                real_levels: &["on", "off"],
                ..Sample::new("autogroup", Surface::File(KernelText::new(PATH, "1\n")), ["off", "off"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "the sysctl kernel.sched_autogroup_enabled, for the whole host".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        let host = context.host;
        let was_switched_off = host
            .read_value("/proc/cmdline")
            .is_ok_and(|line| line.split_ascii_whitespace().any(|word| word == "noautogroup"));
        match host.read_value(PATH) {
            Err(e) if e.kind == ErrorKind::NotFound && was_switched_off => Availability::unavailable_but(
                format!("{PATH} does not exist, and noautogroup is on the kernel's command line"),
                "boot without noautogroup",
            ),
            Err(e) if e.kind == ErrorKind::NotFound => Availability::unavailable_but(
                format!("{PATH} does not exist: the kernel has no autogroup"),
                "use a kernel with CONFIG_SCHED_AUTOGROUP=y",
            ),
            Err(e) => Availability::unavailable(e.to_string()),
            Ok(_) => match host.may_write(PATH) {
                Err(e) => write_refused(host, &e),
                Ok(()) => reach(context),
            },
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        match context.host.read_value(PATH)?.as_str() {
            "0" => Ok(Value::Bool(false)),
            "1" => Ok(Value::Bool(true)),
            other => Err(garbled(PATH, other)),
        }
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        is_on(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        Ok(context.host.write(PATH, if is_on(value)? { "1" } else { "0" })?)
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        format!("sysctl kernel.sched_autogroup_enabled={}", u8::from(is_on(saved).unwrap_or(true)))
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        let sysctl = |on| Destination::Sysctl {
            key: "kernel.sched_autogroup_enabled".to_owned(),
            value: u8::from(on).to_string(),
        };
        is_on(value).map(sysctl).into_iter().collect()
    }
}

fn is_on(value: &Value) -> Result<bool, Problem> {
    match value {
        Value::Bool(on) => Ok(*on),
        _ => Err(wrong("autogroup", value, "on or off")),
    }
}

/// Whether the knob reaches the processes under test.
fn reach(context: &KnobContext<'_>) -> Availability {
    let beyond =
        context.pids.iter().filter(|pid| cgroup::in_root_task_group(context.host, **pid) == Some(false)).count();
    if beyond == 0 {
        return Availability::Ready;
    }
    Availability::Degraded {
        reason: format!(
            "it has no effect on {beyond} of the {} processes under test: they are in a control group with the cpu \
             controller, and autogroup acts in the root task group only",
            context.pids.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn what_stands_in_the_way_is_said() {
        let check = |files: &[(&str, &str)], errno: Option<i32>, expect: &str| {
            let fs = MemoryFs::of(files);
            if let Some(errno) = errno {
                fs.refuse("write", PATH, errno);
            }
            let host = fs.host();
            let found = Autogroup.probe(&KnobContext { host: &host, postgres: None, pids: vec![7] }, "");
            assert!(format!("{found:?}").contains(expect), "{files:?} {errno:?}: {found:?}");
        };
        check(&[(PATH, "1\n")], None, "Ready");
        check(&[(PATH, "1\n")], Some(libc::EACCES), "run holdup as root");
        check(&[(PATH, "1\n")], Some(libc::EROFS), "mount it writable");
        check(&[], None, "CONFIG_SCHED_AUTOGROUP");
        check(&[("/proc/cmdline", "quiet noautogroup\n")], None, "boot without noautogroup");
        let service = [(PATH, "1\n"), ("/proc/7/cgroup", "3:cpu:/system.slice/x\n")];
        check(&service, None, "no effect on 1 of the 1 processes");
    }

    #[test]
    fn a_foreign_value_is_no_reading() {
        let host = MemoryFs::of(&[(PATH, "2\n")]).host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        assert!(Autogroup.read(&context, "").expect_err("2").why.contains("`2`"));
        assert!(Autogroup.check("", &Value::Integer(1)).is_err());
    }
}
