//! A few trials of an arm that ran far slower than the others of it.

use super::{Context, note};
use crate::index::{Index, labels};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::plan::EffectKind;
use holdup_model::{Arm, Comparison, Finding, Meta, Metric, Trial, Verdict};
use holdup_stats::{ALPHA, ArmValue, fisher_exact, holm, p_of_larger, slow_trials};
use std::collections::BTreeSet;

pub static META: Meta = Meta {
    id: "slow-trials",
    summary: "whether a few trials ran far slower than the others of their arm",
    docs: "On a shared machine some trials may run far slower than the others: a neighbour took the CPUs, or a limit throttled \
           them. A trial is slow when its primary metric is worse than its arm's median by more than 5 robust standard \
           deviations (1.48 times the median distance from the median; of the arm or of all arms, whichever is larger). \
           They are named when they are at least two and one in ten of an arm's, but fewer than half. What rose with them (steal, \
           pressure, other processes) is named only if a permutation test corrected for the number of things looked at says so; \
           otherwise nothing is said about causes. Where one arm has more of them than the arms beside it (Fisher's exact \
           test, 5 % over all arms), they may be the effect itself, and a ratio without them (effect = \"trimmed\") hides it.",
    references: &["docs/statistics.md"],
};

/// The seed of the permutation tests: fixed, so that a bundle always gives the same answer.
const SEED: u64 = 1;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let workloads = &context.bundle().plan.workloads;
    workloads.iter().filter_map(|w| look(context, &w.name)).collect()
}

/// The slow trials of one arm; there may be none.
struct OfArm<'a> {
    arm: &'a Arm,
    slow: Vec<&'a Trial>,
    others: Vec<&'a Trial>,
    ratio: f64,
    is_named: bool,
}

impl OfArm<'_> {
    fn trials(&self) -> u32 {
        count(self.slow.len() + self.others.len())
    }

    /// `4 of 20 trials`.
    fn share(&self) -> String {
        format!("{} of {} trials", self.slow.len(), self.trials())
    }

    /// `30 % slower`.
    fn slower(&self) -> String {
        format!("{} slower", words::percent(self.ratio - 1.0))
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Every arm of a workload that has enough trials.
fn of_arms<'a>(index: &Index<'a>, workload: &str, metric: &Metric) -> Vec<OfArm<'a>> {
    let arms = index.arms().filter(|arm| arm.workload == workload);
    let trials: Vec<&'a Trial> = arms.flat_map(|arm| index.done(arm.id).iter().copied()).collect();
    let measured: Vec<(&'a Trial, f64)> = trials.into_iter().filter_map(|t| Some((t, t.metric(&metric.id)?))).collect();
    let values: Vec<ArmValue> =
        measured.iter().map(|(t, value)| ArmValue { arm: t.arm, session: t.session, value: *value }).collect();
    let of = |places: &[usize]| places.iter().map(|&i| measured[i].0).collect();
    slow_trials(&values, metric.better)
        .into_iter()
        .filter_map(|s| {
            let (slow, others) = (of(&s.slow), of(&s.others));
            Some(OfArm { arm: index.arm(s.arm)?, slow, others, ratio: s.ratio, is_named: s.is_named })
        })
        .collect()
}

/// One arm that has more slow trials than the arms beside it.
struct Uneven<'a, 'b> {
    arm: &'b OfArm<'a>,
    beside_slow: u32,
    beside: u32,
    p: f64,
}

/// Beside an arm stand those with the same axes; all of its workload where no factor has two levels.
fn uneven<'a, 'b>(index: &Index<'_>, arms: &'b [OfArm<'a>]) -> Vec<Uneven<'a, 'b>> {
    let has_factors = index.bundle.plan.factors.iter().any(|f| f.levels.len() > 1);
    let tested = arms.iter().filter_map(|one| {
        let beside = || {
            let others = arms.iter().filter(|other| other.arm.id != one.arm.id);
            others.filter(|other| !has_factors || labels(&other.arm.axes) == labels(&one.arm.axes))
        };
        let beside_slow = count(beside().map(|o| o.slow.len()).sum());
        let n: u32 = beside().map(OfArm::trials).sum();
        let slow = count(one.slow.len());
        let is_more = f64::from(slow) * f64::from(n) > f64::from(beside_slow) * f64::from(one.trials());
        let p = fisher_exact(slow, one.trials(), beside_slow, n) * arms.len() as f64;
        (one.is_named && is_more && p <= ALPHA).then_some(Uneven { arm: one, beside_slow, beside: n, p })
    });
    tested.collect()
}

fn primary(index: &Index<'_>, workload: &str) -> Option<Metric> {
    index.metrics(workload).into_iter().find(|(_, primary)| *primary).map(|(metric, _)| metric)
}

/// What the answer about a comparison without slow trials must say: that they may be the effect itself. `None` where slow trials
/// count, or no arm of the comparison has more of them than the others.
pub(super) fn caution(index: &Index<'_>, c: &Comparison) -> Option<String> {
    c.mean_ratio.as_ref()?;
    let metric = primary(index, &c.workload)?;
    let arms = of_arms(index, &c.workload, &metric);
    let uneven = uneven(index, &arms);
    let first = uneven.first()?;
    Some(format!(
        "Caution: {} of {} ran {}, {} of {} of the arms beside it ({}): the slow trials may be the effect itself, which this \
         ratio leaves out.",
        first.arm.share(),
        first.arm.arm.label,
        first.arm.slower(),
        first.beside_slow,
        first.beside,
        words::p_value(first.p)
    ))
}

fn look(context: &Context<'_>, workload: &str) -> Option<Finding> {
    let metric = primary(context.index, workload)?;
    let arms = of_arms(context.index, workload, &metric);
    let named: Vec<&OfArm<'_>> = arms.iter().filter(|a| a.is_named).collect();
    let worst = named.iter().max_by_key(|a| a.slow.len())?;
    let uneven = uneven(context.index, &arms);
    let mut sentence = match (uneven.first(), named.as_slice()) {
        (Some(u), _) => format!(
            "{} of {} ran {} than the rest, {} of {} of the arms beside it (Fisher's exact test, {}): the slow trials may be \
             an effect of this arm",
            u.arm.share(),
            u.arm.arm.label,
            u.arm.slower(),
            u.beside_slow,
            u.beside,
            words::p_value(u.p)
        ),
        (None, [one]) => format!("{} of {} ran {} than the rest", one.share(), one.arm.label, one.slower()),
        (None, _) => format!(
            "{} ran far slower than the rest of their arm, in {} of {} arms; most in {}, {} and {}",
            words::count(named.iter().map(|a| a.slow.len()).sum(), "trial"),
            named.len(),
            arms.len(),
            worst.arm.label,
            worst.share(),
            worst.slower()
        ),
    };
    let rose = companions(context, &named);
    if !rose.is_empty() {
        sentence.push_str(&format!("; {} rose with them", words::list(&rose)));
    }
    sentence.push('.');
    let mut details: Vec<String> = named
        .iter()
        .map(|a| format!("{}: {}, {} ({}).", a.arm.label, a.share(), a.slower(), trials(&a.slow)))
        .collect();
    details.push(format!(
        "By {}: worse than the arm's median by more than 5 robust standard deviations.",
        words::metric_name(&metric)
    ));
    details.extend(advice(context, workload));
    let seqs: BTreeSet<u32> = named.iter().flat_map(|a| &a.slow).map(|t| t.seq).collect();
    let trials = seqs.into_iter().collect();
    Some(Finding { details, trials, ..note(&META, FindingVerdict::Supported, sentence) })
}

fn trials(of: &[&Trial]) -> String {
    words::trials(&of.iter().map(|t| t.seq).collect::<Vec<_>>())
}

/// What to do, where slow trials may have cost the answer.
fn advice(context: &Context<'_>, workload: &str) -> Option<String> {
    let mut headlines = context.comparisons.iter().filter(|c| c.headline && c.workload == workload);
    let is_trimmed = context.index.effect_kind() == EffectKind::Trimmed;
    let is_open = headlines.any(|c| matches!(c.verdict, Verdict::Undecided { .. }) && c.ratio.is_some());
    (is_open && !is_trimmed).then(|| {
        "They widen the interval. Run again with effect = \"trimmed\" in [design] (--set effect=trimmed), which leaves such \
         trials out: a choice to be made before the run, not after this one."
            .to_owned()
    })
}

/// Something outside of the program under test that may slow trials down.
struct Companion {
    what: &'static str,
    /// Its share in a trial; `None` where the collector did not run.
    share: fn(&Trial, f64) -> Option<f64>,
}

static COMPANIONS: &[Companion] = &[
    Companion { what: "steal", share: |t, _| item(t, "cpu", "cpu_share", "steal") },
    Companion { what: "CPU time of other processes", share: others },
    Companion { what: "CPU time of soft interrupts", share: |t, _| item(t, "cpu", "cpu_share", "softirq") },
    Companion { what: "waiting for disks (iowait)", share: |t, _| item(t, "cpu", "cpu_share", "iowait") },
    Companion { what: "pressure of CPUs", share: |t, _| item(t, "pressure", "pressure_share", "cpu some") },
    Companion { what: "pressure of memory", share: |t, _| item(t, "pressure", "pressure_share", "memory some") },
    Companion { what: "pressure of I/O", share: |t, _| item(t, "pressure", "pressure_share", "io some") },
    Companion {
        what: "throttling by the group's CPU limit",
        share: |t, _| item(t, "cgroup-throttling", "cgroup_throttled_share", ""),
    },
];

fn item(trial: &Trial, collector: &str, name: &str, label: &str) -> Option<f64> {
    let items = trial.evidence.iter().filter(|c| c.collector == collector).flat_map(|c| &c.items);
    let mut named = items.filter(|i| i.name == name && i.label.as_deref().unwrap_or_default() == label);
    named.find_map(|i| i.value.value()).filter(|v| v.is_finite())
}

/// What the host's CPUs did beside the tasks that the collector knows, as a share of all CPUs.
fn others(trial: &Trial, cpus: f64) -> Option<f64> {
    let kinds = ["user", "nice", "system"].map(|kind| item(trial, "cpu", "cpu_share", kind));
    let busy: f64 = kinds.into_iter().sum::<Option<f64>>()?;
    let items = trial.evidence.iter().filter(|c| c.collector == "cpu").flat_map(|c| &c.items);
    let known: Vec<f64> = items.filter(|i| i.name == "cpu_used").filter_map(|i| i.value.value()).collect();
    (!known.is_empty() && cpus > 0.0).then(|| (busy - known.iter().sum::<f64>() / cpus).max(0.0))
}

/// By arm, the values of its trials and whether these are slow.
type Groups = Vec<Vec<(f64, bool)>>;

/// What rose with the slow trials, with its means: `steal (12 % against 0.3 %)`. Ranks are shuffled within each arm.
fn companions(context: &Context<'_>, named: &[&OfArm<'_>]) -> Vec<String> {
    let cpus = f64::from(context.bundle().head.machine.cpus);
    let measured: Vec<(&Companion, Groups)> = COMPANIONS
        .iter()
        .map(|companion| {
            let of = |trials: &[&Trial], is_slow: bool| -> Vec<(f64, bool)> {
                trials.iter().filter_map(|t| Some(((companion.share)(t, cpus)?, is_slow))).collect()
            };
            (companion, named.iter().map(|a| [of(&a.slow, true), of(&a.others, false)].concat()).collect())
        })
        .filter(|(_, groups): &(_, Groups)| groups.iter().flatten().any(|(value, _)| *value > 0.0))
        .collect();
    let p: Vec<f64> = measured.iter().map(|(_, groups)| p_of_larger(groups, SEED)).collect();
    let rose = measured.iter().zip(holm(&p)).filter(|(_, p)| *p <= ALPHA);
    rose.map(|((companion, groups), _)| {
        let mean = |is_slow: bool| {
            let values: Vec<f64> = groups.iter().flatten().filter(|(_, slow)| *slow == is_slow).map(|v| v.0).collect();
            words::percent(values.iter().sum::<f64>() / values.len().max(1) as f64)
        };
        format!("{} ({} against {})", companion.what, mean(true), mean(false))
    })
    .collect()
}
