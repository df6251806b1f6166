//! The one control group of the processes under test, for the knobs that set its share of the CPUs.

use crate::KnobContext;
use crate::refused::probe_file;
use holdup_host::cgroup::{self, CpuGroup};
use holdup_model::{Availability, Problem};

const OWN_GROUP: &str = "start the server in its own group, as its service does or `systemd-run --scope`";

/// A file of the cpu controller that a knob sets, in both versions.
pub(crate) struct GroupFile {
    pub(crate) factor: &'static str,
    pub(crate) v1: &'static str,
    pub(crate) v2: &'static str,
}

impl GroupFile {
    fn refused(&self, why: impl Into<String>) -> Problem {
        Problem::host(format!("factor {}", self.factor), why).hint(OWN_GROUP)
    }

    /// The group that all processes under test are in. The root group has neither weight nor limit; setting those of
    /// several groups would set their shares against each other.
    pub(crate) fn group(&self, context: &KnobContext<'_>) -> Result<CpuGroup, Problem> {
        let mut groups: Vec<CpuGroup> = Vec::new();
        for pid in &context.pids {
            match cgroup::cpu_group(context.host, *pid) {
                Ok(Some(group)) => groups.push(group),
                Ok(None) => return Err(self.refused(format!("process {pid} is in no control group"))),
                Err(e) if e.is_gone() => {}
                Err(e) => return Err(e.into()),
            }
        }
        groups.sort();
        groups.dedup();
        match groups.as_slice() {
            [] => Err(self.refused("none of the processes under test runs")),
            // What lies above the root of the namespace has no path here, and a removed group is marked at its end.
            [group] if group.path == "/" || group.path.contains("/..") || group.path.ends_with(" (deleted)") => {
                Err(self.refused(format!(
                    "the processes under test are in the group `{}`, which is the root of what holdup sees of the \
                     groups, outside of it, or removed",
                    group.path
                )))
            }
            [group] => Ok(group.clone()),
            [first, second, ..] => Err(self.refused(format!(
                "the processes under test are in {} control groups, among them {} and {}",
                groups.len(),
                first.path,
                second.path
            ))),
        }
    }

    /// The file's path.
    pub(crate) fn path(&self, group: &CpuGroup) -> String {
        format!("{}/{}", group.folder, if group.is_v2 { self.v2 } else { self.v1 })
    }

    /// The path for the processes under test.
    ///
    /// # Errors
    /// As [`GroupFile::group`].
    pub(crate) fn path_here(&self, context: &KnobContext<'_>) -> Result<String, Problem> {
        self.group(context).map(|group| self.path(&group))
    }

    pub(crate) fn probe(&self, context: &KnobContext<'_>) -> Availability {
        let group = match self.group(context) {
            Ok(group) => group,
            Err(problem) => {
                return Availability::unavailable_but(
                    problem.why,
                    problem.hint.unwrap_or_else(|| OWN_GROUP.to_owned()),
                );
            }
        };
        let path = self.path(&group);
        let found = probe_file(context.host, &path, || {
            let parent = group.folder.rsplit_once('/').map_or("/sys/fs/cgroup", |(parent, _)| parent);
            let reason = format!("{path} does not exist: the cpu controller does not act on this group");
            if group.is_v2 {
                let remedy = format!("echo +cpu > {parent}/cgroup.subtree_control   (and in the groups above it)");
                Availability::unavailable_but(reason, remedy)
            } else {
                Availability::unavailable_but(
                    reason,
                    "use a kernel with CONFIG_FAIR_GROUP_SCHED and CONFIG_CFS_BANDWIDTH",
                )
            }
        });
        match (found, neighbours(context, &group)) {
            (Availability::Ready, Some(others @ 1..)) => Availability::Degraded {
                reason: format!(
                    "the group {} holds {others} processes beside those under test, which it acts on as well",
                    group.path
                ),
            },
            (found, _) => found,
        }
    }
}

/// How many processes of a group are not under test; `None` when it is not known.
fn neighbours(context: &KnobContext<'_>, group: &CpuGroup) -> Option<usize> {
    let text = context.host.read_text(&format!("{}/cgroup.procs", group.folder)).ok()?;
    let pids = text.lines().filter_map(|line| line.trim().parse::<u32>().ok());
    Some(pids.filter(|pid| !context.pids.contains(pid)).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn one_group_that_is_not_the_root_is_wanted() {
        let file = GroupFile { factor: "cgroup-cpu-weight", v1: "cpu.shares", v2: "cpu.weight" };
        let check = |files: &[(&str, &str)], expect: &str| {
            let host = MemoryFs::of(files).host();
            let found = file.probe(&KnobContext { host: &host, postgres: None, pids: vec![7, 8] });
            assert!(format!("{found:?}").contains(expect), "{files:?}: {found:?}");
        };
        let weight = ("/sys/fs/cgroup/a/b/cpu.weight", "100\n");
        let seven = ("/proc/7/cgroup", "0::/a/b\n");
        check(&[], "none of the processes");
        check(&[("/proc/7/cgroup", "0::/\n")], "systemd-run --scope");
        check(&[("/proc/7/cgroup", "0::/../x\n")], "outside of it");
        check(&[("/proc/7/cgroup", "0::/x (deleted)\n")], "or removed");
        check(&[("/proc/7/cgroup", "1:cpuset:/x\n")], "in no control group");
        check(&[seven, ("/proc/8/cgroup", "0::/c\n")], "2 control groups, among them /a/b and /c");
        check(&[seven], "echo +cpu > /sys/fs/cgroup/a/cgroup.subtree_control");
        check(&[seven, weight], "Ready");
        check(&[seven, weight, ("/sys/fs/cgroup/a/b/cgroup.procs", "7\n8\n")], "Ready");
        check(&[seven, weight, ("/sys/fs/cgroup/a/b/cgroup.procs", "7\n9\n")], "holds 1 processes beside");
        check(&[("/proc/7/cgroup", "3:cpu:/v\n0::/\n"), ("/sys/fs/cgroup/cpu/v/cpu.shares", "1024\n")], "Ready");
        check(&[("/proc/7/cgroup", "3:cpu:/v\n0::/\n")], "CONFIG_FAIR_GROUP_SCHED");
    }
}
