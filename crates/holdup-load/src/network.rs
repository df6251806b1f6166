//! What lies between the two sides of a workload.

use crate::parameters::whole_or_none;
use holdup_host::Host;
use holdup_host::network::{Network, Options, Topology};
use holdup_model::{Parameter, ParameterKind, Parameters, Problem};

/// The words of plans.
const WORDS: &[&str] = &["host", "loopback", "veth", "bridge", "openvswitch"];

/// The parameter that names the network.
pub const NETWORK: Parameter = Parameter {
    name: "network",
    kind: ParameterKind::Choice(WORDS),
    default: Some("host"),
    required: false,
    summary: "what lies between the two ends; all but host is made for the trial",
    simulated: true,
};

/// The parameter that sets the MTU of a network that is made.
pub const MTU: Parameter = Parameter {
    name: "mtu",
    kind: ParameterKind::Integer { min: 68, max: 65_535 },
    default: None,
    required: false,
    summary: "MTU of that network's links in bytes",
    simulated: true,
};

/// The network of an arm, not made yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkSpec {
    /// What lies between the two ends.
    pub topology: Topology,
    mtu: Option<u32>,
}

impl NetworkSpec {
    /// The host's own.
    pub const HOST: NetworkSpec = NetworkSpec { topology: Topology::Host, mtu: None };

    /// Reads [`NETWORK`] and [`MTU`].
    ///
    /// # Errors
    /// When a value is missing or unknown.
    pub fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let mtu = whole_or_none(parameters, "mtu", 68, 65_535)?;
        Ok(NetworkSpec {
            topology: Topology::parse(parameters.required_text("network")?)?,
            mtu: mtu.and_then(|mtu| u32::try_from(mtu).ok()),
        })
    }

    /// Makes it; dropping the network removes it.
    ///
    /// # Errors
    /// Of kind `Host` when it cannot be made here.
    pub fn make(&self, host: &Host) -> Result<Network, Problem> {
        Network::make(self.topology, Options { mtu: self.mtu }, host)
    }
}
