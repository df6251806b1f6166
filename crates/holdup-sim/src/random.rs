//! Random numbers that are the same on every machine.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use std::sync::LazyLock;

/// A source of random numbers, made from a seed.
#[derive(Debug, Clone)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The numbers of a seed. `stream` distinguishes several sources of one seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let state = u128::from(mixed(seed)) << 64 | u128::from(mixed(stream ^ 0xA076_1D64_78BD_642F));
        let mut random = Random(Pcg64Mcg::new(state));
        // The first output of a multiplicative generator still shows the low bits of its state.
        random.word();
        random
    }

    /// 64 random bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which must not be 0. The bias is below bound / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        below(self.word(), bound)
    }

    /// A number in (0, 1].
    #[inline]
    pub fn share(&mut self) -> f64 {
        share(self.word())
    }

    /// An exponentially distributed number with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -log(self.share())
    }
}

#[inline]
pub(crate) fn below(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

#[inline]
fn share(word: u64) -> f64 {
    ((word >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The random numbers of one task: SplitMix64 in 8 bytes, since they are part of what each event of the task reads.
///
/// What a task draws does not depend on what others draw meanwhile, so it can be known in advance.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The numbers that belong to a word.
    pub(crate) fn new(word: u64) -> Self {
        Stream(word)
    }

    /// The next 64 random bits.
    #[inline]
    pub(crate) fn word(&mut self) -> u64 {
        let word = self.coming();
        self.0 = self.0.wrapping_add(GOLDEN);
        word
    }

    /// What [`Stream::word`] will say next.
    #[inline]
    pub(crate) fn coming(self) -> u64 {
        mixed(self.0)
    }
}

/// Pieces of the interval [1, 2) on which the logarithm is a short sum.
const PIECES: usize = 256;

/// The middle of each piece: its reciprocal and its logarithm. `libm` computes them in software.
static MIDDLES: LazyLock<[(f64, f64); PIECES]> = LazyLock::new(|| {
    std::array::from_fn(|piece| {
        let middle = 1.0 + (piece as f64 + 0.5) / PIECES as f64;
        (1.0 / middle, libm::log(middle))
    })
});

/// The natural logarithm of a normal positive number, with an error below 1e-14 of 1. It is made of sums and products
/// alone, which IEEE 754 defines to the last bit, so it does not depend on the machine's C library; and it is several
/// times as fast as one that is right to the last bit.
#[inline]
fn log(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = bits & ((1 << 52) - 1);
    let one_to_two = f64::from_bits(mantissa | 1023 << 52);
    let (reciprocal, log_of_middle) = MIDDLES[(mantissa >> 44) as usize];
    // At most 1/512 from 0.
    let r = one_to_two * reciprocal - 1.0;
    let sum = r * (1.0 - r * (0.5 - r * (1.0 / 3.0 - r * (0.25 - r * 0.2))));
    exponent as f64 * std::f64::consts::LN_2 + (log_of_middle + sum)
}

/// How far SplitMix64 goes at each step.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A step and the finaliser of SplitMix64 (Steele, Lea, Flood 2014): spreads a seed's bits.
#[inline]
pub(crate) fn mixed(word: u64) -> u64 {
    let mut z = word.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// How long something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Span {
    /// No time at all.
    #[default]
    None,
    /// Always as long, ns.
    Fixed(u64),
    /// Anything from the first to the second, each as likely, ns.
    Uniform(u64, u64),
    /// Exponentially distributed with this mean, ns.
    Exponential(u64),
}

impl Span {
    /// One length, ns.
    #[inline]
    pub fn draw(self, random: &mut Random) -> u64 {
        self.of(random.word())
    }

    /// The length that belongs to 64 random bits, ns.
    #[inline]
    pub(crate) fn of(self, word: u64) -> u64 {
        match self {
            Span::None => 0,
            Span::Fixed(ns) => ns,
            Span::Uniform(least, most) => least + below(word, most.saturating_sub(least).saturating_add(1)),
            Span::Exponential(mean) => (mean as f64 * -log(share(word))) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_these_numbers_on_every_machine() {
        let mut random = Random::new(1, 0);
        let words: Vec<u64> = (0..3).map(|_| random.word()).collect();
        let exponential: Vec<u64> = (0..3).map(|_| Span::Exponential(1_000_000).draw(&mut random)).collect();
        insta::assert_debug_snapshot!((words, exponential));
    }

    #[test]
    fn the_logarithm_is_right() {
        let mut random = Random::new(3, 0);
        for i in 0..100_000 {
            let x = if i < 3 { [1.0, f64::EPSILON / 2.0, 0.5][i] } else { random.share() };
            let (got, expect) = (log(x), libm::log(x));
            assert!((got - expect).abs() <= 1e-14 * expect.abs().max(1.0), "log {x}: {got}, not {expect}");
        }
    }

    #[test]
    fn tasks_draw_as_evenly_as_a_machine_does() {
        // Neighbouring tasks of one seed, each with few numbers: 64 bins, chi-squared at 63 degrees of freedom.
        let (tasks, each) = (4_000, 50);
        let mut bins = [0u32; 64];
        let mut random = Random::new(11, 0);
        for _ in 0..tasks {
            let mut stream = Stream::new(random.word());
            for _ in 0..each {
                assert_eq!(stream.coming(), stream.clone().word());
                bins[below(stream.word(), 64) as usize] += 1;
            }
        }
        let expect = f64::from(tasks * each) / 64.0;
        let chi: f64 = bins.iter().map(|n| (f64::from(*n) - expect).powi(2) / expect).sum();
        assert!((29.0..112.0).contains(&chi), "{chi}");
    }

    #[test]
    fn means_are_what_they_are_called() {
        for span in [Span::Fixed(700), Span::Uniform(0, 1400), Span::Exponential(700)] {
            let mut random = Random::new(7, 1);
            let n = 200_000;
            let sum: u64 = (0..n).map(|_| span.draw(&mut random)).sum();
            let mean = sum as f64 / f64::from(n);
            assert!((mean - 700.0).abs() < 8.0, "{span:?}: {mean}");
        }
    }
}
