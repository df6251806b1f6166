//! The scheduler: its tunables, and what holdup itself runs under.

use super::{from_file, why};
use crate::{Host, cgroup};
use holdup_model::Fact;

pub(super) fn collect(host: &Host, all: &mut Vec<Fact>) {
    sysctls(host, all);
    all.push(realtime_limit(host).steady());
    tunables(host, all);
    all.push(from_file(host, "scheduler.sched_ext", "/sys/kernel/sched_ext/state").steady());
    all.push(own_scheduling(host).steady());
    let cgroup = own_cgroup(host);
    all.push(quota(host, cgroup.value.as_deref()).steady());
    all.push(cgroup.steady());
}

const SYSCTLS: &str = "/proc/sys/kernel";
const AUTOGROUP: &str = "sched_autogroup_enabled";

/// The sysctls of the scheduler that this kernel has; autogroup is a fact also when it is missing.
fn sysctls(host: &Host, all: &mut Vec<Fact>) {
    let autogroup = from_file(host, "scheduler.autogroup", &format!("{SYSCTLS}/{AUTOGROUP}"));
    all.push(autogroup.steady());
    let names = host.list(SYSCTLS).unwrap_or_default();
    for name in names.iter().filter(|name| name.starts_with("sched_") && *name != AUTOGROUP) {
        let fact = from_file(host, &format!("scheduler.{name}"), &format!("{SYSCTLS}/{name}"));
        // Collectors of scheduler statistics switch these on for as long as they look.
        all.push(if name == "sched_schedstats" { fact } else { fact.steady() });
    }
}

/// What share of the time real-time tasks may take before they are throttled.
fn realtime_limit(host: &Host) -> Fact {
    const KEY: &str = "scheduler.realtime_throttling";
    let source = format!("{SYSCTLS}/sched_rt_runtime_us and sched_rt_period_us");
    let number = |name: &str| {
        let value = host.read_value(&format!("{SYSCTLS}/{name}")).map_err(|e| why(&e))?;
        value.parse::<i64>().map_err(|_| format!("{name} is `{value}`"))
    };
    match number("sched_rt_runtime_us").and_then(|runtime| Ok((runtime, number("sched_rt_period_us")?))) {
        Ok((runtime, _)) if runtime < 0 => Fact::read(KEY, "off", source),
        Ok((runtime, period)) => Fact::read(KEY, format!("{runtime} of {period} us"), source),
        Err(why) => Fact::absent(KEY, source, why),
    }
}

/// The tunables that moved from sysctl to debugfs in 5.13; the sysctls are among [`sysctls`].
fn tunables(host: &Host, all: &mut Vec<Fact>) {
    for name in ["migration_cost_ns", "base_slice_ns", "nr_migrate", "tunable_scaling", "features"] {
        let fact = from_file(host, &format!("scheduler.{name}"), &format!("/sys/kernel/debug/sched/{name}"));
        all.push(fact.steady());
    }
}

/// The policy and nice value of holdup, which everything that it starts inherits.
fn own_scheduling(host: &Host) -> Fact {
    const KEY: &str = "holdup.scheduling";
    match host.scheduling(std::process::id()) {
        Ok(now) => {
            let reset = if now.reset_on_fork { ", reset on fork" } else { "" };
            let value = format!("policy {} nice {} priority {}{reset}", now.policy, now.nice, now.priority);
            Fact::read(KEY, value, "sched_getscheduler(2), getpriority(2)")
        }
        Err(e) => Fact::absent(KEY, "sched_getscheduler(2)", why(&e)),
    }
}

/// The control groups of holdup, which everything that it starts is in.
fn own_cgroup(host: &Host) -> Fact {
    const PATH: &str = "/proc/self/cgroup";
    match host.read_text(PATH) {
        Err(e) => Fact::absent("holdup.cgroup", PATH, why(&e)),
        Ok(text) if text.trim().is_empty() => Fact::absent("holdup.cgroup", PATH, "the file is empty"),
        Ok(text) => Fact::read("holdup.cgroup", text.lines().collect::<Vec<_>>().join(" "), PATH),
    }
}

/// The tightest CPU quota on the way from holdup's own control group to the root.
fn quota(host: &Host, cgroup: Option<&str>) -> Fact {
    const KEY: &str = "cgroup.cpu_quota";
    let Some(cgroup) = cgroup else { return Fact::absent(KEY, "/proc/self/cgroup", "the control group is not known") };
    let limit = cgroup::cpu_limit(host, cgroup);
    match limit.value {
        Some(Some(tightest)) => Fact::read(KEY, tightest.words, limit.source),
        Some(None) => Fact::read(KEY, "none", limit.source),
        None => Fact::absent(KEY, limit.source, limit.why_unknown.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    fn value(files: &[(&str, &str)], key: &str) -> Option<String> {
        let mut all = Vec::new();
        collect(&MemoryFs::of(files).host(), &mut all);
        all.into_iter().find(|f| f.key == key).expect("the key is there").value
    }

    #[test]
    fn the_tightest_quota_on_the_way_up_counts() {
        let check = |files: &[(&str, &str)], expect: Option<&str>| {
            assert_eq!(value(files, "cgroup.cpu_quota").as_deref(), expect, "{files:?}");
        };
        let v2 = ("/proc/self/cgroup", "0::/a.slice/b.scope\n");
        check(&[v2, ("/sys/fs/cgroup/a.slice/cpu.max", "max 100000\n")], Some("none"));
        check(
            &[
                v2,
                ("/sys/fs/cgroup/a.slice/cpu.max", "50000 100000\n"),
                ("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "200000 100000\n"),
            ],
            Some("50000 of 100000 us: 0.50 CPUs"),
        );
        let v1 = ("/proc/self/cgroup", "3:cpu,cpuacct:/x\n0::/\n");
        let period = ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
        check(&[v1, period, ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n")], Some("none"));
        check(
            &[v1, period, ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "150000\n")],
            Some("150000 of 100000 us: 1.50 CPUs"),
        );
        check(&[v1], None);
        check(&[], None);
        check(&[("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/cpu.max", "garbage\n")], None);
    }

    #[test]
    fn sysctls_that_exist_are_facts_and_autogroup_is_always_one() {
        let runtime = ("/proc/sys/kernel/sched_rt_runtime_us", "950000\n");
        let period = ("/proc/sys/kernel/sched_rt_period_us", "1000000\n");
        assert_eq!(value(&[runtime, period], "scheduler.sched_rt_runtime_us").as_deref(), Some("950000"));
        assert_eq!(value(&[runtime, period], "scheduler.realtime_throttling").as_deref(), Some("950000 of 1000000 us"));
        let off = ("/proc/sys/kernel/sched_rt_runtime_us", "-1\n");
        assert_eq!(value(&[off, period], "scheduler.realtime_throttling").as_deref(), Some("off"));
        assert_eq!(value(&[], "scheduler.autogroup"), None);
    }
}
