//! Effects: a ratio on the log scale with what is known of its error.

use crate::NoEstimate;
use crate::error::{Blend, Error, T};
use crate::pieces::{BlockPair, BlockValue, Pieces, count, log, mean, variance, why_no_log};
use crate::trimmed::{Trimmed, trim};
use holdup_model::{Direction, Estimate};

/// Fewer pieces than this say too little of what pairing them is worth.
const MIN_BLENDED: usize = 5;

/// The log of a ratio of B to A (or of a mean), with its error.
///
/// Opaque on purpose: callers ask for intervals, p values and verdicts, so that a bootstrap or a
/// mixed model can stand behind the same questions.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    centre: f64,
    error: Error,
    blocks: u32,
    pieces: u32,
    blocks_per_piece: u32,
    method: String,
}

impl Effect {
    /// B against A, paired by block, or, with two or more sessions, by session over the means of its blocks.
    ///
    /// From five pieces on, the error is a blend of the paired t and of Welch's t, weighted by how well the
    /// data bear out that the two of a pair share something. Where blocks share nothing, pairing them would
    /// waste half of the degrees of freedom; where they share much, Welch's t would drown the effect.
    ///
    /// # Errors
    /// With a value that has no logarithm, or fewer than two independent pieces.
    pub fn paired(pairs: &[BlockPair]) -> Result<Effect, NoEstimate> {
        let mut logs = Vec::with_capacity(pairs.len());
        for pair in pairs {
            logs.push((pair.session, pair.block, log(pair.a)?, log(pair.b)?));
        }
        let pieces = Pieces::of(logs.iter().map(|&(session, block, a, b)| (session, block, b - a)));
        let effect = Self::one_sample(&pieces, "paired by block")?;
        let n = pieces.len();
        if n < MIN_BLENDED || effect.is_constant() {
            return Ok(effect);
        }
        let a = Pieces::of(logs.iter().map(|&(session, block, a, _)| (session, block, a)));
        let b = Pieces::of(logs.iter().map(|&(session, block, _, b)| (session, block, b)));
        let blend = Blend::of(n, variance(&a.values), variance(&b.values), variance(&pieces.values));
        if !Error::Blend(blend).is_sound() {
            return Ok(effect);
        }
        let pairing = (100.0 * (1.0 - blend.apart_weight)).round();
        let method = format!("{}; pairing counts {pairing:.0} %, Welch's t the rest", effect.method);
        Ok(Effect { error: Error::Blend(blend), method, ..effect })
    }

    /// B against A over the blocks without a slow trial ([`trim`]), otherwise as [`Effect::paired`]. How many were left out is
    /// part of the method.
    ///
    /// # Errors
    /// As [`Effect::paired`].
    pub fn trimmed(pairs: &[BlockPair], better: Direction) -> Result<Effect, NoEstimate> {
        Self::of_trimmed(&trim(pairs, better)?)
    }

    /// The same of pairs that are trimmed already.
    pub fn of_trimmed(trimmed: &Trimmed) -> Result<Effect, NoEstimate> {
        let effect = Self::paired(&trimmed.kept)?;
        let Trimmed { blocks, slow_a, slow_b, untrimmed, .. } = trimmed;
        let left_out = blocks - count(trimmed.kept.len());
        let how = match (untrimmed, left_out) {
            (Some(why), _) => (*why).to_owned(),
            (None, 0) => "no trial is so slow that its block is left out".to_owned(),
            (None, _) => format!(
                "{left_out} of {blocks} blocks left out for slow trials ({slow_a} of the baseline, {slow_b} of the other arm)"
            ),
        };
        Ok(Effect { method: format!("{}; {how}", effect.method), ..effect })
    }

    /// The geometric mean of one arm over its blocks.
    pub fn of_mean(values: &[BlockValue]) -> Result<Effect, NoEstimate> {
        Self::one_sample(&block_pieces(values)?, "mean over blocks")
    }

    /// B against A where nothing pairs their blocks (two runs): Welch's t on the logs.
    ///
    /// # Errors
    /// With a value that has no logarithm, or fewer than two independent pieces on a side.
    pub fn unpaired(a: &[BlockValue], b: &[BlockValue]) -> Result<Effect, NoEstimate> {
        let (a, b) = (block_pieces(a)?, block_pieces(b)?);
        for (side, pieces) in [("the baseline", &a), ("the other arm", &b)] {
            if pieces.len() < 2 {
                return Err(NoEstimate::new(format!("{side} has {}", few(pieces))));
            }
        }
        let (na, nb) = (a.len() as f64, b.len() as f64);
        let (va, vb) = (variance(&a.values) / na, variance(&b.values) / nb);
        let error = if a.is_constant() && b.is_constant() {
            Error::Constant { one_sided_p: 1.0 / ways_to_split(a.len(), b.len()) }
        } else {
            // Welch–Satterthwaite.
            let df = (va + vb).powi(2) / (va * va / (na - 1.0) + vb * vb / (nb - 1.0));
            Error::T(T { se: (va + vb).sqrt(), df })
        };
        let fewer = if a.len() <= b.len() { &a } else { &b };
        let effect = Effect {
            centre: mean(&b.values) - mean(&a.values),
            error,
            blocks: a.blocks.min(b.blocks),
            pieces: count(fewer.len()),
            blocks_per_piece: fewer.blocks_per_piece(),
            method: match error {
                Error::T(_) | Error::Blend(_) => format!(
                    "Welch's t on the logs of {} and {} blocks{}, not paired",
                    a.blocks,
                    b.blocks,
                    if a.sessions.max(b.sessions) >= 2 { " (means over sessions)" } else { "" }
                ),
                Error::Constant { .. } => "permutation test: each side has one value only".to_owned(),
            },
        };
        effect.checked()
    }

    fn one_sample(pieces: &Pieces, how: &str) -> Result<Effect, NoEstimate> {
        let n = pieces.len();
        if n < 2 {
            return Err(NoEstimate::new(few(pieces)));
        }
        let constant = pieces.is_constant();
        let error = if constant {
            Error::Constant { one_sided_p: 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX)) }
        } else {
            Error::T(T { se: (variance(&pieces.values) / n as f64).sqrt(), df: (n - 1) as f64 })
        };
        let over = if pieces.sessions >= 2 {
            format!("{} session means of {} blocks", pieces.sessions, pieces.blocks)
        } else {
            format!("{} blocks", pieces.blocks)
        };
        let method = if constant {
            format!("{how}, sign test: all {over} give the same value, so there is no spread to measure")
        } else {
            format!("{how}, t on the logs of {over}")
        };
        Effect {
            centre: mean(&pieces.values),
            error,
            blocks: pieces.blocks,
            pieces: count(n),
            blocks_per_piece: pieces.blocks_per_piece(),
            method,
        }
        .checked()
    }

    /// A log ratio whose error is known, over `pieces` pieces.
    pub(crate) fn from_error(centre: f64, se: f64, df: f64, pieces: u32, method: String) -> Result<Effect, NoEstimate> {
        if se.is_nan() || se <= 1e-12 {
            return Err(NoEstimate::new(
                "all clusters have the same rates, so there is no spread to make an interval from",
            ));
        }
        let error = Error::T(T { se, df });
        Effect { centre, error, blocks: pieces, pieces, blocks_per_piece: 1, method }.checked()
    }

    /// Refuses what arithmetic could not hold (values at the ends of what an f64 can be).
    fn checked(self) -> Result<Effect, NoEstimate> {
        if self.error.is_sound() && self.centre.is_finite() {
            Ok(self)
        } else {
            Err(NoEstimate::new("the values are too far apart or too close for arithmetic"))
        }
    }

    /// The point estimate: the ratio of B to A, or the geometric mean.
    pub fn value(&self) -> f64 {
        self.centre.exp()
    }

    /// The point estimate on the log scale.
    pub fn log_value(&self) -> f64 {
        self.centre
    }

    /// Blocks that it rests on.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Independent pieces that the error is known from: blocks, or sessions where there are several.
    pub fn pieces(&self) -> u32 {
        self.pieces
    }

    /// Blocks behind each piece: 1, or the blocks of a session.
    pub fn blocks_per_piece(&self) -> u32 {
        self.blocks_per_piece
    }

    /// How it was made, in a few words.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// True if all pieces were the same, so that only a sign or permutation test remains.
    pub fn is_constant(&self) -> bool {
        matches!(self.error, Error::Constant { .. })
    }

    /// Standard deviation of one independent piece on the log scale; zero when constant.
    pub fn spread(&self) -> f64 {
        self.error.standard_error() * f64::from(self.pieces).sqrt()
    }

    /// Degrees of freedom that each piece beyond the first adds, for what a repetition would show.
    pub(crate) fn df_per_piece(&self) -> f64 {
        self.error.df_per_piece(self.pieces)
    }

    /// The interval at a confidence between 0 and 1.
    ///
    /// # Errors
    /// When the confidence is not between 0 and 1, when all values are the same and too few to
    /// reach the confidence by their sign, or when the interval is wider than numbers can hold.
    pub fn estimate(&self, confidence: f64) -> Result<Estimate, NoEstimate> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(NoEstimate::new("the confidence must lie between 0 and 1"));
        }
        let Some(half) = self.error.distance((1.0 - confidence) / 2.0) else {
            return Err(NoEstimate::new(if self.is_constant() {
                format!(
                    "all {} blocks give the same value: there is no spread to make an interval from, \
                     and they are too few for a sign test",
                    self.blocks
                )
            } else {
                "the t distribution has no such quantile".to_owned()
            }));
        };
        let (low, high) = ((self.centre - half).exp(), (self.centre + half).exp());
        if low <= 0.0 || !high.is_finite() {
            return Err(NoEstimate::new("the interval is wider than numbers can hold"));
        }
        Ok(Estimate { value: self.value(), low, high, confidence, n: self.blocks, method: self.method.clone() })
    }

    /// p of "the ratio is 1", two-sided.
    pub fn p_difference(&self) -> f64 {
        if self.is_constant() && self.centre.abs() < 1e-12 {
            return 1.0;
        }
        (2.0 * self.error.beyond(self.centre.abs())).min(1.0)
    }

    /// p of "the ratio lies outside of the margin": the larger one of two one-sided tests against
    /// `1 + margin` and `1 / (1 + margin)`. 1 when the margin is not a positive number.
    pub fn p_equivalence(&self, margin: f64) -> f64 {
        let delta = margin.ln_1p();
        if !(delta.is_finite() && delta > 0.0) {
            return 1.0;
        }
        self.error.beyond(delta - self.centre.abs())
    }
}

fn block_pieces(values: &[BlockValue]) -> Result<Pieces, NoEstimate> {
    let mut logs = Vec::with_capacity(values.len());
    for v in values {
        logs.push((v.session, v.block, log(v.value)?));
    }
    Ok(Pieces::of(logs.into_iter()))
}

fn few(pieces: &Pieces) -> String {
    match pieces.blocks {
        0 => "no block".to_owned(),
        _ => "one block only, and an interval needs at least two".to_owned(),
    }
}

/// In how many ways a + b values fall into two sides: the binomial coefficient.
fn ways_to_split(a: usize, b: usize) -> f64 {
    (1..=a.min(b)).map(|i| (a.max(b) + i) as f64 / i as f64).product()
}

/// The ratio of B to A, paired by block, with its interval.
pub fn ratio_paired(pairs: &[BlockPair], confidence: f64) -> Result<Estimate, NoEstimate> {
    Effect::paired(pairs)?.estimate(confidence)
}

/// The ratio of B to A, where nothing pairs their blocks, with its interval.
pub fn ratio_unpaired(a: &[BlockValue], b: &[BlockValue], confidence: f64) -> Result<Estimate, NoEstimate> {
    Effect::unpaired(a, b)?.estimate(confidence)
}

/// The geometric mean of an arm over blocks of one session, one value for each, with its interval.
pub fn mean_estimate(values: &[f64], confidence: f64) -> Result<Estimate, NoEstimate> {
    let values: Vec<BlockValue> =
        values.iter().enumerate().map(|(i, &value)| BlockValue { session: 0, block: count(i), value }).collect();
    mean_over_blocks(&values, confidence)
}

/// The geometric mean of an arm over blocks and sessions, with its interval.
pub fn mean_over_blocks(values: &[BlockValue], confidence: f64) -> Result<Estimate, NoEstimate> {
    Effect::of_mean(values)?.estimate(confidence)
}

/// The geometric mean; `None` when there is no value or one has no logarithm.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|v| why_no_log(*v).is_some()) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let m = mean(&logs).exp();
    m.is_finite().then_some(m)
}
