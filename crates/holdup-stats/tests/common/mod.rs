//! Seeded noise.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

pub struct Noise(Pcg64Mcg);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(Pcg64Mcg::seed_from_u64(seed))
    }

    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Box and Muller.
    pub fn normal(&mut self, spread: f64) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        spread * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}
