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
    pub fn cpus(&self) -> u32 {
        self.smt * self.cores * self.llcs * self.nodes
    }

    /// CPUs that share a last level cache.
    pub fn cpus_of_llc(&self) -> u32 {
        self.smt * self.cores
    }

    /// The same with another number of CPUs: as many caches as are full, of the size that they have; of a machine with one
    /// cache, a cache of another size.
    ///
    /// # Errors
    /// With the sizes that are possible, when there is no such topology.
    pub(crate) fn with_cpus(self, cpus: u32) -> Result<Topology, String> {
        let of_llc = self.cpus_of_llc();
        let is_one = self.llcs * self.nodes == 1;
        if cpus <= of_llc || is_one {
            let smt = if cpus.is_multiple_of(self.smt) { self.smt } else { 1 };
            return Ok(Topology { smt, cores: cpus / smt, llcs: 1, nodes: 1 });
        }
        let llcs = cpus / of_llc;
        if !cpus.is_multiple_of(of_llc) {
            return Err(format!("above {of_llc} it must be a multiple of {of_llc}, the CPUs of a cache"));
        }
        let nodes = if llcs.is_multiple_of(self.llcs) { llcs / self.llcs } else { 1 };
        Ok(Topology { llcs: llcs / nodes, nodes, ..self })
    }

    pub fn cpus_of_node(&self) -> u32 {
        self.cpus_of_llc() * self.llcs
    }

    /// The last level cache of a CPU.
    pub fn llc_of(&self, cpu: u32) -> u32 {
        cpu / self.cpus_of_llc()
    }

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

    #[test]
    fn another_number_of_cpus_keeps_the_size_of_caches() {
        let shown = |of: Topology, cpus| {
            of.with_cpus(cpus).map(|t| {
                assert_eq!(t.cpus(), cpus);
                (t.smt, t.cores, t.llcs, t.nodes)
            })
        };
        let large = Topology { smt: 2, cores: 4, llcs: 2, nodes: 2 };
        assert_eq!(shown(large, 1), Ok((1, 1, 1, 1)));
        assert_eq!(shown(large, 6), Ok((2, 3, 1, 1)));
        assert_eq!(shown(large, 24), Ok((2, 4, 3, 1)));
        assert_eq!(shown(large, 64), Ok((2, 4, 2, 4)));
        assert!(shown(large, 20).is_err());
        assert_eq!(shown(Topology { smt: 1, cores: 2, llcs: 1, nodes: 1 }, 3), Ok((1, 3, 1, 1)));
    }
}
