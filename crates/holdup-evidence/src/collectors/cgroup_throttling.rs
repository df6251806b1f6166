//! Throttling of the control group under test.

use crate::CollectContext;
use crate::reading::{Produces, TwoReadings, WindowStats, increase};
use holdup_model::{EvidenceItem, Meta};
use std::collections::BTreeMap;
use std::time::Duration;
pub(crate) static CGROUP_THROTTLING: &TwoReadings<String, BTreeMap<String, u64>> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| find(context).map(drop),
    remedy: None,
    open: find,
    read: |path, reader| Ok(numbers(&reader.text(path)?)),
    compare,
};

static META: Meta = Meta {
    id: "cgroup-throttling",
    summary: "periods in which a CPU limit of the control group held tasks up",
    docs: "From cpu.stat of the control group of the first process under test: how many enforcement periods passed, in \
           how many the group was throttled, and for how long in all. Version 2 has the time in us (throttled_usec), \
           version 1 in ns (throttled_time). A limit on a group above it is not seen.",
    references: &[
        "kernel/sched/core.c:cpu_cfs_stat_show, cpu_extra_stat_show (v6.18)",
        "Documentation/scheduler/sched-bwc.rst (v6.18)",
    ],
};

const PRODUCES: Produces = &[
    ("cgroup_periods", "1", "enforcement periods of the CPU limit"),
    ("cgroup_throttled_periods", "1", "periods in which the group was throttled"),
    ("cgroup_throttled_share", "share", "time throttled as a share of the window; above 1 with several CPUs"),
];

/// Where cpu.stat may be for the lines of /proc/PID/cgroup: version 1 with the cpu controller first.
fn candidates(cgroup: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let path = path.trim_end_matches('/');
        if controllers.split(',').any(|c| c == "cpu") {
            paths.insert(0, format!("/sys/fs/cgroup/{controllers}{path}/cpu.stat"));
        } else if controllers.is_empty() {
            paths.push(format!("/sys/fs/cgroup{path}/cpu.stat"));
        }
    }
    paths
}

pub(crate) fn numbers(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|l| l.split_once(' '))
        .filter_map(|(k, v)| Some((k.to_owned(), v.trim().parse().ok()?)))
        .collect()
}

/// The file with the periods of the first process under test, or of this one where none is known yet; or why there is none.
fn find(context: &CollectContext) -> Result<String, String> {
    candidates(&context.control_groups()?)
        .into_iter()
        .find(|path| context.host.read_text(path).is_ok_and(|text| numbers(&text).contains_key("nr_periods")))
        .ok_or_else(|| "the control group under test has no CPU limit (no nr_periods in its cpu.stat)".to_owned())
}

fn compare(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    let more = |key: &str| before.get(key).zip(after.get(key)).and_then(|(b, a)| increase(*b, *a));
    for (name, key) in [("cgroup_periods", "nr_periods"), ("cgroup_throttled_periods", "nr_throttled")] {
        stats.items.push(match more(key) {
            Some(count) => EvidenceItem::new(name, "1", count as f64),
            None => EvidenceItem::absent(name, "1", format!("cpu.stat has no usable {key}")),
        });
    }
    let throttled_ns = more("throttled_usec").map(|us| us as f64 * 1e3).or(more("throttled_time").map(|ns| ns as f64));
    stats.items.push(match throttled_ns {
        Some(ns) => EvidenceItem::new("cgroup_throttled_share", "share", ns / elapsed.as_nanos().max(1) as f64),
        None => EvidenceItem::absent("cgroup_throttled_share", "share", "cpu.stat has no throttled time"),
    });
    stats
}

#[cfg(test)]
mod tests {
    use super::candidates;

    #[test]
    fn both_versions_of_control_groups_are_looked_for() {
        assert_eq!(candidates("0::/system.slice/pg.service\n"), ["/sys/fs/cgroup/system.slice/pg.service/cpu.stat"]);
        assert_eq!(
            candidates("4:memory:/x\n1:cpu,cpuacct:/db\n0::/\n"),
            ["/sys/fs/cgroup/cpu,cpuacct/db/cpu.stat", "/sys/fs/cgroup/cpu.stat"]
        );
        assert!(candidates("garbage").is_empty());
    }
}
