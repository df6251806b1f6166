//! What a plan needs of the nodes of a cluster.

use serde::{Deserialize, Serialize};

/// `[nodes]` of a plan: what a node must have that runs a session of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// The architecture, as `uname -m` names it; `None` for that of holdup.
    pub arch: Option<String>,
    /// The fewest CPUs.
    pub cpus: Option<u32>,
    /// The least memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Features that the cluster's administrator named; a node must have all of them.
    pub features: Vec<String>,
}
