//! Worlds in which the truth is known: noise of several shapes, put into blocks and sessions.

use holdup_stats::BlockPair;

pub use holdup_stats::random::Noise as Dice;

/// The shape of the noise of a single result, always with a coefficient of variation near 2 % unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Normal around the mean, 2 %.
    Normal,
    /// Log-normal with a spread of 20 %: strongly skewed results.
    LogNormal,
    /// 3 of 10 results are 4 % lower: two modes.
    Bimodal,
    /// Student's t with 3 degrees of freedom: now and then a result far off.
    HeavyTailed,
    /// Exponential losses with a mean of 2 %: skewed to one side.
    Stalls,
    /// Each result resembles the one run before it (AR(1), 0.6).
    Autocorrelated,
    /// 1 of 5 results is 30 % lower, as where a neighbour takes the CPUs; the others are normal, 2 %.
    OneInFive,
}

/// Every shape of ordinary noise, with its name in tables.
pub const SHAPES: [(Shape, &str); 6] = [
    (Shape::Normal, "normal"),
    (Shape::LogNormal, "log-normal"),
    (Shape::Bimodal, "bimodal"),
    (Shape::HeavyTailed, "heavy-tailed"),
    (Shape::Stalls, "stalls"),
    (Shape::Autocorrelated, "autocorrelated"),
];

/// How pairs come about.
#[derive(Debug, Clone, Copy)]
pub struct World {
    /// The noise of a single result.
    pub shape: Shape,
    pub sessions: u32,
    /// Blocks in each session.
    pub blocks: u32,
    /// The true ratio of B to A.
    pub ratio: f64,
    /// What a block shifts in both arms: standard deviation on the log scale.
    pub block_spread: f64,
    /// What a session shifts in the ratio: standard deviation on the log scale.
    pub session_spread: f64,
}

impl World {
    /// One session of independent blocks without any effect.
    pub fn plain(shape: Shape, blocks: u32) -> Self {
        World { shape, sessions: 1, blocks, ratio: 1.0, block_spread: 0.0, session_spread: 0.0 }
    }

    /// All results of a run, in blocks of A and B in random order.
    pub fn pairs(&self, dice: &mut Dice) -> Vec<BlockPair> {
        let mut last = dice.normal();
        let mut all = Vec::with_capacity((self.sessions * self.blocks) as usize);
        for session in 0..self.sessions {
            // A session shifts all results, and the ratio as well.
            let (level, shift) = (0.05 * dice.normal() * f64::from(u8::from(self.sessions > 1)), dice.normal());
            let shift = shift * self.session_spread;
            for b in 0..self.blocks {
                let block = session * self.blocks + b;
                let shared = level + dice.normal() * self.block_spread;
                let first = self.noise(dice, &mut last);
                let second = self.noise(dice, &mut last);
                let (a, b) = if dice.uniform() < 0.5 { (first, second) } else { (second, first) };
                let scale = 1000.0 * shared.exp();
                all.push(BlockPair { session, block, a: scale * a, b: scale * b * self.ratio * shift.exp() });
            }
        }
        all
    }

    /// The noise of one result as a factor; its geometric mean is the same for both arms.
    fn noise(&self, dice: &mut Dice, last: &mut f64) -> f64 {
        match self.shape {
            Shape::Normal => 1.0 + 0.02 * dice.normal(),
            Shape::LogNormal => (0.2 * dice.normal()).exp(),
            Shape::Bimodal => (1.0 + 0.006 * dice.normal()) * if dice.uniform() < 0.3 { 0.96 } else { 1.0 },
            Shape::HeavyTailed => {
                let chi: f64 = (0..3).map(|_| dice.normal().powi(2)).sum();
                (0.0115 * dice.normal() / (chi / 3.0).sqrt()).exp()
            }
            Shape::Stalls => (0.02 * dice.uniform().ln()).exp() * (1.0 + 0.002 * dice.normal()),
            Shape::Autocorrelated => {
                *last = 0.6 * *last + 0.8 * dice.normal();
                1.0 + 0.02 * *last
            }
            Shape::OneInFive => (1.0 + 0.02 * dice.normal()) * if dice.uniform() < 0.2 { 0.7 } else { 1.0 },
        }
    }
}

/// A seed for a cell of a table, from its names: FNV-1a.
pub fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
