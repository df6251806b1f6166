//! Little's law: clients = throughput × (latency + think time).

use crate::NoEstimate;

/// How far the two sides may lie apart before a trial is named: 5 %. The mean of the latency covers
/// the transactions that ended inside the window, the throughput too, so the edges of the window
/// cost a few transactions per client; 5 % holds them for any window of 20 transactions per client.
pub const LITTLES_LAW_TOLERANCE: f64 = 0.05;

/// Both sides of Little's law in a closed loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LittlesLaw {
    /// Clients that there were.
    pub expected: f64,
    /// Clients that throughput and latency come to.
    pub found: f64,
    /// `found / expected − 1`.
    pub deviation: f64,
    /// True if the deviation is within [`LITTLES_LAW_TOLERANCE`].
    pub holds: bool,
}

/// Checks N = X · (R + Z), all times in seconds.
///
/// # Errors
/// When a number is missing its meaning: not finite, negative, or no clients.
pub fn littles_law(
    clients: f64,
    throughput_per_s: f64,
    mean_latency_s: f64,
    think_s: f64,
) -> Result<LittlesLaw, NoEstimate> {
    for (name, value) in [("throughput", throughput_per_s), ("mean latency", mean_latency_s), ("think time", think_s)] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(NoEstimate::new(format!("{name} is {value}")));
        }
    }
    if !(clients.is_finite() && clients > 0.0) {
        return Err(NoEstimate::new(format!("{clients} clients")));
    }
    let found = throughput_per_s * (mean_latency_s + think_s);
    let deviation = found / clients - 1.0;
    if !deviation.is_finite() {
        return Err(NoEstimate::new("the product of throughput and latency is too large for arithmetic"));
    }
    Ok(LittlesLaw { expected: clients, found, deviation, holds: deviation.abs() <= LITTLES_LAW_TOLERANCE })
}
