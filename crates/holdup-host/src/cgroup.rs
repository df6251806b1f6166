//! Control groups, as far as they bear on scheduling.

use crate::Host;
use holdup_model::survey::Known;

/// The folder of a line of /proc/PID/cgroup when that line is about the cpu controller, and whether it is of
/// version 2. Paths are those under the usual mounts below /sys/fs/cgroup.
pub(crate) fn cpu_folder(line: &str) -> Option<(String, bool)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    match controllers {
        "" => Some((format!("/sys/fs/cgroup{path}"), true)),
        list if list.split(',').any(|c| c == "cpu") => Some((format!("/sys/fs/cgroup/{list}{path}"), false)),
        _ => None,
    }
}

/// A folder and those above it, down to the mount of control groups.
pub(crate) fn upwards(folder: &str) -> Vec<String> {
    let mut levels = Vec::new();
    let mut rest = folder.trim_end_matches('/');
    while rest.len() > "/sys/fs/cgroup".len() {
        levels.push(rest.to_owned());
        rest = rest.rsplit_once('/').map_or("", |(above, _)| above);
    }
    levels.push("/sys/fs/cgroup".to_owned());
    levels
}

/// Whether a process is scheduled in the root task group, the only one in which autogroup acts
/// (`kernel/sched/autogroup.c:task_wants_autogroup`, v6.18). `None` when it cannot be told.
///
/// In version 2 a group is a task group of its own where the cpu controller is enabled for it,
/// which is where `cpu.weight` exists.
pub fn in_root_task_group(host: &Host, pid: u32) -> Option<bool> {
    let text = host.read_text(&format!("/proc/{pid}/cgroup")).ok()?;
    let folders: Vec<(String, bool)> = text.lines().filter_map(cpu_folder).collect();
    if let Some((folder, _)) = folders.iter().find(|(_, is_v2)| !is_v2) {
        // Version 1: the controller is mounted there, so the path alone decides.
        let line = text.lines().find(|l| cpu_folder(l).is_some_and(|(f, _)| f == *folder))?;
        return line.splitn(3, ':').nth(2).map(|path| path == "/");
    }
    let (folder, _) = folders.first()?;
    Some(!upwards(folder).iter().any(|level| level != "/sys/fs/cgroup" && host.exists(&format!("{level}/cpu.weight"))))
}

/// A limit of CPU time.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuLimit {
    /// In CPUs.
    pub cpus: f64,
    /// As it is written: `50000 of 100000 us: 0.50 CPUs`.
    pub words: String,
}

/// The tightest CPU limit (`cpu.max`, `cpu.cfs_quota_us`) on the way from the control groups in `memberships` up to the
/// root; `None` inside: there is none. `memberships` is the text of a /proc/PID/cgroup, its lines parted by white space
/// of any kind.
pub fn cpu_limit(host: &Host, memberships: &str) -> Known<Option<CpuLimit>> {
    let mut tightest: Option<(CpuLimit, String)> = None;
    let mut seen = 0;
    for (folder, is_v2) in memberships.split([' ', '\n']).filter_map(cpu_folder) {
        for level in upwards(&folder) {
            let path = format!("{level}/{}", if is_v2 { "cpu.max" } else { "cpu.cfs_quota_us" });
            let Ok(text) = host.read_value(&path) else { continue };
            let period = if is_v2 { None } else { host.read_value(&format!("{level}/cpu.cfs_period_us")).ok() };
            let Some(limit) = limit_of(&text, period.as_deref()) else {
                return Known::unknown(path, format!("`{text}` is no quota"));
            };
            seen += 1;
            let Some(limit) = limit else { continue };
            if tightest.as_ref().is_none_or(|(least, _)| limit.cpus < least.cpus) {
                tightest = Some((limit, path));
            }
        }
    }
    match tightest {
        Some((limit, path)) => Known::found(Some(limit), path),
        None if seen > 0 => Known::found(None, "cpu.max or cpu.cfs_quota_us, up to the root"),
        None => Known::unknown("/sys/fs/cgroup", "no file cpu.max or cpu.cfs_quota_us on the way to the root"),
    }
}

/// A quota; the inner `None` when there is no limit (`max`, -1), the outer one when the text is no quota.
fn limit_of(text: &str, period: Option<&str>) -> Option<Option<CpuLimit>> {
    let mut words = text.split_ascii_whitespace().chain(period);
    let quota = words.next()?;
    if quota == "max" || quota == "-1" {
        return Some(None);
    }
    let quota: f64 = quota.parse().ok().filter(|q| *q > 0.0)?;
    let period: f64 = words.next()?.parse().ok().filter(|p| *p > 0.0)?;
    let cpus = quota / period;
    Some(Some(CpuLimit { cpus, words: format!("{quota} of {period} us: {cpus:.2} CPUs") }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    #[test]
    fn the_root_task_group_is_told_in_both_versions() {
        let check = |files: &[(&str, &str)], expect: Option<bool>| {
            assert_eq!(in_root_task_group(&MemoryFs::of(files).host(), 7), expect, "{files:?}");
        };
        check(&[("/proc/7/cgroup", "3:cpu,cpuacct:/\n0::/x\n")], Some(true));
        check(&[("/proc/7/cgroup", "3:cpu,cpuacct:/system.slice/a\n0::/\n")], Some(false));
        let v2 = ("/proc/7/cgroup", "0::/system.slice/a.service\n");
        check(&[v2], Some(true));
        check(&[v2, ("/sys/fs/cgroup/system.slice/cpu.weight", "100\n")], Some(false));
        check(&[v2, ("/sys/fs/cgroup/other/cpu.weight", "100\n")], Some(true));
        check(&[("/proc/7/cgroup", "garbage")], None);
        check(&[], None);
    }
}
