//! Which CPUs share what.

use crate::{Host, cpu_list};

/// A CPU that this process may use, with those that it shares something with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuTopology {
    /// Its number.
    pub cpu: u32,
    /// The CPUs of its core, itself included; empty when it is not known.
    pub core: Vec<u32>,
    /// The CPUs that share its last level cache, itself included; empty when it is not known.
    pub llc: Vec<u32>,
    /// The CPUs of its memory node, itself included; empty when it is not known.
    pub node: Vec<u32>,
}

/// The CPUs that this process may use, ascending, with what each shares: /sys/devices/system/cpu/cpuN/topology
/// (`core_cpus_list`, before Linux 5.0 `thread_siblings_list`), …/cache (the highest level) and …/nodeN/cpulist. The
/// lists hold allowed CPUs only.
pub fn cpu_topologies(host: &Host) -> Vec<CpuTopology> {
    let allowed = allowed(host);
    let only_allowed = |mut cpus: Vec<u32>| {
        cpus.retain(|cpu| allowed.contains(cpu));
        cpus
    };
    let list = |path: &str| host.read_value(path).ok().and_then(|text| cpu_list(&text)).map(only_allowed);
    let place = |cpu: &u32| {
        let base = format!("/sys/devices/system/cpu/cpu{cpu}");
        let core = list(&format!("{base}/topology/core_cpus_list"))
            .or_else(|| list(&format!("{base}/topology/thread_siblings_list")));
        let level = |index: usize| {
            let level: u32 = host.read_value(&format!("{base}/cache/index{index}/level")).ok()?.parse().ok()?;
            Some((level, list(&format!("{base}/cache/index{index}/shared_cpu_list"))?))
        };
        let llc = (0..8).map_while(level).max_by_key(|(level, _)| *level).map(|(_, cpus)| cpus);
        let nodes = host.list(&base).unwrap_or_default();
        let node = nodes.iter().find(|name| {
            name.strip_prefix("node").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        });
        let node = node.and_then(|node| list(&format!("{base}/{node}/cpulist")));
        CpuTopology {
            cpu: *cpu,
            core: core.unwrap_or_default(),
            llc: llc.unwrap_or_default(),
            node: node.unwrap_or_default(),
        }
    };
    allowed.iter().map(place).collect()
}

/// The CPUs that this process may use; in a captured tree those that were online.
fn allowed(host: &Host) -> Vec<u32> {
    let affinity = if host.is_live() { host.affinity(std::process::id()).ok() } else { None };
    affinity.or_else(|| crate::online_cpus(host)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    #[test]
    fn a_captured_machine_has_what_its_cpus_share() {
        let fs = MemoryFs::new();
        fs.put("/sys/devices/system/cpu/online", "0-3\n");
        for cpu in 0..4 {
            let base = format!("/sys/devices/system/cpu/cpu{cpu}");
            fs.put(&format!("{base}/topology/core_cpus_list"), if cpu % 2 == 0 { "0,2\n" } else { "1,3\n" });
            fs.put(&format!("{base}/cache/index0/level"), "1\n");
            fs.put(&format!("{base}/cache/index0/shared_cpu_list"), format!("{cpu}\n"));
            fs.put(&format!("{base}/cache/index1/level"), "3\n");
            fs.put(&format!("{base}/cache/index1/shared_cpu_list"), "0-7\n");
            fs.put(&format!("{base}/node0/cpulist"), "0-3\n");
        }
        let places = cpu_topologies(&fs.host());
        assert_eq!(places.len(), 4);
        assert_eq!(places[1], CpuTopology { cpu: 1, core: vec![1, 3], llc: vec![0, 1, 2, 3], node: vec![0, 1, 2, 3] });
    }

    #[test]
    fn unknown_topology_is_empty() {
        let host = MemoryFs::of(&[("/sys/devices/system/cpu/online", "0-1\n")]).host();
        let bare = |cpu| CpuTopology { cpu, core: Vec::new(), llc: Vec::new(), node: Vec::new() };
        assert_eq!(cpu_topologies(&host), [bare(0), bare(1)]);
        assert_eq!(cpu_topologies(&MemoryFs::new().host()), []);
    }

    #[test]
    fn this_machine_has_a_cpu() {
        let places = cpu_topologies(&Host::real());
        assert!(!places.is_empty());
        assert!(places.iter().all(|p| p.core.is_empty() || p.core.contains(&p.cpu)), "{places:?}");
    }
}
