//! The machine repairman: N clients that think, one server that serves one of them at a time.

use crate::NoEstimate;

/// More clients than this are not computed.
pub const MAX_CLIENTS: f64 = 100_000.0;

/// A closed queue (M/M/1//N): each of N clients thinks for `think_s` on average, then waits for
/// one server and is served for `service_s`. Both are in the unit of one over the throughput
/// (seconds where throughput is per second).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repairman {
    /// Mean service time.
    pub service_s: f64,
    /// Mean think time.
    pub think_s: f64,
}

impl Repairman {
    /// Throughput of 0, 1, 2, … `up_to` clients by exact mean value analysis
    /// (Reiser and Lavenberg 1980): R = s(1 + Q), X = n/(R + z), Q = XR.
    fn table(&self, up_to: usize) -> Option<Vec<f64>> {
        let mut table = Vec::with_capacity(up_to + 1);
        table.push(0.0);
        let (mut waiting, mut last) = (0.0, 0.0);
        for n in 1..=up_to {
            let response = self.service_s * (1.0 + waiting);
            let x = n as f64 / (response + self.think_s);
            if !(x.is_finite() && x >= 0.0) {
                return None;
            }
            waiting = x * response;
            table.push(x);
            // A full server serves no more with more clients; equal to the last bit is full.
            if x == last {
                table.resize(up_to + 1, x);
                break;
            }
            last = x;
        }
        Some(table)
    }

    /// Throughputs at several loads. Loads between whole numbers of clients lie on the line between them.
    pub(super) fn throughputs(&self, loads: &[f64]) -> Option<Vec<f64>> {
        let most = loads.iter().copied().fold(0.0, f64::max);
        if !loads.iter().all(|l| (0.0..=MAX_CLIENTS).contains(l)) {
            return None;
        }
        let table = self.table(most.ceil() as usize)?;
        let at = |load: &f64| {
            let (low, high) = (table[load.floor() as usize], table[load.ceil() as usize]);
            low + (high - low) * load.fract()
        };
        Some(loads.iter().map(at).collect())
    }

    /// Throughput at a load; `None` for loads below 0 or above [`MAX_CLIENTS`], and where both times are zero.
    pub fn throughput(&self, load: f64) -> Option<f64> {
        self.throughputs(&[load]).map(|x| x[0])
    }

    /// How likely it is that 0, 1, … `clients` are at the server (M/M/1//N):
    /// Pₖ = P₀ · n!/(n − k)! · (s/z)ᵏ. Throughput is (1 − P₀)/s, as mean value analysis gives it too.
    ///
    /// # Errors
    /// With times that are negative, not numbers, or both zero, and with too many clients.
    pub fn states(&self, clients: u32) -> Result<Vec<f64>, NoEstimate> {
        let sound = |t: f64| t.is_finite() && t >= 0.0;
        if !(sound(self.service_s) && sound(self.think_s) && self.service_s + self.think_s > 0.0) {
            return Err(NoEstimate::new("service and think time must be numbers from zero on, not both zero"));
        }
        if f64::from(clients) > MAX_CLIENTS {
            return Err(NoEstimate::new("more clients than are computed"));
        }
        // On the log scale, because n!/(n − k)! overflows for n above 170; −∞ is a state that never is.
        let ratio = self.service_s.ln() - self.think_s.ln();
        let mut logs = Vec::with_capacity(clients as usize + 1);
        let mut log = 0.0;
        for k in 0..=clients {
            logs.push(if self.think_s == 0.0 && k < clients { f64::NEG_INFINITY } else { log });
            if self.think_s > 0.0 {
                log += f64::from(clients - k).ln() + ratio;
            }
        }
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|l| (l - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        Ok(weights.iter().map(|w| w / total).collect())
    }

    /// The ceiling, 1/s.
    pub fn limit(&self) -> Option<f64> {
        Some(1.0 / self.service_s).filter(|x| x.is_finite() && *x > 0.0)
    }
}
