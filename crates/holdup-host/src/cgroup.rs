//! Control groups, as far as they bear on scheduling.

use crate::Host;

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
