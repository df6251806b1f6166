//! A bundle, by arm and by block.

use holdup_model::plan::{EffectKind, Level, StopRule};
use holdup_model::{Arm, BundleData, Measured, Metric, Trial};
use holdup_stats::{ALPHA, BlockValue, Looks};
use std::collections::BTreeMap;

/// A bundle with its trials sorted into arms.
pub(crate) struct Index<'a> {
    pub(crate) bundle: &'a BundleData,
    arms: BTreeMap<u32, &'a Arm>,
    done: BTreeMap<u32, Vec<&'a Trial>>,
}

/// The levels of an arm by name, as a key.
pub(crate) fn labels(levels: &BTreeMap<String, Level>) -> BTreeMap<String, String> {
    levels.iter().map(|(name, level)| (name.clone(), level.label.clone())).collect()
}

impl<'a> Index<'a> {
    pub(crate) fn new(bundle: &'a BundleData) -> Self {
        let arms = bundle.schedule.arms.iter().map(|arm| (arm.id, arm)).collect();
        let mut done: BTreeMap<u32, Vec<&Trial>> = BTreeMap::new();
        for trial in bundle.trials.iter().filter(|t| t.is_done()) {
            done.entry(trial.arm).or_default().push(trial);
        }
        Index { bundle, arms, done }
    }

    /// The arms in order.
    pub(crate) fn arms(&self) -> impl Iterator<Item = &'a Arm> + '_ {
        self.arms.values().copied()
    }

    /// The arm of a trial; `None` when the bundle does not hold it.
    pub(crate) fn arm(&self, id: u32) -> Option<&'a Arm> {
        self.arms.get(&id).copied()
    }

    /// The trials of an arm that count, in the order run.
    pub(crate) fn done(&self, arm: u32) -> &[&'a Trial] {
        self.done.get(&arm).map_or(&[], Vec::as_slice)
    }

    /// The metrics of a workload, the primary one first, with the plan's directions.
    pub(crate) fn metrics(&self, workload: &str) -> Vec<(Metric, bool)> {
        let choices = |metric: &str| self.bundle.plan.metric_choice(workload, metric);
        let mut metrics: Vec<Metric> = Vec::new();
        for (_, metric) in self.bundle.metrics.iter().filter(|(w, _)| w == workload) {
            if metrics.iter().all(|m| m.id != metric.id) {
                let better = choices(&metric.id).and_then(|c| c.better).unwrap_or(metric.better);
                metrics.push(Metric { better, ..metric.clone() });
            }
        }
        let primary = metrics.iter().position(|m| choices(&m.id).is_some_and(|c| c.primary)).unwrap_or(0);
        let mut sorted: Vec<(Metric, bool)> = Vec::with_capacity(metrics.len());
        for (i, metric) in metrics.into_iter().enumerate() {
            if i == primary {
                sorted.insert(0, (metric, true));
            } else {
                sorted.push((metric, false));
            }
        }
        sorted
    }

    /// The metrics of a workload that are compared: all but the diagnostics.
    pub(crate) fn compared(&self, workload: &str) -> Vec<(Metric, bool)> {
        self.metrics(workload)
            .into_iter()
            .filter(|(m, primary)| *primary || !self.is_diagnostic(workload, &m.id))
            .collect()
    }

    /// True if a metric shows what happened, and not how well.
    pub(crate) fn is_diagnostic(&self, workload: &str, metric: &str) -> bool {
        self.bundle.plan.workload(workload).is_some_and(|w| w.semantics.diagnostics.iter().any(|id| id == metric))
    }

    /// The measured values of an arm with their blocks and trials.
    pub(crate) fn values(&self, arm: u32, metric: &str) -> Vec<(BlockValue, u32)> {
        let value = |t: &&Trial| {
            let value = t.metric(metric)?;
            Some((BlockValue { session: t.session, block: t.block, value }, t.seq))
        };
        self.done(arm).iter().filter_map(value).collect()
    }

    /// Why an arm has no value of a metric.
    pub(crate) fn why_absent(&self, arm: u32, metric: &str) -> String {
        let label = self.arm(arm).map_or_else(|| format!("arm {arm}"), |a| a.label.clone());
        let done = self.done(arm);
        if done.is_empty() {
            return format!("no trial of {label} counts");
        }
        let reason = done.iter().flat_map(|t| &t.measurements).find_map(|m| match &m.value {
            Measured::Absent(why) if m.metric == metric => Some(why.clone()),
            _ => None,
        });
        reason.unwrap_or_else(|| format!("no trial of {label} measured it"))
    }

    /// Which trials the ratios of blocks are of.
    pub(crate) fn effect_kind(&self) -> EffectKind {
        self.bundle.plan.design.effect
    }

    /// Blocks in which at least one trial counts.
    pub(crate) fn blocks_run(&self) -> u32 {
        let blocks: std::collections::BTreeSet<(u32, u32)> =
            self.done.values().flatten().map(|t| (t.session, t.block)).collect();
        u32::try_from(blocks.len()).unwrap_or(u32::MAX)
    }

    /// The looks of a run that stops when it is decided, and the pieces that are there by now: sessions where
    /// the plan has several, otherwise blocks. `None` for a run of a fixed number of blocks.
    pub(crate) fn look(&self) -> Option<(Looks, u32)> {
        let design = &self.bundle.plan.design;
        if design.stop == StopRule::Blocks {
            return None;
        }
        if design.sessions < 2 {
            return Some((Looks::until(design.blocks), self.blocks_run()));
        }
        let sessions: std::collections::BTreeSet<u32> = self.done.values().flatten().map(|t| t.session).collect();
        Some((Looks::until(design.sessions), u32::try_from(sessions.len()).unwrap_or(u32::MAX)))
    }

    /// The level of every test of this bundle: 5 %, or that of the look at which the run ended.
    pub(crate) fn level(&self) -> f64 {
        self.look().map_or(ALPHA, |(looks, pieces)| looks.level(pieces))
    }

    /// True if two levels of the plan's first level: the baseline of a factor.
    pub(crate) fn is_baseline(&self, factor: &str, level: &Level) -> bool {
        let known = self.bundle.plan.factors.iter().find(|f| f.name == factor);
        known.and_then(|f| f.levels.first()).is_none_or(|first| first == level)
    }
}
