//! The order of the trials of a block: a random permutation that is a function of the seed.
//!
//! The algorithm is part of the format of bundles: a bundle keeps the seed, and a repetition of the plan must get the
//! same order for ever. It stands here in full, so that no new version of a library can move it:
//!
//! 1. `key = mix(mix(mix(seed) + session) + block)`, where `session` counts from 0, `block` from 0 over all sessions,
//!    `+` wraps, and `mix(x)` is the output of SplitMix64 whose state was `x` (Steele, Lea, Flood, OOPSLA 2014).
//! 2. `w0..w3` are the next four outputs of SplitMix64 with the state `key`. PCG64 (XSL-RR 128/64, O'Neill,
//!    HMC-CS-2014-0905) starts with the state `w0·2^64 + w1` and the stream `w2·2^64 + w3`.
//! 3. The arms in the order of their numbers are shuffled from the back: for `i` from `n-1` down to `1`, element `i` is
//!    swapped with element `j`, where `j` is drawn from `0..=i` without bias (Lemire, ACM TOMACS 29(1), 2019).
//!
//! A boot runs those of a block's arms that are its own, in the block's order. The boots of a session, numbered in the
//! order of their first arms, are shuffled in the same way as arms are, with 2^32, which is no block, for the block.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// The numbers from 0 to `n - 1` in the order of a block.
pub(crate) fn of_block(seed: u64, session: u32, block: u32, n: u32) -> Vec<u32> {
    shuffled(generator(seed, session, u64::from(block)), n)
}

/// The numbers from 0 to `n - 1` in the order of a session's boots.
pub(crate) fn of_boots(seed: u64, session: u32, n: u32) -> Vec<u32> {
    shuffled(generator(seed, session, NO_BLOCK), n)
}

/// What stands for the block in the order of boots.
const NO_BLOCK: u64 = 1 << 32;

fn shuffled(mut rng: Pcg64, n: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n).collect();
    for i in (1..order.len()).rev() {
        let j = below(&mut rng, i as u64 + 1);
        order.swap(i, usize::try_from(j).unwrap_or(i));
    }
    order
}

fn generator(seed: u64, session: u32, block: u64) -> Pcg64 {
    let key = mix(mix(mix(seed).wrapping_add(u64::from(session))).wrapping_add(block));
    let word = |i: u64| u128::from(mix(key.wrapping_add(GOLDEN.wrapping_mul(i))));
    Pcg64::new(word(0) << 64 | word(1), word(2) << 64 | word(3))
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output of SplitMix64 whose state was `x`.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `bound`, each with the same probability. `bound` is above 0.
fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    // A draw is refused when it falls into the part of 2^64 that `bound` does not divide.
    let refused = bound.wrapping_neg() % bound;
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        let (high, low) = ((product >> 64) as u64, product as u64);
        if low >= refused {
            return high;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These numbers are the format of bundles: when this test fails the code is wrong, not the numbers. They come from
    /// a second writing of the algorithm, in Python after the text at the head of this file.
    #[test]
    fn orders_never_change() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf, "the first output of SplitMix64 with seed 0");
        let check = |(seed, session, block, n), expect: &[u32]| {
            assert_eq!(of_block(seed, session, block, n), expect, "{seed} {session} {block} {n}");
        };
        check((1, 0, 0, 8), &[6, 1, 4, 0, 2, 5, 7, 3]);
        check((1, 0, 1, 8), &[6, 7, 3, 2, 0, 5, 4, 1]);
        check((1, 1, 0, 8), &[6, 1, 2, 7, 0, 5, 4, 3]);
        check((2026, 0, 0, 12), &[11, 1, 5, 8, 0, 6, 10, 2, 3, 4, 9, 7]);
        check((u64::MAX, u32::MAX, u32::MAX, 5), &[2, 1, 0, 3, 4]);
        check((1, 0, 0, 1), &[0]);
        check((1, 0, 0, 0), &[]);
        let check = |(seed, session, n), expect: &[u32]| {
            assert_eq!(of_boots(seed, session, n), expect, "boots: {seed} {session} {n}");
        };
        check((1, 0, 6), &[2, 4, 3, 5, 0, 1]);
        check((1, 1, 6), &[4, 5, 1, 0, 3, 2]);
        check((1, 2, 6), &[2, 3, 1, 0, 5, 4]);
        check((2026, 0, 12), &[9, 5, 8, 0, 2, 6, 7, 3, 11, 10, 4, 1]);
        check((u64::MAX, u32::MAX, 5), &[0, 3, 2, 4, 1]);
        check((1, 0, 1), &[0]);
        check((1, 0, 0), &[]);
    }

    #[test]
    fn the_generator_is_pcg64() {
        // Seeds and outputs of the demo program of the C library (pcg64.out of pcg-c 0.94).
        let mut rng = Pcg64::new(42, 54);
        let got: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(got, [0x86b1_da1d_7206_2b68, 0x1304_aa46_c985_3d39, 0xa367_0e9e_0dd5_0358]);
    }

    /// Every permutation of four arms comes up about as often as every other: chi-squared over 24,000 blocks of one
    /// seed, 23 degrees of freedom, against the quantile 0.9999 (57.1). The blocks are fixed, so this cannot flake.
    #[test]
    fn permutations_are_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for block in 0..24_000 {
            *counts.entry(of_block(7, block / 100, block, 4)).or_insert(0_i64) += 1;
        }
        assert_eq!(counts.len(), 24);
        let chi_squared: f64 = counts.values().map(|n| (*n as f64 - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi_squared < 57.1, "{chi_squared}");
    }

    #[test]
    fn draws_have_no_bias_at_large_bounds() {
        // 2^64 numbers onto 3/4 as many: without refusals one number in three would come up twice as often.
        let mut rng = generator(1, 0, 0);
        let mut counts = [0; 3];
        for _ in 0..30_000 {
            counts[(below(&mut rng, 3 << 62) % 3) as usize] += 1;
        }
        assert!(counts.iter().all(|n| (9_500..10_500).contains(n)), "{counts:?}");
    }
}
