//! The Universal Scalability Law as a function; Amdahl's law is its case without coherency.

/// X(N) = γN / (1 + α(N − 1) + βN(N − 1)) (Gunther, "A General Theory of Computational
/// Scalability Based on Rational Functions", 2008).
///
/// α is the share that contention serialises, β the cost of keeping each pair coherent, γ the
/// throughput of a load of one. With β = 0 it is Amdahl's law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usl {
    /// Contention, a share.
    pub alpha: f64,
    /// Coherency, a share for each pair.
    pub beta: f64,
    /// Throughput of a load of 1, in the unit of the throughput.
    pub gamma: f64,
}

fn number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

impl Usl {
    fn denominator(&self, load: f64) -> f64 {
        1.0 + (self.alpha + self.beta * load) * (load - 1.0)
    }

    /// Throughput at a load; `None` where the formula has no positive value.
    pub fn throughput(&self, load: f64) -> Option<f64> {
        let below = self.denominator(load);
        if below > 0.0 { number(self.gamma * load / below) } else { None }
    }

    /// Mean response time at a load by Little's law, N / X(N), without think time; in the unit of
    /// one over the throughput.
    pub fn latency(&self, load: f64) -> Option<f64> {
        let below = self.denominator(load);
        if below > 0.0 && self.gamma > 0.0 { number(below / self.gamma) } else { None }
    }

    /// The load at which the response time is `latency`: the larger root of
    /// βN² + (α − β)N + 1 − α − γR = 0. `None` where no load above zero has it.
    pub fn load_at_latency(&self, latency: f64) -> Option<f64> {
        let linear = self.alpha - self.beta;
        let constant = 1.0 - self.alpha - self.gamma * latency;
        let load = if self.beta == 0.0 {
            -constant / linear
        } else {
            let root = (linear * linear - 4.0 * self.beta * constant).sqrt();
            // The form that does not subtract two large numbers when β is small.
            if linear > 0.0 { -2.0 * constant / (linear + root) } else { (root - linear) / (2.0 * self.beta) }
        };
        number(load).filter(|n| *n > 0.0)
    }

    /// The load of the largest throughput, √((1 − α)/β); `None` without coherency cost (throughput
    /// never falls) and with α ≥ 1 (it falls from the first on).
    pub fn peak_load(&self) -> Option<f64> {
        if self.beta > 0.0 && self.alpha < 1.0 { number(((1.0 - self.alpha) / self.beta).sqrt()) } else { None }
    }

    /// The largest throughput.
    pub fn peak_throughput(&self) -> Option<f64> {
        self.throughput(self.peak_load()?)
    }

    /// The ceiling that contention alone would set, γ/α: the asymptote of Amdahl's law.
    pub fn contention_limit(&self) -> Option<f64> {
        if self.alpha > 0.0 { number(self.gamma / self.alpha) } else { None }
    }
}
