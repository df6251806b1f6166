//! Seeded random numbers, for simulations.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A seeded source: the same seed, the same numbers.
#[derive(Debug, Clone)]
pub struct Noise(Pcg64Mcg);

impl Noise {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Noise(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Between 0 and 1, never one of them.
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal (Box and Muller, Annals of Mathematical Statistics 29, 1958).
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// One or minus one.
    pub fn sign(&mut self) -> f64 {
        if self.0.next_u64() >> 63 == 0 { 1.0 } else { -1.0 }
    }
}
