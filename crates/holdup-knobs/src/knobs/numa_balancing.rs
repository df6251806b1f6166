//! Whether the kernel moves memory and tasks towards each other among NUMA nodes.

use crate::refused::{garbled, probe_file, wrong};
use crate::sample::{Foreign, Sample};
use crate::{Knob, KnobContext};
use holdup_host::{Host, cpu_list};
use holdup_model::profile::Destination;
use holdup_model::text::shell_quoted;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};

/// `numa-balancing`.
pub(crate) struct NumaBalancing;

const PATH: &str = "/proc/sys/kernel/numa_balancing";

static META: Meta = Meta {
    id: "numa-balancing",
    summary: "automatic NUMA balancing: 0 off, 1 on, 2 memory tiers",
    docs: "With 1 the kernel unmaps pages of a task from time to time, sees by the faults from which node they are \
           used, and moves pages to the task or the task to its pages. The faults cost, so on a server whose shared \
           memory is used from all nodes it may lose more than it wins: measure.\n\n\
           With 2 (5.18 and later) it moves pages between fast and slow memory instead; older kernels refuse it. \
           The kernel sets 1 at boot on hosts with more than one node where CONFIG_NUMA_BALANCING_DEFAULT_ENABLED \
           is set. A host with one node has nothing to balance; holdup says so.",
    references: &[
        "Documentation/admin-guide/sysctl/kernel.rst: numa_balancing (v6.18)",
        "kernel/sched/core.c:sysctl_numa_balancing (v6.18)",
        "kernel/sched/fair.c:task_numa_work, task_numa_fault (v6.18)",
    ],
};

impl Knob for NumaBalancing {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Integer { min: 0, max: 2 }
    }

    fn samples(&self) -> &'static [Sample] {
        const {
            &[Sample {
                real_levels: &["0", "1"],
                foreign: Some(Foreign { path: PATH, content: "4\n", named: "4" }),
                ..Sample::number("numa-balancing", PATH, "0\n", ["1", "2"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "the sysctl kernel.numa_balancing, for the whole host".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        let found = probe_file(context.host, PATH, || {
            Availability::unavailable_but(
                format!("{PATH} does not exist: the kernel has no automatic NUMA balancing"),
                "use a kernel with CONFIG_NUMA_BALANCING=y",
            )
        });
        match found {
            Availability::Ready if nodes(context.host).is_some_and(|nodes| nodes < 2) => {
                Availability::Degraded { reason: "it has no effect: the host has one NUMA node".to_owned() }
            }
            found => found,
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let text = context.host.read_value(PATH)?;
        match text.parse() {
            Ok(mode) if (0..=MOST).contains(&mode) => Ok(Value::Integer(mode)),
            _ => Err(garbled(PATH, &text)),
        }
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        match value {
            Value::Integer(0..=2) => Ok(()),
            _ => Err(refused(value)),
        }
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        match value {
            Value::Integer(mode) if (0..=MOST).contains(mode) => Ok(context.host.write(PATH, &mode.to_string())?),
            _ => Err(refused(value)),
        }
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        format!("sysctl kernel.numa_balancing={}", shell_quoted(&saved.to_string()))
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        vec![Destination::Sysctl { key: "kernel.numa_balancing".to_owned(), value: value.to_string() }]
    }
}

/// The kernel takes values up to 4, a sum of bits: what was in force before may be one that is no level here.
const MOST: i64 = 4;

fn refused(value: &Value) -> Problem {
    wrong(META.id, value, "0 (off), 1 (on) or 2 (memory tiers)")
}

fn nodes(host: &Host) -> Option<usize> {
    let online = host.read_value("/sys/devices/system/node/online").ok()?;
    cpu_list(&online).map(|nodes| nodes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn one_node_and_a_missing_file_are_reported() {
        let check = |files: &[(&str, &str)], expect: &str| {
            let host = MemoryFs::of(files).host();
            let found = NumaBalancing.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, "");
            assert!(format!("{found:?}").contains(expect), "{files:?}: {found:?}");
        };
        check(&[], "CONFIG_NUMA_BALANCING");
        check(&[(PATH, "0\n"), ("/sys/devices/system/node/online", "0\n")], "one NUMA node");
        check(&[(PATH, "0\n"), ("/sys/devices/system/node/online", "0-1\n")], "Ready");
        check(&[(PATH, "0\n")], "Ready");
    }

    #[test]
    fn a_sum_of_bits_that_was_there_is_put_back_and_is_no_level() {
        let fs = MemoryFs::of(&[(PATH, "3\n")]);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        assert_eq!(NumaBalancing.read(&context, "").expect("3"), Value::Integer(3));
        assert!(NumaBalancing.check("", &Value::Integer(3)).is_err());
        NumaBalancing.write(&context, "", &Value::Integer(3)).expect("it was there");
        for broken in ["", "-1", "9", "on", "99999999999999999999"] {
            fs.put(PATH, broken);
            assert!(NumaBalancing.read(&context, "").is_err(), "{broken}");
        }
    }
}
