//! How much CPU time the control group of the processes under test may take.

use crate::cpu_group::GroupFile;
use crate::pieces::{self, Files, Pieces};
use crate::refused::{garbled, wrong};
use crate::sample::{Answer, Foreign, KernelText, Sample, Surface};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::Host;
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use std::fmt;

/// `cgroup-cpu-max`.
pub(crate) struct CgroupCpuMax;

const FILE: GroupFile = GroupFile { factor: "cgroup-cpu-max", v1: "cpu.cfs_quota_us", v2: "cpu.max" };
const PERIOD_V1: &str = "cpu.cfs_period_us";
/// The kernel's default period, which holdup writes, in µs.
const PERIOD_US: u64 = 100_000;

static META: Meta = Meta {
    id: "cgroup-cpu-max",
    summary: "CPUs that the server's control group may use: max, or 1.5",
    docs: "`max` is no limit. A number is CPUs: `1.5` lets the group run for 150 ms in every 100 ms over all CPUs \
           together, and when that is used up its tasks wait until the next period begins. So a limit shows as pauses \
           of tens of milliseconds, not as a slower CPU; nr_throttled in cpu.stat counts them.\n\n\
           It is cpu.max of the group that the processes under test are in, with the default period of 100 ms; with \
           control groups of version 1 it is cpu.cfs_quota_us, and a group whose period is another one is refused. \
           All processes must be in one group, and not in the root group, which has no limit. A tighter limit of a \
           group above it stays in force.\n\n\
           systemd sets its own value again when it reloads its units; holdup then reports that someone else changed \
           it. A group that was removed meanwhile needs nothing put back.",
    references: &[
        "Documentation/admin-guide/cgroup-v2.rst: cpu.max (v6.18)",
        "Documentation/scheduler/sched-bwc.rst (v6.18)",
        "kernel/sched/core.c:tg_set_bandwidth, cpu_max_write (v6.18)",
    ],
};

impl Knob for CgroupCpuMax {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Text
    }

    fn samples(&self) -> &'static [Sample] {
        const MAX: KernelText = KernelText {
            // A bare `max` keeps the period; the tests have one period beside that which holdup writes.
            answer: Answer::Made(|_, limit| Some(if limit == "max" { "max 100000\n" } else { limit }.to_owned())),
            ..KernelText::new("/sys/fs/cgroup/system.slice/pg.service/cpu.max", "max 50000\n")
        };
        const {
            &[Sample {
                real_levels: &["0.5", "1.5"],
                foreign: Some(Foreign { path: MAX.path, content: "77 1000\n", named: "0.077 in periods of 1000us" }),
                is_paired: true,
                has_parts: true,
                ..Sample::new("cgroup-cpu-max", Surface::File(MAX), ["1.5", "0.25"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "cpu.max (cpu.cfs_quota_us in version 1) of the control group of the processes under test".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        match FILE.probe(context) {
            Availability::Unavailable { reason, remedy } => Availability::Unavailable { reason, remedy },
            found => match self.read(context, "") {
                Ok(_) => found,
                Err(Problem { why, hint: Some(hint), .. }) => Availability::unavailable_but(why, hint),
                Err(problem) => Availability::unavailable(format!("{}: {}", problem.what, problem.why)),
            },
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let path = FILE.path_here(context)?;
        if let Some(folder) = path.strip_suffix(FILE.v1) {
            let period = context.host.read_value(&format!("{folder}{PERIOD_V1}"))?;
            if period != PERIOD_US.to_string() {
                let why = format!("the group's period is {period} us, and holdup sets limits in periods of 100 ms");
                return Err(Problem::host(format!("factor {}", META.id), why)
                    .hint(format!("echo {PERIOD_US} > {folder}{PERIOD_V1}")));
            }
        }
        let text = context.host.read_value(&path)?;
        Limit::in_file(&path, &text).map(|limit| Value::Text(limit.to_string())).ok_or_else(|| garbled(&path, &text))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        wanted(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        let (path, limit) = (FILE.path_here(context)?, wanted(value)?);
        Ok(context.host.write(&path, &limit.as_written(&path))?)
    }

    fn same(&self, a: &Value, b: &Value) -> bool {
        match (wanted(a), wanted(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => a == b,
        }
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
        pieces::by_hand(saved).unwrap_or_else(|| "echo max > /sys/fs/cgroup/GROUP/cpu.max".to_owned())
    }

    fn is_of_processes(&self) -> bool {
        true
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        // systemd counts in percent of one CPU, and an empty value takes the limit away.
        let value = match value.to_string().parse::<f64>() {
            Ok(cpus) => format!("{}%", (cpus * 100.0).round()),
            Err(_) => String::new(),
        };
        vec![Destination::Service { directive: "CPUQuota".to_owned(), value }]
    }
}

fn pieces_of(host: &Host) -> Pieces<'_> {
    Pieces {
        host,
        has: &|path, now, level| wanted(level).is_ok_and(|limit| Limit::in_file(path, now) == Some(limit)),
        below: "/sys/fs/cgroup",
        summary: &in_force,
        gone: "the control group was removed",
    }
}

fn in_force(files: &Files) -> Value {
    let limits: Vec<String> = files
        .iter()
        .map(|(path, text)| Limit::in_file(path, text).map_or_else(|| text.clone(), |limit| limit.to_string()))
        .collect();
    pieces::summary(limits.iter(), "groups")
}

/// A limit of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    None,
    /// So much CPU time in each period, both in µs.
    Time {
        quota: u64,
        period: u64,
    },
}

impl Limit {
    fn in_file(path: &str, text: &str) -> Option<Limit> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (quota, period) = match words[..] {
            [quota] => (quota, None),
            [quota, period] => (quota, Some(period)),
            _ => return None,
        };
        match (path.ends_with(FILE.v1), quota, period) {
            (true, "-1", None) | (false, "max", Some(_)) => Some(Limit::None),
            (true, quota, None) => Some(Limit::Time { quota: quota.parse().ok()?, period: PERIOD_US }),
            (false, quota, Some(period)) => {
                let period = period.parse().ok().filter(|period| *period > 0)?;
                Some(Limit::Time { quota: quota.parse().ok()?, period })
            }
            _ => None,
        }
    }

    fn as_written(self, path: &str) -> String {
        match (self, path.ends_with(FILE.v1)) {
            (Limit::None, true) => "-1".to_owned(),
            // The period stays as it is.
            (Limit::None, false) => "max".to_owned(),
            (Limit::Time { quota, .. }, true) => quota.to_string(),
            (Limit::Time { quota, period }, false) => format!("{quota} {period}"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "for people; quotas are far below 2^53")]
        let cpus = |quota: u64, period: u64| quota as f64 / period as f64;
        match self {
            Limit::None => f.write_str("max"),
            Limit::Time { quota, period: PERIOD_US } => write!(f, "{}", cpus(*quota, PERIOD_US)),
            Limit::Time { quota, period } => write!(f, "{} in periods of {period}us", cpus(*quota, *period)),
        }
    }
}

/// `max`, or CPUs in plain decimal with at most 5 places: a µs in 100 ms.
fn wanted(value: &Value) -> Result<Limit, Problem> {
    let refused = || wrong(META.id, value, "max, or a number of CPUs from 0.01 up, such as 1.5");
    let Value::Text(text) = value else { return Err(refused()) };
    if text == "max" {
        return Ok(Limit::None);
    }
    let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str, longest: usize| {
        (1..=longest).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 5) || !is_number(places, 5) {
        return Err(refused());
    }
    let number = |part: &str| part.parse::<u64>().map_err(|_| refused());
    let quota = number(whole)? * PERIOD_US + number(&format!("{places:0<5}"))?;
    // The kernel takes no less than 1 ms (`min_cfs_quota_period`).
    if quota < 1000 { Err(refused()) } else { Ok(Limit::Time { quota, period: PERIOD_US }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn cpus_become_a_quota_of_100_ms_and_come_back() {
        let check = |text: &str, v2: &str, v1: &str, shown: &str| {
            let limit = wanted(&Value::Text(text.to_owned())).expect(text);
            assert_eq!(
                (limit.as_written("/g/cpu.max"), limit.as_written("/g/cpu.cfs_quota_us")),
                (v2.into(), v1.into())
            );
            assert_eq!(limit.to_string(), shown);
            assert_eq!(Limit::in_file("/g/cpu.cfs_quota_us", v1), Some(limit));
            let kernel = if v2 == "max" { "max 100000" } else { v2 };
            assert_eq!(Limit::in_file("/g/cpu.max", kernel), Some(limit));
        };
        check("1.5", "150000 100000", "150000", "1.5");
        check("2", "200000 100000", "200000", "2");
        check("2.0", "200000 100000", "200000", "2");
        check("0.01", "1000 100000", "1000", "0.01");
        check("0.33333", "33333 100000", "33333", "0.33333");
        check("max", "max", "-1", "max");
        for wrong in ["", "0", "0.009", "-1", "1.", ".5", "1e3", "1.234567", "100000", "Max", "1.5 CPUs", "\u{661}"] {
            assert!(wanted(&Value::Text(wrong.to_owned())).is_err(), "{wrong}");
        }
        assert!(CgroupCpuMax.same(&Value::Text("2".to_owned()), &Value::Text("2.0".to_owned())));
    }

    #[test]
    fn another_period_is_reported_and_is_another_limit() {
        let found = Limit::in_file("/g/cpu.max", "30000 20000").expect("a limit");
        assert_eq!(found.to_string(), "1.5 in periods of 20000us");
        assert!(Limit::in_file("/g/cpu.max", "30000 0").is_none() && Limit::in_file("/g/cpu.max", "max").is_none());
        let fs = MemoryFs::of(&[("/proc/7/cgroup", "3:cpu:/v\n"), ("/sys/fs/cgroup/cpu/v/cpu.cfs_quota_us", "-1\n")]);
        fs.put("/sys/fs/cgroup/cpu/v/cpu.cfs_period_us", "50000\n");
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![7] };
        let refused = format!("{:?}", CgroupCpuMax.probe(&context, ""));
        assert!(refused.contains("echo 100000 > /sys/fs/cgroup/cpu/v/cpu.cfs_period_us"), "{refused}");
        fs.put("/sys/fs/cgroup/cpu/v/cpu.cfs_period_us", "100000\n");
        assert_eq!(CgroupCpuMax.read(&context, "").expect("there"), Value::Text("max".to_owned()));
    }
}
