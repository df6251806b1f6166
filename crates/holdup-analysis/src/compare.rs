//! Comparisons within one bundle: which arms stand against which, cell by cell and pooled.

use crate::account::points;
use crate::analyses::effect::Unit;
use crate::index::{Index, labels};
use crate::named;
use holdup_model::outcome::{Contrast, NoiseSplit, Side};
use holdup_model::plan::EffectKind;
use holdup_model::{Arm, BundleData, Comparison, Direction, Estimate, Factor, Replica, Verdict};
use holdup_stats::{
    ALPHA, BlockPair, BlockValue, CONFIDENCE, Effect, NoEstimate, Question, decide, geometric_mean, holm,
    judge_question, noise, spread, trim, unsteady,
};
use std::collections::BTreeMap;

/// The equivalence margin of a metric for which the plan names none: 2 %.
pub const DEFAULT_MARGIN: f64 = 0.02;

/// Two arms that differ in one thing only.
pub(crate) struct Cell<'a> {
    pub(crate) a: &'a Arm,
    pub(crate) b: &'a Arm,
    pub(crate) shared: BTreeMap<String, String>,
}

/// One contrast of one workload, with its cells.
pub(crate) struct Family<'a> {
    pub(crate) contrast: Contrast,
    pub(crate) workload: &'a str,
    pub(crate) cells: Vec<Cell<'a>>,
}

impl Family<'_> {
    /// True if the plan asks what it shows. An axis of numbers beside a factor, or beside an axis of words, is a curve.
    fn is_asked(&self, index: &Index<'_>) -> bool {
        let plan = &index.bundle.plan;
        let Some(workload) = plan.workload(self.workload) else { return false };
        let is_varied = |f: &&Factor| f.levels.len() > 1;
        let is_curve = |f: &Factor| f.is_numeric();
        match &self.contrast {
            Contrast::Same | Contrast::Unobserved => false,
            Contrast::Axis { axis, .. } if workload.axes.iter().any(|a| a.name == *axis && is_curve(a)) => {
                let words = workload.axes.iter().filter(|a| !is_curve(a));
                plan.factors.iter().chain(words).filter(is_varied).count() == 0
            }
            _ => true,
        }
    }
}

/// A comparison in the making.
pub(crate) struct Draft {
    pub(crate) comparison: Comparison,
    pub(crate) effect: Result<Effect, NoEstimate>,
    /// The effect over all blocks, where the other is without slow trials.
    mean: Option<Effect>,
    /// Why no verdict can rest on it although it can be computed.
    withheld: Option<String>,
    /// The axes of the two sides, for the noise floor.
    axes: Vec<BTreeMap<String, String>>,
}

/// Every comparison of a bundle: pooled primary ones first, then cells, then secondary metrics.
pub(crate) fn all(index: &Index<'_>) -> Vec<Comparison> {
    let mut drafts = Vec::new();
    for family in families(index) {
        let mut of_family = drafts_of(index, &family);
        judge_family(&mut of_family, index.level());
        drafts.extend(of_family);
    }
    noise_floors(&mut drafts, index.level());
    let unit = Unit::of(&index.bundle.head);
    for draft in &mut drafts {
        draft.comparison.time_points = points::of_comparison(index, &draft.comparison);
        unit.say(&mut draft.comparison);
    }
    let mut comparisons: Vec<Comparison> = drafts.into_iter().map(|d| d.comparison).collect();
    comparisons.sort_by_key(order);
    comparisons
}

/// True if every headline of a run that is under way has its verdict: the stop rule of plans that name no fixed
/// number of blocks. Only at a look (after a block from the fourth on, or after a whole session where the plan has
/// several) can the answer be yes, and only when there is a headline.
pub fn is_decided(so_far: &BundleData) -> bool {
    let index = Index::new(so_far);
    let Some((looks, pieces)) = index.look() else { return false };
    if pieces < looks.first() || so_far.plan.design.sessions > 1 && is_mid_session(so_far) {
        return false;
    }
    let mut headlines = 0;
    for family in families(&index).iter().filter(|f| f.is_asked(&index)) {
        let Some((metric, _)) = index.metrics(family.workload).into_iter().find(|(_, primary)| *primary) else {
            continue;
        };
        let cells: Vec<(&Cell<'_>, _)> =
            family.cells.iter().map(|cell| (cell, block_ratios(&index, cell, &metric.id))).collect();
        let margin = margin(&index, family.workload, &metric.id);
        let question = Question { level: index.level(), ..Question::alone(margin) };
        let Ok(pairs) = pool(&cells) else { return false };
        let (effect, pairs) = effect_of(index.effect_kind(), pairs, metric.better);
        if unsteady(&pairs).is_some() || !effect.is_ok_and(|effect| decide(&effect, &question).is_some()) {
            return false;
        }
        headlines += 1;
    }
    headlines > 0
}

/// True if the session of the last trial has planned trials to come.
fn is_mid_session(so_far: &BundleData) -> bool {
    let Some(last) = so_far.trials.last() else { return true };
    let of_session = so_far.schedule.trials.iter().filter(|t| t.session == last.session);
    of_session.map(|t| t.block).max().is_some_and(|block| block > last.block)
}

fn order(c: &Comparison) -> u8 {
    match (c.primary, c.pooled) {
        (true, true) => 0,
        (true, false) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}

/// An arm by what it is made of.
type Key = (String, BTreeMap<String, String>, BTreeMap<String, String>);

fn key(arm: &Arm) -> Key {
    (arm.workload.clone(), labels(&arm.axes), labels(&arm.factors))
}

/// Every contrast of the plan: factors, axes, A/A, observer.
fn families<'a>(index: &Index<'a>) -> Vec<Family<'a>> {
    let plan = &index.bundle.plan;
    let by_key: BTreeMap<Key, &'a Arm> = index.arms().filter(|a| a.replica.is_none()).map(|a| (key(a), a)).collect();
    let mut families = Vec::new();
    for workload in &plan.workloads {
        let arms: Vec<&'a Arm> = index.arms().filter(|a| a.workload == workload.name).collect();
        for factor in &plan.factors {
            let Some((baseline, others)) = factor.levels.split_first() else { continue };
            for level in others {
                let contrast = Contrast::Factor {
                    factor: factor.name.clone(),
                    baseline: baseline.label.clone(),
                    level: level.label.clone(),
                };
                let against = |arm: &Arm| {
                    (arm.replica.is_none() && arm.factors.get(&factor.name) == Some(level)).then(|| {
                        let mut key = key(arm);
                        key.2.insert(factor.name.clone(), baseline.label.clone());
                        key
                    })
                };
                families.push(family(contrast, &workload.name, &arms, &by_key, against));
            }
        }
        for axis in &workload.axes {
            let Some((baseline, others)) = axis.levels.split_first() else { continue };
            for level in others {
                let contrast = Contrast::Axis {
                    axis: axis.name.clone(),
                    baseline: baseline.label.clone(),
                    level: level.label.clone(),
                };
                // With the factors at their baseline: how an axis acts under other levels is the
                // factors' business, cell by cell.
                let against = |arm: &Arm| {
                    let plain = arm.replica.is_none() && arm.factors.iter().all(|(f, l)| index.is_baseline(f, l));
                    (plain && arm.axes.get(&axis.name) == Some(level)).then(|| {
                        let mut key = key(arm);
                        key.1.insert(axis.name.clone(), baseline.label.clone());
                        key
                    })
                };
                families.push(family(contrast, &workload.name, &arms, &by_key, against));
            }
        }
        for (replica, contrast) in [(Replica::Same, Contrast::Same), (Replica::Unobserved, Contrast::Unobserved)] {
            let against = |arm: &Arm| (arm.replica == Some(replica)).then(|| key(arm));
            families.push(family(contrast, &workload.name, &arms, &by_key, against));
        }
    }
    families.retain(|f| !f.cells.is_empty());
    families
}

fn family<'a>(
    contrast: Contrast,
    workload: &'a str,
    arms: &[&'a Arm],
    by_key: &BTreeMap<Key, &'a Arm>,
    against: impl Fn(&Arm) -> Option<Key>,
) -> Family<'a> {
    let mut cells: Vec<Cell<'a>> = Vec::new();
    for b in arms {
        let Some(a) = against(b).and_then(|key| by_key.get(&key)) else { continue };
        let mut shared = labels(&b.axes);
        shared.extend(labels(&b.factors));
        match &contrast {
            Contrast::Factor { factor: name, .. } | Contrast::Axis { axis: name, .. } => {
                shared.remove(name);
            }
            _ => {}
        }
        cells.push(Cell { a, b, shared });
    }
    // A factor that is the same in all cells does not distinguish them.
    let distinguishing: Vec<String> = match cells.first() {
        Some(first) => first
            .shared
            .keys()
            .filter(|k| first.b.axes.contains_key(*k) || cells.iter().any(|c| c.shared.get(*k) != first.shared.get(*k)))
            .cloned()
            .collect(),
        None => Vec::new(),
    };
    for cell in &mut cells {
        cell.shared.retain(|k, _| distinguishing.contains(k));
    }
    Family { contrast, workload, cells }
}

/// The log ratio of each block of a cell.
fn block_ratios(index: &Index<'_>, cell: &Cell<'_>, metric: &str) -> Result<Vec<BlockPair>, NoEstimate> {
    let a = index.values(cell.a.id, metric);
    let b = index.values(cell.b.id, metric);
    for (arm, values) in [(cell.a, &a), (cell.b, &b)] {
        if values.is_empty() {
            return Err(NoEstimate::new(index.why_absent(arm.id, metric)));
        }
    }
    let by_block = |values: &[(BlockValue, u32)]| -> Result<BTreeMap<(u32, u32), f64>, NoEstimate> {
        let mut blocks: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
        for (v, _) in values {
            blocks.entry((v.session, v.block)).or_default().push(v.value);
        }
        let mean = |values: Vec<f64>| match geometric_mean(&values) {
            Some(mean) => Ok(mean),
            None => Err(NoEstimate::new("a value is zero or negative, and a ratio needs values above zero")),
        };
        blocks.into_iter().map(|(k, v)| mean(v).map(|m| (k, m))).collect()
    };
    let (a, b) = (by_block(&a)?, by_block(&b)?);
    let pairs: Vec<BlockPair> =
        a.iter().filter_map(|(k, a)| b.get(k).map(|b| BlockPair { session: k.0, block: k.1, a: *a, b: *b })).collect();
    if pairs.is_empty() { Err(NoEstimate::new("no block has both")) } else { Ok(pairs) }
}

/// The mean of the cells' log ratios in each block that has them all.
fn pool(cells: &[(&Cell<'_>, Result<Vec<BlockPair>, NoEstimate>)]) -> Result<Vec<BlockPair>, NoEstimate> {
    let mut sums: BTreeMap<(u32, u32), (f64, f64, usize)> = BTreeMap::new();
    for (cell, pairs) in cells {
        let pairs =
            pairs.as_ref().map_err(|no| NoEstimate::new(format!("{}: {}", cell_name(&cell.shared), no.reason)))?;
        for p in pairs {
            let sum = sums.entry((p.session, p.block)).or_default();
            sum.0 += p.a.ln();
            sum.1 += p.b.ln();
            sum.2 += 1;
        }
    }
    let whole: Vec<BlockPair> = sums
        .into_iter()
        .filter(|(_, (_, _, n))| *n == cells.len())
        .map(|((session, block), (a, b, n))| {
            let mean = |sum: f64| (sum / n as f64).exp();
            BlockPair { session, block, a: mean(a), b: mean(b) }
        })
        .collect();
    if whole.is_empty() { Err(NoEstimate::new("no block has all cells")) } else { Ok(whole) }
}

/// `clients=64, autogroup=off`.
pub(crate) fn cell_name(cell: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = cell.iter().map(|(k, v)| format!("{k}={v}")).collect();
    parts.join(", ")
}

pub(crate) fn side(index: &Index<'_>, arm: u32, metric: &str) -> Option<Side> {
    let values = index.values(arm, metric);
    let plain: Vec<f64> = values.iter().map(|(v, _)| v.value).collect();
    let mean = geometric_mean(&plain)?;
    let mut blocks: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for (v, _) in &values {
        blocks.entry((v.session, v.block)).or_default().push(v.value.ln());
    }
    let logs: Vec<f64> = blocks.values().map(|b| b.iter().sum::<f64>() / b.len() as f64).collect();
    let cv = (logs.len() > 1).then(|| {
        let centre = logs.iter().sum::<f64>() / logs.len() as f64;
        let variance = logs.iter().map(|l| (l - centre).powi(2)).sum::<f64>() / (logs.len() - 1) as f64;
        variance.exp_m1().sqrt()
    });
    Some(Side { mean, cv: cv.filter(|cv| cv.is_finite()), trials: values.iter().map(|(_, seq)| *seq).collect() })
}

/// The comparisons of one family: every metric pooled, and every cell where there are several.
fn drafts_of(index: &Index<'_>, family: &Family<'_>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let is_asked = family.is_asked(index);
    for (metric, primary) in index.compared(family.workload) {
        let margin = margin(index, family.workload, &metric.id);
        let cells: Vec<(&Cell<'_>, _)> =
            family.cells.iter().map(|cell| (cell, block_ratios(index, cell, &metric.id))).collect();
        let draft = |cell: Option<&Cell<'_>>, pairs: Result<Vec<BlockPair>, NoEstimate>, pooled: bool| {
            let comparison = Comparison {
                contrast: family.contrast.clone(),
                workload: family.workload.to_owned(),
                cell: if pooled { BTreeMap::new() } else { cell.map(|c| c.shared.clone()).unwrap_or_default() },
                pooled,
                metric: metric.clone(),
                primary,
                headline: is_asked && primary && pooled,
                baseline: cell.and_then(|c| side(index, c.a.id, &metric.id)),
                level: cell.and_then(|c| side(index, c.b.id, &metric.id)),
                ratio: None,
                mean_ratio: None,
                margin,
                verdict: undecided(""),
                p_adjusted: None,
                noise_floor: None,
                noise: None,
                time_points: None,
            };
            let axes = cell.map(|c| vec![labels(&c.a.axes), labels(&c.b.axes)]).unwrap_or_default();
            if index.bundle.head.is_imported() {
                // Nothing says which results belong together.
                let of = cell.map_or(family.cells.as_slice(), std::slice::from_ref);
                return Draft { axes, ..Draft::unpaired(comparison, named::apart(index, of, &metric.id)) };
            }
            Draft { axes, ..Draft::paired(comparison, pairs, index.effect_kind()) }
        };
        if let [(cell, pairs)] = cells.as_slice() {
            // One cell is its own pool; the same numbers twice would only inflate the family.
            drafts.push(draft(Some(cell), pairs.clone(), true));
            continue;
        }
        drafts.push(draft(None, pool(&cells), true));
        for (cell, pairs) in cells {
            drafts.push(draft(Some(cell), pairs, false));
        }
    }
    drafts
}

pub(crate) fn margin(index: &Index<'_>, workload: &str, metric: &str) -> f64 {
    index.bundle.plan.metric_choice(workload, metric).map_or(DEFAULT_MARGIN, |c| c.margin)
}

pub(crate) fn undecided(reason: impl Into<String>) -> Verdict {
    Verdict::Undecided { reason: reason.into(), blocks_needed: None }
}

/// The effect that the plan asks for, and the blocks that it is of.
fn effect_of(
    kind: EffectKind,
    pairs: Vec<BlockPair>,
    better: Direction,
) -> (Result<Effect, NoEstimate>, Vec<BlockPair>) {
    match kind {
        EffectKind::Mean => (Effect::paired(&pairs), pairs),
        EffectKind::Trimmed => match trim(&pairs, better) {
            Ok(trimmed) => (Effect::of_trimmed(&trimmed), trimmed.kept),
            Err(no) => (Err(no), pairs),
        },
    }
}

impl Draft {
    /// A draft of two sides whose blocks are paired.
    ///
    /// A primary ratio that moved while the run went on gets no verdict. Other metrics are not held to that: with
    /// dozens of them, steady ones would lose theirs by chance.
    pub(crate) fn paired(
        mut comparison: Comparison,
        pairs: Result<Vec<BlockPair>, NoEstimate>,
        kind: EffectKind,
    ) -> Self {
        let of_pairs = pairs.as_deref().unwrap_or_default();
        let mean = (kind == EffectKind::Trimmed).then(|| Effect::paired(of_pairs).ok()).flatten();
        comparison.noise = spread(of_pairs).ok().map(|s| NoiseSplit {
            trial_cv: s.trial,
            block_cv: s.block,
            session_cv: s.session,
            ratio_session_cv: s.ratio_by_session,
        });
        let (effect, blocks) = match pairs {
            Ok(pairs) => effect_of(kind, pairs, comparison.metric.better),
            Err(no) => (Err(no), Vec::new()),
        };
        let withheld = unsteady(&blocks).filter(|_| comparison.primary).map(|u| u.reason());
        Draft { comparison, effect, mean, withheld, axes: Vec::new() }
    }

    /// A draft of two sides that nothing pairs.
    pub(crate) fn unpaired(comparison: Comparison, effect: Result<Effect, NoEstimate>) -> Self {
        Draft { comparison, effect, mean: None, withheld: None, axes: Vec::new() }
    }
}

/// Gives each draft of a family its interval, corrected p and verdict.
///
/// The pooled primary comparison is the question that the plan asked before the run: it is not
/// corrected. All others of the family are looked at together, so they are (Holm). `level` is that of each test:
/// less than 5 % when the run could have stopped at other blocks as well. Intervals are as much wider, and cover
/// 95 % whenever the run stops; p values are put on the scale on which 5 % is the limit.
pub(crate) fn judge_family(family: &mut [Draft], level: f64) {
    let is_headline = |c: &Comparison| c.pooled && c.primary;
    let others: Vec<usize> = family
        .iter()
        .enumerate()
        .filter(|(_, d)| !is_headline(&d.comparison) && d.effect.is_ok())
        .map(|(i, _)| i)
        .collect();
    let p: Vec<f64> = others.iter().filter_map(|&i| family[i].effect.as_ref().ok().map(Effect::p_difference)).collect();
    let adjusted: BTreeMap<usize, f64> = others.into_iter().zip(holm(&p)).collect();
    let size = u32::try_from(adjusted.len()).unwrap_or(u32::MAX);
    for (i, draft) in family.iter_mut().enumerate() {
        let c = &mut draft.comparison;
        match &draft.effect {
            Err(no) => c.verdict = undecided(no.reason.clone()),
            Ok(effect) => {
                c.ratio = effect.estimate(1.0 - level).ok().map(|e| of_look(e, level));
                let of_mean = draft.mean.as_ref().and_then(|mean| mean.estimate(1.0 - level).ok());
                c.mean_ratio = of_mean.map(|e| of_look(e, level));
                let p_adjusted = adjusted.get(&i).copied();
                let p = p_adjusted.unwrap_or_else(|| effect.p_difference());
                c.p_adjusted = Some((p * ALPHA / level).min(1.0));
                let family = if p_adjusted.is_some() { size } else { 1 };
                let question = Question { margin: c.margin, level, p_adjusted, family };
                c.verdict = match &draft.withheld {
                    Some(why) => undecided(why.clone()),
                    None => judge_question(effect, &question),
                };
                // Of further blocks as many will be left out as of those that there are.
                if let (Verdict::Undecided { blocks_needed: Some(n), .. }, Some(mean)) = (&mut c.verdict, &draft.mean) {
                    *n = (*n * mean.blocks()).div_ceil(effect.blocks().max(1));
                }
            }
        }
    }
}

/// The interval of a look: wider than one of a fixed number of blocks, so that it covers 95 % at all looks together.
fn of_look(estimate: Estimate, level: f64) -> Estimate {
    if level >= ALPHA {
        return estimate;
    }
    let method = format!("{}, widened for a look after every block", estimate.method);
    Estimate { confidence: CONFIDENCE, method, ..estimate }
}

/// A noise floor, and whether the baseline differs from itself.
type Floor = (f64, bool);

/// Puts the A/A noise floor beside every comparison: pooled beside pooled, cell beside cell. For
/// an axis the two sides stand in two cells, and the larger floor of them counts. Where the baseline differs from
/// itself, an effect that is no larger is no effect.
fn noise_floors(drafts: &mut [Draft], level: f64) {
    let mut pooled: BTreeMap<(String, String), Floor> = BTreeMap::new();
    let mut cells: BTreeMap<(String, String, BTreeMap<String, String>), Floor> = BTreeMap::new();
    for draft in drafts.iter().filter(|d| d.comparison.contrast == Contrast::Same) {
        let Some(floor) = draft.effect.as_ref().ok().and_then(|e| noise::noise_floor_of(e, 1.0 - level).ok()) else {
            continue;
        };
        let name = (draft.comparison.workload.clone(), draft.comparison.metric.id.clone());
        if let Some(axes) = draft.axes.first() {
            cells.insert((name.0.clone(), name.1.clone(), axes.clone()), (floor.floor, floor.differs));
        }
        if draft.comparison.pooled {
            pooled.insert(name, (floor.floor, floor.differs));
        }
    }
    for draft in drafts {
        let c = &mut draft.comparison;
        let name = (c.workload.clone(), c.metric.id.clone());
        let floor = |axes: &BTreeMap<String, String>| cells.get(&(name.0.clone(), name.1.clone(), axes.clone()));
        let of_cell = draft.axes.iter().filter_map(floor).copied().reduce(|a, b| if b.0 > a.0 { b } else { a });
        // A pool of one cell is as noisy as that cell, so its own floor comes first.
        let Some((floor, differs)) = of_cell.or_else(|| pooled.get(&name).copied().filter(|_| c.pooled)) else {
            continue;
        };
        c.noise_floor = Some(floor);
        let within = c.ratio.as_ref().is_some_and(|r| r.value.ln().abs() <= floor.ln_1p());
        if differs && within && c.contrast != Contrast::Same && c.verdict == Verdict::Different {
            c.verdict = undecided("the baseline differs from itself by as much");
        }
    }
}
