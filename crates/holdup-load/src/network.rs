//! What lies between the two sides of a workload.

use holdup_host::Host;
use holdup_host::network::{Network, Options, Topology};
use holdup_model::Problem;

/// The network of an arm, not made yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkSpec {
    /// What lies between the two ends.
    pub topology: Topology,
    mtu: Option<u32>,
}

impl Default for NetworkSpec {
    fn default() -> Self {
        NetworkSpec::HOST
    }
}

impl NetworkSpec {
    /// The host's own.
    pub const HOST: NetworkSpec = NetworkSpec { topology: Topology::Host, mtu: None };

    /// A network by its word in plans.
    pub fn of(network: &str, mtu: Option<u32>) -> Result<Self, Problem> {
        Ok(NetworkSpec { topology: Topology::parse(network)?, mtu })
    }

    /// Makes it; dropping the network removes it.
    ///
    /// # Errors
    /// Of kind `Host` when it cannot be made here.
    pub fn make(&self, host: &Host) -> Result<Network, Problem> {
        Network::make(self.topology, Options { mtu: self.mtu }, host)
    }
}
