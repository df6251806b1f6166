//! Sweeps over an axis of numbers: the arms that form one curve, with their results.

use crate::index::{Index, labels};
use holdup_model::{Arm, Direction, Factor, Metric};
use std::collections::BTreeMap;

/// One result on a curve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// The number of clients, threads, …
    pub(crate) load: f64,
    /// In the metric's unit.
    pub(crate) value: f64,
    pub(crate) block: u32,
    pub(crate) seq: u32,
}

/// The arms that differ in the load only.
pub(crate) struct Curve<'a> {
    pub(crate) workload: &'a str,
    pub(crate) axis: &'a Factor,
    /// What distinguishes it from the other curves of the workload: `autogroup=off`; empty when it is the only one.
    pub(crate) name: String,
    pub(crate) arms: Vec<(f64, &'a Arm)>,
}

/// The curves of a bundle: those over the axis of numbers that curves are drawn over, with at least `least` loads.
pub(crate) fn curves<'a>(index: &Index<'a>, least: usize) -> Vec<Curve<'a>> {
    let mut curves = Vec::new();
    for workload in &index.bundle.plan.workloads {
        let Some(axis) = workload.curve_axis().filter(|a| a.is_numeric()) else { continue };
        let mut groups: BTreeMap<BTreeMap<String, String>, Vec<(f64, &'a Arm)>> = BTreeMap::new();
        for arm in index.arms().filter(|a| a.workload == workload.name && a.replica.is_none()) {
            let Some(load) = arm.axes.get(&axis.name).and_then(holdup_model::Level::number) else { continue };
            let mut rest = labels(&arm.axes);
            rest.remove(&axis.name);
            rest.extend(labels(&arm.factors));
            groups.entry(rest).or_default().push((load, arm));
        }
        let several = groups.len() > 1;
        for (rest, arms) in groups.into_iter().filter(|(_, arms)| arms.len() >= least) {
            let name = if several { crate::compare::cell_name(&rest) } else { String::new() };
            curves.push(Curve { workload: &workload.name, axis, name, arms });
        }
    }
    curves
}

impl Curve<'_> {
    /// `select-only with autogroup=off`.
    pub(crate) fn subject(&self) -> String {
        if self.name.is_empty() { self.workload.to_owned() } else { format!("{} with {}", self.workload, self.name) }
    }

    /// The results of a metric at all loads.
    pub(crate) fn results(&self, index: &Index<'_>, metric: &str) -> Vec<Reading> {
        let of_arm = |(load, arm): &(f64, &Arm)| {
            let load = *load;
            let values = index.values(arm.id, metric).into_iter();
            values.map(move |(v, seq)| Reading { load, value: v.value, block: v.block, seq }).collect::<Vec<_>>()
        };
        self.arms.iter().flat_map(of_arm).collect()
    }
}

/// The metric that counts work done by time: the primary one when more of it is better, otherwise the first such.
pub(crate) fn throughput(index: &Index<'_>, workload: &str) -> Option<Metric> {
    let metrics = index.metrics(workload);
    let counts = |m: &Metric| {
        m.better == Direction::Higher && (m.id == "tps" || m.unit.ends_with("/s") || m.id.ends_with("_per_s"))
    };
    metrics.into_iter().map(|(m, _)| m).find(counts)
}
