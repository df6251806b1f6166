//! From an effect to one of three answers.

use crate::effect::Effect;
use crate::students_t;
use holdup_model::Verdict;

/// The error rate of each test: 5 %. The interval that goes with it is the one of 95 %.
pub const ALPHA: f64 = 0.05;

/// The fewest blocks that may carry a verdict. With fewer, one odd block decides everything, and
/// the t interval does not keep its coverage on noise that is not normal.
pub const MIN_BLOCKS: u32 = 4;

/// The chance to decide that "blocks needed" aims at.
const POWER: f64 = 0.8;

/// More further blocks than this are not promised.
const MOST_BLOCKS: u32 = 1000;

/// What is asked of an effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// The equivalence margin as a share: 0.02 is "within 2 %".
    pub margin: f64,
    /// The level of each test: [`ALPHA`] when the number of blocks was fixed before the run, less when the run
    /// could have stopped earlier ([`crate::Looks::level`]).
    pub level: f64,
    /// p of the difference, corrected over the family ([`crate::holm()`]); `None` when it stands alone.
    pub p_adjusted: Option<f64>,
    /// How many comparisons were looked at together; 1 when it stands alone.
    pub family: u32,
}

impl Question {
    /// A question that stands alone, at [`ALPHA`].
    pub fn alone(margin: f64) -> Self {
        Question { margin, level: ALPHA, p_adjusted: None, family: 1 }
    }
}

/// Judges an effect at an equivalence margin (0.02 = within 2 %), on its own and with a fixed number of blocks.
///
/// See [`judge_question`].
pub fn judge(effect: &Effect, margin: f64) -> Verdict {
    judge_question(effect, &Question::alone(margin))
}

/// Judges one effect of a family: different only when its corrected p is at most 5 % as well.
///
/// `p_adjusted` comes from [`crate::holm()`] over the `family` effects that were looked at together.
pub fn judge_corrected(effect: &Effect, margin: f64, p_adjusted: f64, family: u32) -> Verdict {
    judge_question(effect, &Question { p_adjusted: Some(p_adjusted), family, ..Question::alone(margin) })
}

/// Judges an effect.
///
/// Different when p, and the corrected p, are at most the level: the interval of that confidence excludes 1.
/// Otherwise equivalent when two one-sided tests of that level put the ratio within `[1/(1+margin), 1+margin]`.
/// Otherwise undecided. An effect that is both (small, yet measured so well that 1 is excluded) is different: that
/// is what was seen, and a reader can compare it with the margin. Fewer than [`MIN_BLOCKS`] blocks are undecided.
pub fn judge_question(effect: &Effect, question: &Question) -> Verdict {
    if let Some(decided) = decide(effect, question) {
        return decided;
    }
    let blocks = effect.blocks();
    let Question { margin, level, family, .. } = *question;
    if blocks < MIN_BLOCKS {
        let missing = MIN_BLOCKS - blocks;
        return Verdict::Undecided {
            reason: format!("{blocks} blocks are too few for a verdict, {MIN_BLOCKS} are the least"),
            blocks_needed: blocks_needed(effect, question).map(|n| n.max(missing)),
        };
    }
    let differs = effect.p_difference() <= level;
    let blocks_needed = blocks_needed(effect, question);
    let mut reason = if effect.is_constant() {
        format!("all {blocks} blocks give the same value, and they are too few for a sign test")
    } else if differs {
        format!("the interval excludes 1, but one of {family} comparisons may do so by chance")
    } else {
        format!("the interval includes 1 and reaches beyond ±{} %", trim(margin * 100.0))
    };
    if effect.blocks_per_piece() > 1 {
        reason.push_str("; noise between sessions counts, so more blocks must come as more sessions");
    }
    Verdict::Undecided { reason, blocks_needed }
}

/// The verdict if there is one; `None` for undecided. See [`judge_question`].
pub fn decide(effect: &Effect, question: &Question) -> Option<Verdict> {
    let Question { margin, level, p_adjusted, .. } = *question;
    if effect.blocks() < MIN_BLOCKS {
        None
    } else if effect.p_difference() <= level && p_adjusted.is_none_or(|p| p <= level) {
        Some(Verdict::Different)
    } else if effect.p_equivalence(margin) <= level {
        Some(Verdict::Equivalent)
    } else {
        None
    }
}

fn trim(x: f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The chances of a repetition, if the true ratio and spread are those observed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// The chance that the test of difference passes.
    pub different: f64,
    /// The chance that the test of equivalence passes.
    pub equivalent: f64,
    /// The chance that at least one of them does.
    pub decided: f64,
}

impl Power {
    /// The chances with `pieces` independent pieces.
    ///
    /// The noncentral t distribution is approximated by a shifted central one, and the estimated
    /// standard error by the true one. `None` with fewer than two pieces or no spread.
    pub fn with_pieces(effect: &Effect, question: &Question, pieces: u32) -> Option<Power> {
        if pieces < 2 || effect.is_constant() {
            return None;
        }
        let df = f64::from(pieces - 1) * effect.df_per_piece();
        let se = effect.spread() / f64::from(pieces).sqrt();
        let shift = effect.log_value().abs() / se;
        let t_difference = students_t::quantile(1.0 - question.level / f64::from(question.family.max(1)) / 2.0, df)?;
        let different = students_t::below(shift - t_difference, df)? + students_t::below(-shift - t_difference, df)?;
        let delta = question.margin.ln_1p();
        if !(delta > 0.0 && delta.is_finite()) {
            return Some(Power { different, equivalent: 0.0, decided: different });
        }
        // Equivalent when the estimate lies within ± `reach` standard errors around 1.
        let reach = delta / se - students_t::quantile(1.0 - question.level, df)?;
        let equivalent = (students_t::below(reach - shift, df)? - students_t::below(-reach - shift, df)?).max(0.0);
        // The two answers divide the line of estimates: with a gap between them, or without one.
        let decided = if reach < t_difference { (different + equivalent).min(1.0) } else { 1.0 };
        Some(Power { different, equivalent, decided })
    }
}

/// Further blocks after which a verdict is likely (80 %), from the ratio and spread seen so far;
/// `None` when that would take more than a thousand.
fn blocks_needed(effect: &Effect, question: &Question) -> Option<u32> {
    let per_piece = effect.blocks_per_piece();
    if effect.is_constant() {
        // The two-sided sign test reaches 5 % with six blocks that agree.
        return Some(6_u32.saturating_sub(effect.pieces()).max(1) * per_piece);
    }
    let have = effect.pieces();
    let decides =
        |more: u32| Power::with_pieces(effect, question, have + more).is_some_and(|power| power.decided >= POWER);
    let most = MOST_BLOCKS / per_piece;
    if most == 0 || !decides(most) {
        return None;
    }
    // The chance grows with the number of pieces, so the smallest number is found by halving.
    let (mut fails, mut works) = (0, most);
    while works - fails > 1 {
        let middle = fails + (works - fails) / 2;
        if decides(middle) {
            works = middle;
        } else {
            fails = middle;
        }
    }
    Some(works * per_piece)
}
