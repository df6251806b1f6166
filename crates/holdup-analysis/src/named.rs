//! Comparisons that a user names: two arms of a bundle, or two bundles.

use crate::account::points;
use crate::analyses::{effect, note, time_shift};
use crate::arms;
use crate::compare::{Cell, Draft, judge_family, margin, side, undecided};
use crate::index::{Index, labels};
use crate::{shifts, words};
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::{Analysis, Arm, BundleData, Comparison, Finding, Metric, Problem};
use holdup_stats::{ALPHA, BlockPair, BlockValue, Effect, NoEstimate};
use std::collections::{BTreeMap, BTreeSet};

/// Compares two arms of one bundle, paired by block. `a` and `b` are a label, a part of exactly one
/// label, or an arm's number.
///
/// # Errors
/// When a name fits no arm or several, both are the same arm, or their workloads differ.
pub fn compare_arms(bundle: &BundleData, a: &str, b: &str) -> Result<Analysis, Problem> {
    let index = Index::new(bundle);
    let (a, b) = (find(&index, a)?, find(&index, b)?);
    if a.id == b.id {
        return Err(Problem::usage(format!("arm {}", a.label), "is compared with itself").hint(known(&index)));
    }
    if a.workload != b.workload {
        let why = format!("belongs to workload {}, and {} to {}", a.workload, b.label, b.workload);
        let hint = "only arms of one workload can be compared";
        return Err(Problem::usage(format!("arm {}", a.label), why).hint(hint));
    }
    let contrast = Contrast::Named { baseline: a.label.clone(), level: b.label.clone() };
    let mut drafts: Vec<Draft> = index
        .compared(&a.workload)
        .into_iter()
        .map(|(metric, primary)| {
            let pairs = pairs(&index, a, b, &metric.id);
            let comparison = Comparison {
                headline: primary,
                baseline: side(&index, a.id, &metric.id),
                level: side(&index, b.id, &metric.id),
                ..blank(&contrast, &a.workload, metric, primary, &index)
            };
            Draft::paired(comparison, pairs, index.effect_kind())
        })
        .collect();
    judge_family(&mut drafts, index.level());
    let with_points = |c: Comparison| Comparison { time_points: points::of_comparison(&index, &c), ..c };
    let comparisons: Vec<Comparison> = drafts.into_iter().map(|d| with_points(d.comparison)).collect();
    let asked = comparisons.iter().filter(|c| c.headline);
    let mut findings: Vec<Finding> = asked.map(|c| effect::of_run(&index, c, &comparisons)).collect();
    findings.extend(time_shift::between((bundle, a), (bundle, b)));
    let arms = arms::summaries(&index).into_iter().filter(|s| s.arm == a.id || s.arm == b.id).collect();
    let shifts = shifts::between(&index, a, b).into_iter().collect();
    Ok(Analysis { caution: words::caution(&bundle.head), findings, comparisons, arms, shifts, explanation: None })
}

/// Compares two bundles, arm by arm of the same label. Their blocks are not paired, and the two
/// runs were not interleaved: all that differs between the two times is part of the difference,
/// and the findings say so. The arms in the answer are those of `b`.
///
/// # Errors
/// When both are the same run, no arm is in both, or one is emulated otherwise than the other.
pub fn compare_bundles(a: &BundleData, b: &BundleData) -> Result<Analysis, Problem> {
    if a.head.run_id == b.head.run_id {
        let hint = "compare two arms of one bundle by their labels, or take a second run";
        return Err(Problem::usage(format!("run {}", a.head.run_id), "is compared with itself").hint(hint));
    }
    if a.head.emulated != b.head.emulated {
        let words = |e: &Option<String>| e.clone().unwrap_or_else(|| "those of hardware".to_owned());
        let why = format!("are {} in the first and {} in the second", words(&a.head.emulated), words(&b.head.emulated));
        return Err(Problem::usage("the times of the two runs", why).hint("compare runs of the same kind of machine"));
    }
    let (ia, ib) = (Index::new(a), Index::new(b));
    let by_label: BTreeMap<&str, &Arm> = ia.arms().map(|arm| (arm.label.as_str(), arm)).collect();
    let matched: Vec<(&Arm, &Arm)> = ib
        .arms()
        .filter_map(|arm| by_label.get(arm.label.as_str()).map(|a| (*a, arm)))
        .filter(|(a, b)| a.workload == b.workload)
        .collect();
    if matched.is_empty() {
        let hint = format!("first: {}; second: {}", known(&ia), known(&ib));
        return Err(Problem::usage("the two bundles", "have no arm in common").hint(hint));
    }
    let contrast = Contrast::Named { baseline: run_name(a), level: run_name(b) };
    let mut comparisons = Vec::new();
    for workload in &b.plan.workloads {
        let arms: Vec<(&Arm, &Arm)> = matched.iter().copied().filter(|(_, b)| b.workload == workload.name).collect();
        let mut drafts = Vec::new();
        for (metric, primary) in ib.compared(&workload.name) {
            let blank = || blank(&contrast, &workload.name, metric.clone(), primary, &ib);
            drafts.extend(unpaired(&ia, &ib, &arms, &metric, &blank));
        }
        judge_family(&mut drafts, ALPHA);
        comparisons.extend(drafts.into_iter().map(|d| d.comparison));
    }
    let unit = effect::Unit::of(&b.head);
    comparisons.iter_mut().for_each(|c| unit.say(c));
    comparisons.sort_by_key(|c| (!c.primary, !c.pooled));
    let asked = comparisons.iter().filter(|c| c.headline);
    let mut findings: Vec<Finding> = asked
        .map(|c| {
            let mut finding = effect::finding(c, &comparisons, unit, None);
            finding.sentence.push_str(" The two runs were not interleaved, so drift between them is not excluded.");
            // A trial's number means one trial within one bundle only: the links go to the second.
            let of_b = comparisons.iter().filter(|o| o.primary && o.workload == c.workload);
            let seqs: BTreeSet<u32> = of_b.filter_map(|o| o.level.as_ref()).flat_map(|s| s.trials.clone()).collect();
            finding.trials = seqs.into_iter().collect();
            finding
        })
        .collect();
    let shifts = matched.iter().filter_map(|(of_a, of_b)| time_shift::between((a, of_a), (b, of_b)));
    // Of what was only watched it is the answer.
    let is_answer = findings.is_empty();
    findings.extend(shifts.map(|shift| Finding { headline: is_answer, ..shift }));
    findings.extend(differences(a, b));
    findings.extend(unmatched(&ia, &ib, &matched));
    let caution = words::caution(&b.head);
    Ok(Analysis { caution, findings, comparisons, arms: arms::summaries(&ib), shifts: Vec::new(), explanation: None })
}

fn blank(contrast: &Contrast, workload: &str, metric: Metric, primary: bool, index: &Index<'_>) -> Comparison {
    Comparison {
        contrast: contrast.clone(),
        workload: workload.to_owned(),
        cell: BTreeMap::new(),
        pooled: true,
        margin: margin(index, workload, &metric.id),
        metric,
        primary,
        headline: primary,
        baseline: None,
        level: None,
        ratio: None,
        mean_ratio: None,
        verdict: undecided(""),
        p_adjusted: None,
        noise_floor: None,
        noise: None,
        time_points: None,
    }
}

/// An arm by label, number, or a part of exactly one label.
fn find<'a>(index: &Index<'a>, name: &str) -> Result<&'a Arm, Problem> {
    if let Some(arm) = index.arms().find(|a| a.label == name) {
        return Ok(arm);
    }
    if let Some(arm) = name.parse().ok().and_then(|id| index.arm(id)) {
        return Ok(arm);
    }
    let fits: Vec<&Arm> = index.arms().filter(|a| !name.is_empty() && a.label.contains(name)).collect();
    match fits.as_slice() {
        [arm] => Ok(arm),
        [] => Err(Problem::usage(format!("arm {name:?}"), "is not in the bundle").hint(known(index))),
        several => {
            let labels: Vec<&str> = several.iter().take(20).map(|a| a.label.as_str()).collect();
            Err(Problem::usage(format!("arm {name:?}"), format!("fits {} arms", several.len()))
                .hint(format!("take one of them: {}", labels.join("; "))))
        }
    }
}

fn known(index: &Index<'_>) -> String {
    let labels: Vec<String> = index.arms().take(50).map(|a| format!("{} {}", a.id, a.label)).collect();
    let more = index.arms().count().saturating_sub(50);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    if labels.is_empty() {
        "the bundle has no arms".to_owned()
    } else {
        format!("the arms are: {}{more}", labels.join("; "))
    }
}

fn run_name(bundle: &BundleData) -> String {
    let id: String = bundle.head.run_id.chars().take(8).collect();
    format!("{} ({id})", bundle.plan.name)
}

fn pairs(index: &Index<'_>, a: &Arm, b: &Arm, metric: &str) -> Result<Vec<BlockPair>, NoEstimate> {
    let (va, vb) = (index.values(a.id, metric), index.values(b.id, metric));
    for (arm, values) in [(a, &va), (b, &vb)] {
        if values.is_empty() {
            return Err(NoEstimate::new(index.why_absent(arm.id, metric)));
        }
    }
    let by_block = |values: &[(BlockValue, u32)]| {
        let mut blocks: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
        for (v, _) in values {
            blocks.entry((v.session, v.block)).or_default().push(v.value);
        }
        blocks
    };
    let (va, vb) = (by_block(&va), by_block(&vb));
    let mut pairs = Vec::new();
    for ((session, block), a) in &va {
        for b in vb.get(&(*session, *block)).into_iter().flatten() {
            pairs.extend(a.iter().map(|a| BlockPair { session: *session, block: *block, a: *a, b: *b }));
        }
    }
    if pairs.is_empty() { Err(NoEstimate::new("no block has both")) } else { Ok(pairs) }
}

/// The comparisons of one metric between two bundles: pooled, and each arm where there are several.
fn unpaired(
    ia: &Index<'_>,
    ib: &Index<'_>,
    arms: &[(&Arm, &Arm)],
    metric: &Metric,
    blank: &dyn Fn() -> Comparison,
) -> Vec<Draft> {
    let values = |index: &Index<'_>, arm: u32| -> Vec<BlockValue> {
        index.values(arm, &metric.id).into_iter().map(|(v, _)| v).collect()
    };
    let known = ia.metrics(arms.first().map_or("", |(a, _)| a.workload.as_str()));
    let comparable = match known.iter().find(|(m, _)| m.id == metric.id) {
        Some((m, _)) if m.unit == metric.unit => Ok(()),
        Some((m, _)) => Err(NoEstimate::new(format!("the units differ: {} and {}", m.unit, metric.unit))),
        None => Err(NoEstimate::new("the first run has no such metric")),
    };
    let mut drafts = Vec::new();
    let single = arms.len() == 1;
    let is_diagnostic = arms.first().is_some_and(|(_, b)| ib.is_diagnostic(&b.workload, &metric.id));
    if !single && !arms.is_empty() {
        let a: Vec<Vec<BlockValue>> = arms.iter().map(|(a, _)| values(ia, a.id)).collect();
        let b: Vec<Vec<BlockValue>> = arms.iter().map(|(_, b)| values(ib, b.id)).collect();
        let effect = comparable.clone().and_then(|()| Effect::unpaired(&pool(&a)?, &pool(&b)?));
        drafts.push(Draft::unpaired(blank(), effect));
    }
    for (a, b) in arms {
        let mut cell = labels(&b.axes);
        cell.extend(labels(&b.factors));
        if b.replica.is_some() {
            cell.insert("arm".to_owned(), b.label.clone());
        }
        let comparison = Comparison {
            cell: if single { BTreeMap::new() } else { cell },
            headline: single && blank().primary && !is_diagnostic,
            pooled: single,
            baseline: side(ia, a.id, &metric.id),
            level: side(ib, b.id, &metric.id),
            ..blank()
        };
        let effect = comparable
            .clone()
            .and_then(|()| Effect::unpaired(&known_values(ia, a, &metric.id)?, &known_values(ib, b, &metric.id)?));
        drafts.push(Draft::unpaired(comparison, effect));
    }
    drafts
}

/// The values of an arm, of which there is one at least.
fn known_values(index: &Index<'_>, arm: &Arm, metric: &str) -> Result<Vec<BlockValue>, NoEstimate> {
    match index.values(arm.id, metric) {
        values if values.is_empty() => Err(NoEstimate::new(index.why_absent(arm.id, metric))),
        values => Ok(values.into_iter().map(|(value, _)| value).collect()),
    }
}

/// B against A in cells whose results nothing pairs.
pub(crate) fn apart(index: &Index<'_>, cells: &[Cell<'_>], metric: &str) -> Result<Effect, NoEstimate> {
    let a = cells.iter().map(|cell| known_values(index, cell.a, metric)).collect::<Result<Vec<_>, _>>()?;
    let b = cells.iter().map(|cell| known_values(index, cell.b, metric)).collect::<Result<Vec<_>, _>>()?;
    Effect::unpaired(&pool(&a)?, &pool(&b)?)
}

/// One value for each block that has all arms: the geometric mean over them.
fn pool(arms: &[Vec<BlockValue>]) -> Result<Vec<BlockValue>, NoEstimate> {
    let mut blocks: BTreeMap<(u32, u32), BTreeMap<usize, Vec<f64>>> = BTreeMap::new();
    for (i, values) in arms.iter().enumerate() {
        for v in values {
            blocks.entry((v.session, v.block)).or_default().entry(i).or_default().push(v.value);
        }
    }
    let mut pooled = Vec::new();
    for ((session, block), arm_values) in blocks {
        if arm_values.len() < arms.len() {
            continue;
        }
        let means: Option<Vec<f64>> = arm_values.values().map(|v| holdup_stats::geometric_mean(v)).collect();
        let value = means.and_then(|m| holdup_stats::geometric_mean(&m));
        let value =
            value.ok_or_else(|| NoEstimate::new("a value is zero or negative, and a ratio needs values above zero"))?;
        pooled.push(BlockValue { session, block, value });
    }
    Ok(pooled)
}

/// The facts about the host that differ between the first sessions of two runs, as `fact: old → new`.
pub(crate) fn changed_facts(a: &BundleData, b: &BundleData) -> Vec<String> {
    let facts = |bundle: &BundleData| -> BTreeMap<String, String> {
        let first = bundle.environment.first().map(|r| r.facts.as_slice()).unwrap_or_default();
        first.iter().filter_map(|f| Some((f.key.clone(), f.value.clone()?))).collect()
    };
    let (old, new) = (facts(a), facts(b));
    old.iter()
        .filter_map(|(key, old)| new.get(key).filter(|new| *new != old).map(|new| format!("{key}: {old} → {new}")))
        .collect()
}

/// What else differs between the two runs.
fn differences(a: &BundleData, b: &BundleData) -> Option<Finding> {
    let mut details: Vec<String> = changed_facts(a, b).into_iter().map(|fact| format!("{fact}.")).collect();
    if a.plan.settings != b.plan.settings {
        let show = |plan: &holdup_model::Plan| {
            let settings: Vec<String> = plan.settings.iter().map(|(k, v)| format!("{k}={}", v.label)).collect();
            if settings.is_empty() { "none".to_owned() } else { settings.join(", ") }
        };
        details.push(format!("settings of the plan: {} → {}.", show(&a.plan), show(&b.plan)));
    }
    if details.is_empty() {
        return None;
    }
    let sentence = format!("The two runs differ in {} of their environment.", words::count(details.len(), "fact"));
    let meta = &crate::analyses::environment::META;
    Some(Finding { details, ..note(meta, FindingVerdict::Supported, sentence) })
}

/// Arms that only one of the bundles has.
fn unmatched(ia: &Index<'_>, ib: &Index<'_>, matched: &[(&Arm, &Arm)]) -> Option<Finding> {
    let only = |index: &Index<'_>, has: &dyn Fn(&Arm) -> bool| -> Vec<String> {
        index.arms().filter(|a| !has(a)).map(|a| a.label.clone()).collect()
    };
    let (in_a, in_b): (BTreeSet<u32>, BTreeSet<u32>) = matched.iter().map(|(a, b)| (a.id, b.id)).unzip();
    let a = only(ia, &|arm| in_a.contains(&arm.id));
    let b = only(ib, &|arm| in_b.contains(&arm.id));
    if a.is_empty() && b.is_empty() {
        return None;
    }
    let count = a.len() + b.len();
    let sentence = format!(
        "{} in one of the two runs only, and not compared.",
        match count {
            1 => "1 arm is".to_owned(),
            n => format!("{n} arms are"),
        }
    );
    let mut details = Vec::new();
    for (which, labels) in [("first", a), ("second", b)] {
        if !labels.is_empty() {
            let shown: Vec<&str> = labels.iter().take(20).map(String::as_str).collect();
            details.push(format!("Only in the {which}: {}.", shown.join("; ")));
        }
    }
    let meta = &crate::analyses::completeness::META;
    Some(Finding { details, ..note(meta, FindingVerdict::Supported, sentence) })
}
