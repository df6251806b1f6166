//! The weight of the control group of the processes under test.

use crate::cpu_group::GroupFile;
use crate::pieces::{self, Files, Pieces};
use crate::refused::{garbled, wrong};
use crate::sample::{Foreign, Sample};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::Host;
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};

/// `cgroup-cpu-weight`.
pub(crate) struct CgroupCpuWeight;

const FILE: GroupFile = GroupFile { factor: "cgroup-cpu-weight", v1: "cpu.shares", v2: "cpu.weight" };

static META: Meta = Meta {
    id: "cgroup-cpu-weight",
    summary: "weight of the server's control group, 1 to 10000 (default 100)",
    docs: "Groups beside each other share contended CPUs by their weights: 200 gets twice as much as 100. Without \
           contention it has no effect. It is cpu.weight of the group that the processes under test are in; with \
           control groups of version 1 it is cpu.shares, where 100 is 1024, and 1 is 10.\n\n\
           All processes under test must be in one group, and not in the root group, which has no weight. The group \
           is not made or changed by holdup beyond this value: run the server as a service, or in a scope of its \
           own (systemd-run --scope). systemd sets its own value again when it reloads its units; holdup then \
           reports that someone else changed it. A group that was removed meanwhile needs nothing put back.",
    references: &[
        "Documentation/admin-guide/cgroup-v2.rst: cpu.weight (v6.18)",
        "kernel/sched/core.c:cpu_weight_write_u64, cpu_shares_write_u64 (v6.18)",
    ],
};

impl Knob for CgroupCpuWeight {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Integer { min: 1, max: 10_000 }
    }

    fn samples(&self) -> &'static [Sample] {
        const WEIGHT: &str = "/sys/fs/cgroup/system.slice/pg.service/cpu.weight";
        const {
            &[Sample {
                real_levels: &["1", "50", "250", "1000"],
                foreign: Some(Foreign { path: WEIGHT, content: "77\n", named: "77" }),
                ..Sample::number("cgroup-cpu-weight", WEIGHT, "100\n", ["200", "1"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "cpu.weight (cpu.shares in version 1) of the control group of the processes under test".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        match FILE.probe(context) {
            Availability::Unavailable { reason, remedy } => Availability::Unavailable { reason, remedy },
            found => match self.read(context, "") {
                Ok(_) => found,
                Err(problem) => Availability::unavailable(format!("{}: {}", problem.what, problem.why)),
            },
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let path = FILE.path_here(context)?;
        let text = context.host.read_value(&path)?;
        match weight(&path, &text) {
            Some(0) => {
                Err(Problem::host(format!("factor {}", META.id), "the group is idle (cpu.idle) and has no weight")
                    .hint("write 0 to cpu.idle of the group first"))
            }
            Some(weight) => Ok(Value::Integer(weight)),
            None => Err(garbled(&path, &text)),
        }
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        wanted(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        let (path, weight) = (FILE.path_here(context)?, wanted(value)?);
        let number = if path.ends_with(FILE.v1) { shares(weight) } else { weight };
        Ok(context.host.write(&path, &number.to_string())?)
    }

    fn save(&self, context: &KnobContext<'_>, _instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        pieces::save(context.host, &[FILE.path_here(context)?], already)
    }

    fn overlaps(&self, context: &KnobContext<'_>, saved: &Value) -> Result<bool, Problem> {
        pieces::overlaps(&[FILE.path_here(context)?], saved)
    }

    fn standing(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        pieces_of(context.host).standing(past)
    }

    fn restore(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<(), Problem> {
        pieces_of(context.host).restore(past)
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        pieces::by_hand(saved).unwrap_or_else(|| "echo 100 > /sys/fs/cgroup/GROUP/cpu.weight".to_owned())
    }

    fn is_of_processes(&self) -> bool {
        true
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        vec![Destination::Service { directive: "CPUWeight".to_owned(), value: value.to_string() }]
    }
}

fn pieces_of(host: &Host) -> Pieces<'_> {
    Pieces {
        host,
        has: &|path, now, level| matches!(level, Value::Integer(wanted) if weight(path, now) == Some(*wanted)),
        below: "/sys/fs/cgroup",
        summary: &in_force,
        gone: "the control group was removed",
    }
}

fn in_force(files: &Files) -> Value {
    let weights: Vec<String> = files
        .iter()
        .map(|(path, text)| weight(path, text).map_or_else(|| text.clone(), |weight| weight.to_string()))
        .collect();
    pieces::summary(weights.iter(), "groups")
}

fn wanted(value: &Value) -> Result<i64, Problem> {
    match value {
        Value::Integer(weight) if (1..=10_000).contains(weight) => Ok(*weight),
        _ => Err(wrong(META.id, value, "a weight from 1 to 10000")),
    }
}

/// The shares of version 1 for a weight: 100 is their default, 1024. Every weight comes back from its shares.
fn shares(weight: i64) -> i64 {
    (weight * 1024 + 50) / 100
}

/// The weight in a file; 0 for an idle group of version 2.
fn weight(path: &str, text: &str) -> Option<i64> {
    let number: i64 = text.trim().parse().ok().filter(|number| (0..=1 << 20).contains(number))?;
    Some(if path.ends_with(FILE.v1) { (number * 100 + 512) / 1024 } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn every_weight_comes_back_from_its_shares() {
        for wanted in 1..=10_000 {
            let shares = shares(wanted);
            assert!((2..=262_144).contains(&shares), "{shares}");
            assert_eq!(weight("/x/cpu.shares", &shares.to_string()), Some(wanted));
        }
        assert_eq!((shares(100), weight("/x/cpu.weight", "100\n")), (1024, Some(100)));
        for broken in ["", "-1", "max", "99999999999999999999"] {
            assert_eq!(weight("/x/cpu.weight", broken), None, "{broken}");
        }
    }

    #[test]
    fn version_1_is_written_in_shares_and_put_back_in_them() {
        let fs = MemoryFs::of(&[("/proc/7/cgroup", "3:cpu:/v\n0::/\n"), ("/sys/fs/cgroup/cpu/v/cpu.shares", "1000\n")]);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![7] };
        let saved = CgroupCpuWeight.save(&context, "", &[]).expect("there").expect("fresh");
        CgroupCpuWeight.write(&context, "", &Value::Integer(200)).expect("it takes");
        assert_eq!(fs.get("/sys/fs/cgroup/cpu/v/cpu.shares").as_deref(), Some("2048"));
        assert_eq!(CgroupCpuWeight.by_hand("", &saved), "echo 1000 > /sys/fs/cgroup/cpu/v/cpu.shares");
        let ever = [Value::Integer(200)];
        CgroupCpuWeight.restore(&context, "", &Past { saved: &saved, written: &ever, ever: &ever }).expect("it takes");
        assert_eq!(fs.get("/sys/fs/cgroup/cpu/v/cpu.shares").as_deref(), Some("1000"));
    }

    #[test]
    fn an_idle_group_has_no_weight() {
        let host = MemoryFs::of(&[("/proc/7/cgroup", "0::/v\n"), ("/sys/fs/cgroup/v/cpu.weight", "0\n")]).host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![7] };
        assert!(format!("{:?}", CgroupCpuWeight.probe(&context, "")).contains("cpu.idle"));
        assert!(CgroupCpuWeight.check("", &Value::Integer(0)).is_err());
        assert!(CgroupCpuWeight.check("", &Value::Integer(10_001)).is_err());
    }
}
