//! What a bundle of windows says of itself: its plan, its metrics and its head.

use crate::window::unix_ns;
use holdup_evidence::CollectOptions;
use holdup_model::bundle::{BundleHead, OBSERVED};
use holdup_model::metric::{Measured, Measurement};
use holdup_model::{Collected, Design, Direction, Machine, Metric, Plan, Trial};

/// Stands in place of the text of a plan.
pub(crate) const SOURCE: &str =
    "# This bundle was recorded from a system that ran already: there is no plan to run again.\n";

/// The metric that needs no connection.
const CPUS_USED: &str = "cpus_used";

/// What is watched, and how.
pub(crate) struct Observed {
    /// In words: `all processes named nginx`.
    pub(crate) watched: String,
    /// True if a PostgreSQL server answers.
    pub(crate) has_postgres: bool,
    pub(crate) window_ns: u64,
    pub(crate) collectors: Vec<String>,
    pub(crate) options: CollectOptions,
}

/// The head of a bundle that begins now.
pub(crate) fn head(command: Vec<String>, machine: Machine) -> BundleHead {
    BundleHead {
        run_id: format!("{:016x}{:08x}", unix_ns(), std::process::id()),
        holdup_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        created_unix_ns: unix_ns(),
        target: "local".to_owned(),
        emulated: None,
        machine,
    }
}

impl Observed {
    pub(crate) fn plan(&self, windows: u32) -> Plan {
        let question = format!("What holds up {}?", self.watched);
        let mut blank = Plan::observational("record", question, OBSERVED, "local");
        for workload in &mut blank.workloads {
            // More or less of it is neither better nor worse.
            workload.semantics.diagnostics.push(CPUS_USED.to_owned());
        }
        Plan {
            design: Design { blocks: windows, duration_ns: self.window_ns, ..blank.design },
            collectors: self.collectors.clone(),
            collect: self.options.clone(),
            ..blank
        }
    }

    /// What collectors can give as metrics.
    pub(crate) fn metrics(&self) -> Vec<(String, Metric)> {
        let has = |id: &str| self.collectors.iter().any(|c| c == id);
        let metric = |id: &str, unit: &str, better, summary: &str| {
            let metric = Metric { id: id.to_owned(), unit: unit.to_owned(), better, summary: summary.to_owned() };
            (OBSERVED.to_owned(), metric)
        };
        let mut all = Vec::new();
        if has("postgres-statistics") && self.has_postgres {
            all.push(metric("tps", "1/s", Direction::Higher, "transactions committed each second (pg_stat_database)"));
        }
        if has("cpu") {
            all.push(metric(CPUS_USED, "cpus", Direction::Lower, "CPUs that the watched processes used"));
        }
        all
    }

    /// Takes the metrics of a window from its evidence.
    pub(crate) fn measure(&self, trial: &mut Trial) {
        let length_s = trial.window.map_or(0.0, |w| w.length_ns as f64 / 1e9);
        trial.measurements =
            self.metrics().iter().map(|(_, metric)| measure(&metric.id, &trial.evidence, length_s)).collect();
    }
}

fn measure(id: &str, evidence: &[Collected], length_s: f64) -> Measurement {
    let (collector, item, label) = match id {
        "tps" => ("postgres-statistics", "postgres", Some("database xact_commit")),
        _ => ("cpu", "cpu_used", None),
    };
    let Some(found) = evidence.iter().find(|c| c.collector == collector) else {
        return Measurement::absent(id, format!("collector {collector} did not run"));
    };
    let mut sum = None;
    for item in found.items.iter().filter(|i| i.name == item && (label.is_none() || i.label.as_deref() == label)) {
        match &item.value {
            Measured::Value(value) => sum = Some(sum.unwrap_or(0.0) + value),
            Measured::Absent(why) => return Measurement::absent(id, why.clone()),
        }
    }
    match sum {
        Some(sum) if id == "tps" => Measurement::new(id, sum / length_s),
        Some(sum) => Measurement::new(id, sum),
        None => Measurement::absent(id, format!("{collector} brought no {item}")),
    }
}
