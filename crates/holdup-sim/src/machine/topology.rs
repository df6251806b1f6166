//! CPUs, and how far they are from one another.

/// CPUs in cores, cores in groups that share a last level cache, these in nodes. CPUs are numbered node by node; the
/// threads of a core stand side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topology {
    /// CPUs of a core.
    pub smt: u32,
    /// Cores that share a last level cache.
    pub cores: u32,
    /// Last level caches of a node.
    pub llcs: u32,
    /// Nodes.
    pub nodes: u32,
}

/// How far a cache line has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// It is there.
    Same,
    /// To the other thread of the core.
    Core,
    /// To another core of the same last level cache.
    Llc,
    /// To another last level cache of the node.
    Node,
    /// To another node.
    Far,
}

impl Topology {
    /// All CPUs.
    pub fn cpus(&self) -> u32 {
        self.smt * self.cores * self.llcs * self.nodes
    }

    /// CPUs that share a last level cache.
    pub fn cpus_of_llc(&self) -> u32 {
        self.smt * self.cores
    }

    /// CPUs of a node.
    pub fn cpus_of_node(&self) -> u32 {
        self.cpus_of_llc() * self.llcs
    }

    /// The last level cache of a CPU.
    pub fn llc_of(&self, cpu: u32) -> u32 {
        cpu / self.cpus_of_llc()
    }

    /// The node of a CPU.
    pub fn node_of(&self, cpu: u32) -> u32 {
        cpu / self.cpus_of_node()
    }

    /// How far two CPUs are from each other.
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        if a == b {
            Distance::Same
        } else if a / self.smt == b / self.smt {
            Distance::Core
        } else if self.llc_of(a) == self.llc_of(b) {
            Distance::Llc
        } else if self.node_of(a) == self.node_of(b) {
            Distance::Node
        } else {
            Distance::Far
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_follow_the_levels() {
        let topology = Topology { smt: 2, cores: 4, llcs: 2, nodes: 2 };
        assert_eq!(topology.cpus(), 32);
        let check = |a, b, expect| assert_eq!(topology.distance(a, b), expect, "{a} {b}");
        check(3, 3, Distance::Same);
        check(2, 3, Distance::Core);
        check(1, 2, Distance::Llc);
        check(7, 8, Distance::Node);
        check(15, 16, Distance::Far);
        check(31, 0, Distance::Far);
    }
}
