//! Arms as a chart or a table shows them: a series (what the factors are), a place on an axis, a panel.

use crate::text::clean;
use holdup_model::outcome::{ArmMetric, ArmSummary};
use holdup_model::plan::WorkloadUse;
use holdup_model::{Analysis, Arm, BundleData, Factor, Metric, Plan, Replica};

/// An arm with its place.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a> {
    pub(crate) arm: &'a Arm,
    pub(crate) summary: Option<&'a ArmSummary>,
    /// Its series, a number into [`Names`].
    pub(crate) series: usize,
    /// Its level on the axis of its workload, a number into the axis' levels.
    pub(crate) x: Option<usize>,
    /// Its panel, a number into [`Layout::panels`].
    pub(crate) panel: usize,
}

impl<'a> Placed<'a> {
    pub(crate) fn metric(&self, id: &str) -> Option<&'a ArmMetric> {
        self.summary?.metrics.iter().find(|m| m.metric == id)
    }
}

/// The names of all series of a bundle, in the order of their colours: the baseline first, replicas last.
pub(crate) struct Names(pub(crate) Vec<Name>);

/// A series.
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) replica: bool,
}

/// The name of the series that has every factor at its baseline.
pub(crate) const BASELINE: &str = "baseline";

/// What distinguishes an arm from the baseline at the same axes.
pub(crate) fn name(plan: &Plan, arm: &Arm) -> String {
    let baseline = |factor: &str| {
        let found = plan.factors.iter().find(|f| f.name == factor);
        found.and_then(|f| f.levels.first()).map(|l| l.label.as_str())
    };
    let mut moved: Vec<String> = arm
        .factors
        .iter()
        .filter(|(factor, level)| baseline(factor) != Some(level.label.as_str()))
        .map(|(factor, level)| clean(&format!("{factor}={}", level.label)))
        .collect();
    // An axis of words beside the one that is drawn over acts like a factor: lock algorithms, for example.
    let axes = plan.workload(&arm.workload).map(|w| (w, w.curve_axis()));
    let axes = axes.iter().flat_map(|(w, x)| w.axes.iter().filter(move |a| x.is_none_or(|x| x.name != a.name)));
    moved.extend(axes.filter(|a| !a.is_numeric()).filter_map(|a| {
        let level = arm.axes.get(&a.name)?;
        let first = a.levels.first().map(|l| l.label.as_str());
        (first != Some(level.label.as_str())).then(|| clean(&format!("{}={}", a.name, level.label)))
    }));
    let base = if moved.is_empty() { BASELINE.to_owned() } else { moved.join(" ") };
    match arm.replica {
        None => base,
        Some(Replica::Same) => format!("{base} again (A/A)"),
        Some(Replica::Unobserved) => format!("{base} without collectors"),
    }
}

impl Names {
    pub(crate) fn new(bundle: &BundleData) -> Self {
        let mut names: Vec<Name> = Vec::new();
        for arm in &bundle.schedule.arms {
            let text = name(&bundle.plan, arm);
            if !names.iter().any(|n| n.text == text) {
                names.push(Name { text, replica: arm.replica.is_some() });
            }
        }
        names.sort_by_key(|n| (n.text != BASELINE, n.replica));
        Names(names)
    }

    fn index(&self, text: &str) -> usize {
        self.0.iter().position(|n| n.text == text).unwrap_or(0)
    }
}

/// A workload with its arms in their places.
pub(crate) struct Layout<'a> {
    pub(crate) workload: &'a WorkloadUse,
    /// The axis that curves are drawn over: the first with numbers, else the first.
    pub(crate) axis: Option<&'a Factor>,
    /// What the other axes are at, in words; one empty word when there is no other axis.
    pub(crate) panels: Vec<String>,
    pub(crate) arms: Vec<Placed<'a>>,
    /// Its metrics, the primary one first.
    pub(crate) metrics: Vec<&'a Metric>,
}

/// The layouts of all workloads of a plan.
pub(crate) fn layouts<'a>(bundle: &'a BundleData, analysis: &'a Analysis, names: &Names) -> Vec<Layout<'a>> {
    bundle.plan.workloads.iter().map(|w| layout(bundle, analysis, names, w)).collect()
}

fn layout<'a>(bundle: &'a BundleData, analysis: &'a Analysis, names: &Names, workload: &'a WorkloadUse) -> Layout<'a> {
    let axis = workload.curve_axis();
    let several = || workload.axes.iter().filter(|a| a.levels.len() > 1 && a.is_numeric());
    let mut panels: Vec<String> = Vec::new();
    let mut arms = Vec::new();
    for arm in bundle.schedule.arms.iter().filter(|a| a.workload == workload.name) {
        let others: Vec<String> = several()
            .filter(|a| axis.is_none_or(|axis| axis.name != a.name))
            .filter_map(|a| arm.axes.get(&a.name).map(|l| clean(&format!("{}={}", a.name, l.label))))
            .collect();
        let others = others.join(", ");
        let panel = panels.iter().position(|p| *p == others).unwrap_or_else(|| {
            panels.push(others);
            panels.len() - 1
        });
        let x = axis.and_then(|axis| {
            let level = arm.axes.get(&axis.name)?;
            axis.levels.iter().position(|l| l.label == level.label)
        });
        let summary = analysis.arms.iter().find(|s| s.arm == arm.id);
        let series = names.index(&name(&bundle.plan, arm));
        arms.push(Placed { arm, summary, series, x, panel });
    }
    let mut metrics: Vec<&Metric> =
        bundle.metrics.iter().filter(|(w, _)| *w == workload.name).map(|(_, m)| m).collect();
    metrics.sort_by_key(|m| !is_primary(&bundle.plan, &workload.name, &m.id));
    Layout { workload, axis, panels, arms, metrics }
}

/// True if a metric is the headline's.
pub(crate) fn is_primary(plan: &Plan, workload: &str, metric: &str) -> bool {
    plan.metric_choice(workload, metric).is_some_and(|choice| choice.primary)
}

impl<'a> Layout<'a> {
    /// The numbers of the series that this workload has, ascending.
    pub(crate) fn series(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.arms.iter().map(|a| a.series).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The level of the axis at a place: its number if it is one, and its label.
    pub(crate) fn level(&self, x: Option<usize>) -> (Option<f64>, String) {
        let level = self.axis.zip(x).and_then(|(axis, x)| axis.levels.get(x));
        level.map_or((None, String::new()), |l| (l.number(), clean(&l.label)))
    }

    /// True if the axis is one of numbers.
    pub(crate) fn is_numeric(&self) -> bool {
        self.axis.is_some_and(Factor::is_numeric)
    }

    /// The cells of the axes that have arms, in the order of the plan.
    pub(crate) fn cells(&self) -> Vec<(usize, Option<usize>)> {
        let mut cells: Vec<(usize, Option<usize>)> = self.arms.iter().map(|a| (a.panel, a.x)).collect();
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    /// A cell in words: `clients=16`; the workload's name when there is but one.
    pub(crate) fn cell_name(&self, (panel, x): (usize, Option<usize>)) -> String {
        let mut words = Vec::new();
        if let (Some(axis), Some(_)) = (self.axis, x) {
            words.push(format!("{}={}", clean(&axis.name), self.level(x).1));
        }
        if let Some(panel) = self.panels.get(panel).filter(|p| !p.is_empty()) {
            words.push(panel.clone());
        }
        if words.is_empty() { clean(&self.workload.name) } else { words.join(", ") }
    }

    /// The arms of a cell, by series.
    pub(crate) fn at(&self, (panel, x): (usize, Option<usize>)) -> Vec<Placed<'a>> {
        let mut arms: Vec<Placed<'a>> = self.arms.iter().filter(|a| a.panel == panel && a.x == x).copied().collect();
        arms.sort_by_key(|a| a.series);
        arms
    }
}
