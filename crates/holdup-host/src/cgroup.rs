//! Control groups, as far as they bear on scheduling.

use crate::{Host, HostError};
use holdup_model::survey::Reading;

/// The most bytes of /proc/PID/cgroup, which has a line for each hierarchy.
const LONGEST: usize = 16 << 10;
/// The longest path (PATH_MAX); in a captured tree a line can have any length, and each level of a path is looked at.
const LONGEST_PATH: usize = 4096;

/// The folder of a line of /proc/PID/cgroup when that line is about the cpu controller, and whether it is of
/// version 2. Paths are those under the mounts of systemd below /sys/fs/cgroup.
pub fn cpu_folder(line: &str) -> Option<(String, bool)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) =
        (parts.next()?, parts.next()?, parts.next().filter(|path| path.len() <= LONGEST_PATH)?);
    match controllers {
        "" => Some((format!("/sys/fs/cgroup{path}"), true)),
        list if list.split(',').any(|c| c == "cpu") => Some((format!("/sys/fs/cgroup/{list}{path}"), false)),
        _ => None,
    }
}

/// A folder and those above it, down to the mount of control groups.
pub fn upwards(folder: &str) -> Vec<String> {
    let mut levels = Vec::new();
    let mut rest = folder.trim_end_matches('/');
    while rest.len() > "/sys/fs/cgroup".len() {
        levels.push(rest.to_owned());
        rest = rest.rsplit_once('/').map_or("", |(above, _)| above);
    }
    levels.push("/sys/fs/cgroup".to_owned());
    levels
}

/// The control group by which a process gets CPU time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuGroup {
    /// Its folder below the mounts of systemd in /sys/fs/cgroup.
    pub folder: String,
    /// Its path as /proc/PID/cgroup gives it: from the root of the hierarchy, or of the cgroup namespace.
    pub path: String,
    /// True if it is of version 2.
    pub is_v2: bool,
}

/// The control group of a process whose cpu controller it is under: that of version 1 where the controller is mounted
/// so, else that of version 2. `None` where the kernel has no control groups.
///
/// # Errors
/// When the process has ended, or its groups cannot be read.
pub fn cpu_group(host: &Host, pid: u32) -> Result<Option<CpuGroup>, HostError> {
    let text = host.read_head(&format!("/proc/{pid}/cgroup"), LONGEST)?;
    let groups = text.lines().filter_map(|line| {
        let (folder, is_v2) = cpu_folder(line)?;
        Some(CpuGroup { folder, path: line.splitn(3, ':').nth(2)?.to_owned(), is_v2 })
    });
    Ok(groups.min_by_key(|group| group.is_v2))
}

/// The CPUs that the cpuset of a process has, as the kernel lists them (`0-3,8`); `None` when it is not known.
///
/// In version 2 a group without its own cpuset has that of the nearest group above it.
pub fn cpuset(host: &Host, pid: u32) -> Option<String> {
    let text = host.read_head(&format!("/proc/{pid}/cgroup"), LONGEST).ok()?;
    let groups = || text.lines().filter_map(|line| line.splitn(3, ':').skip(1).collect::<Vec<_>>().try_into().ok());
    let v1 = groups().find(|[controllers, _]: &[&str; 2]| controllers.split(',').any(|c| c == "cpuset"));
    if let Some([controllers, path]) = v1 {
        return host.read_value(&format!("/sys/fs/cgroup/{controllers}{path}/cpuset.effective_cpus")).ok();
    }
    let [_, path] = groups().find(|[controllers, _]| controllers.is_empty())?;
    let levels = upwards(&format!("/sys/fs/cgroup{path}"));
    levels.iter().find_map(|level| host.read_value(&format!("{level}/cpuset.cpus.effective")).ok())
}

/// True if a process is scheduled in the root task group, the only one in which autogroup acts
/// (`kernel/sched/autogroup.c:task_wants_autogroup`, v6.18). `None` when it is not known.
///
/// In version 2 a group is its own task group where the cpu controller is enabled for it,
/// which is where `cpu.weight` exists.
pub fn in_root_task_group(host: &Host, pid: u32) -> Option<bool> {
    let text = host.read_head(&format!("/proc/{pid}/cgroup"), LONGEST).ok()?;
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
    pub cpus: f64,
    /// As it is written: `50000 of 100000 us: 0.50 CPUs`.
    pub words: String,
}

/// The tightest CPU limit (`cpu.max`, `cpu.cfs_quota_us`) on the way from the control groups in `memberships` up to the
/// root; `None` inside: there is none. `memberships` is the text of a /proc/PID/cgroup, its lines parted by white space
/// of any kind.
pub fn cpu_limit(host: &Host, memberships: &str) -> Reading<Option<CpuLimit>> {
    let memberships = &memberships[..memberships.floor_char_boundary(LONGEST)];
    let mut tightest: Option<(CpuLimit, String)> = None;
    let mut seen = 0;
    let folders = || memberships.split([' ', '\n']).filter_map(cpu_folder);
    let is_v2_alone = folders().all(|(_, is_v2)| is_v2);
    for (folder, is_v2) in folders() {
        // Where the group itself can be seen, files that are missing mean that its controller is off: there is no limit.
        seen += usize::from(is_v2_alone && host.exists(&format!("{folder}/cgroup.procs").replace("//", "/")));
        for level in upwards(&folder) {
            let path = format!("{level}/{}", if is_v2 { "cpu.max" } else { "cpu.cfs_quota_us" });
            let text = match host.read_value(&path) {
                Ok(text) => text,
                Err(e) if e.kind == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Reading::unknown(path, e.message),
            };
            let period = if is_v2 { None } else { host.read_value(&format!("{level}/cpu.cfs_period_us")).ok() };
            let Some(limit) = limit_of(&text, period.as_deref()) else {
                return Reading::unknown(path, format!("`{}` is no quota", crate::text::shown(&text)));
            };
            seen += 1;
            let Some(limit) = limit else { continue };
            if tightest.as_ref().is_none_or(|(least, _)| limit.cpus < least.cpus) {
                tightest = Some((limit, path));
            }
        }
    }
    match tightest {
        Some((limit, path)) => Reading::found(Some(limit), path),
        None if seen > 0 => Reading::found(None, "cpu.max or cpu.cfs_quota_us, up to the root"),
        None => Reading::unknown("/sys/fs/cgroup", "no file cpu.max or cpu.cfs_quota_us on the way to the root"),
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
    fn a_group_without_the_controller_has_no_limit_and_one_that_cannot_be_seen_may_have() {
        let root = ("/sys/fs/cgroup/cgroup.procs", "7\n");
        let own = ("/sys/fs/cgroup/a/cgroup.procs", "7\n");
        let limit = |files: &[(&str, &str)], line: &str| cpu_limit(&MemoryFs::of(files).host(), line).value();
        assert_eq!(limit(&[root], "0::/\n"), Some(None));
        assert_eq!(limit(&[root, own], "0::/a\n"), Some(None));
        assert_eq!(limit(&[root], "0::/a\n"), None);
        let fs = MemoryFs::of(&[own, ("/sys/fs/cgroup/a/cpu.max", "max 100000\n")]);
        fs.refuse("read", "/sys/fs/cgroup/a/cpu.max", libc::EACCES);
        assert_eq!(cpu_limit(&fs.host(), "0::/a\n").value(), None);
    }

    #[test]
    fn version_1_goes_before_version_2() {
        let check = |lines: &str, expect: Option<(&str, &str, bool)>| {
            let found = cpu_group(&MemoryFs::of(&[("/proc/7/cgroup", lines)]).host(), 7).expect("it runs");
            let found = found.as_ref().map(|g| (g.folder.as_str(), g.path.as_str(), g.is_v2));
            assert_eq!(found, expect, "{lines:?}");
        };
        check("0::/a\n3:cpu,cpuacct:/x:y\n", Some(("/sys/fs/cgroup/cpu,cpuacct/x:y", "/x:y", false)));
        check("4:cpuset:/b\n0::/a\n", Some(("/sys/fs/cgroup/a", "/a", true)));
        check("4:cpuset:/b\n", None);
        check("garbage", None);
        assert!(cpu_group(&MemoryFs::new().host(), 7).expect_err("no such process").is_gone());
    }

    #[test]
    fn the_cpuset_is_found_in_both_versions() {
        let check = |files: &[(&str, &str)], expect: Option<&str>| {
            assert_eq!(cpuset(&MemoryFs::of(files).host(), 7).as_deref(), expect, "{files:?}");
        };
        let v1 = ("/sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "1-3\n");
        let v2 = ("/sys/fs/cgroup/a/cpuset.cpus.effective", "0-2\n");
        check(&[("/proc/7/cgroup", "4:cpuset:/a\n0::/a/b\n"), v1, v2], Some("1-3"));
        check(&[("/proc/7/cgroup", "0::/a/b\n"), v1, v2], Some("0-2"));
        check(&[("/proc/7/cgroup", "0::/c\n"), v1, v2], None);
        check(&[("/proc/7/cgroup", "garbage"), v1, v2], None);
        check(&[], None);
    }

    #[test]
    fn the_root_task_group_is_recognised_in_both_versions() {
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
