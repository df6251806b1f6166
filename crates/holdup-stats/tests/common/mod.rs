//! Seeded noise.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use holdup_stats::random;

pub struct Noise(random::Noise);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(random::Noise::new(seed))
    }

    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    pub fn normal(&mut self, spread: f64) -> f64 {
        spread * self.0.normal()
    }
}
