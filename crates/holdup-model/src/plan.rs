//! A checked plan: what `holdup-plan` makes of a TOML file, and what a bundle keeps.

use crate::arm::Arm;
use crate::ends::Hosts;
use crate::guest::{Guest, is_chosen_at_boot};
use crate::metric::Direction;
use crate::nodes::Nodes;
use crate::profile::Profile;
use crate::semantics::Semantics;
use crate::value::{Parameters, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A checked plan. Relative sizes are resolved, names are known, types hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// A short name, from the plan or its file name.
    pub name: String,
    /// The question that the run answers, in a sentence.
    pub question: String,
    /// The workloads; comparisons are made within one workload, never between two.
    pub workloads: Vec<WorkloadUse>,
    /// The factors, each with its baseline level first. They hold for every workload
    /// unless the factor names some.
    pub factors: Vec<Factor>,
    /// Knobs and workload factors that are set once for every arm, as `(name, level)`.
    pub settings: Vec<(String, Level)>,
    /// The profiles that the levels of the factor `profile` name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// How arms, blocks and sessions are laid out.
    pub design: Design,
    /// The metrics that the plan names; one is primary.
    pub metrics: Vec<MetricChoice>,
    /// The ids of the collectors to run.
    pub collectors: Vec<String>,
    /// What is asked of them.
    #[serde(default)]
    pub collect: CollectOptions,
    /// The target: `local`, `qemu`, `ssh:HOST`, `sim`.
    pub target: String,
    /// The machine of each boot; only for targets that boot one.
    #[serde(default)]
    pub guest: Option<Guest>,
    /// The two ends of each trial, where they are on two hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Hosts>,
    /// What the nodes of a cluster must have that run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// Combinations of levels that are not run.
    #[serde(default)]
    pub exclude: Vec<Exclusion>,
    /// The report that it is about; a prediction is held against the ratios in its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// What a user may ask of collectors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectOptions {
    /// Functions whose critical sections are to be known, beside those that are known anyway.
    #[serde(default)]
    pub sections: Vec<String>,
    /// How often CPUs are sampled, Hz; `None` for each collector's own.
    #[serde(default)]
    pub frequency_hz: Option<u32>,
    /// True if call stacks are those of single tasks, and queries those of single sessions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_task: bool,
    /// True if page faults are timed in a part of the time only, and counted as of the whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub samples_faults: bool,
    /// True if no breakpoint is set in a thread under test: the residual times of preempted holders are not known then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_breakpoints: bool,
}

impl CollectOptions {
    /// The highest [`CollectOptions::frequency_hz`]. The kernel's own limit is kernel.perf_event_max_sample_rate, 100,000
    /// by default; above some kHz the samples themselves are most of what is seen.
    pub const MOST_HZ: u32 = 4_000;
}

/// Arms that are not run: those in which each factor named here has one of its levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exclusion {
    /// Factors or axes with their levels.
    pub levels: Vec<(String, Vec<Level>)>,
}

/// A workload as the plan uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadUse {
    /// Its name in the plan, unique there; the id of the catalogue when none is given.
    pub name: String,
    /// Its id in the catalogue.
    pub kind: String,
    /// The parameters that are the same in all arms, defaults included.
    pub parameters: Parameters,
    /// The parameters with several values. First level = baseline.
    pub axes: Vec<Factor>,
    /// A negative control must not move; when it does, the findings say so.
    pub negative_control: bool,
    /// What its metrics mean.
    #[serde(default)]
    pub semantics: Semantics,
}

impl WorkloadUse {
    /// The axis that curves are drawn over: the first of several numbers, else the first of several levels.
    pub fn curve_axis(&self) -> Option<&Factor> {
        let several = || self.axes.iter().filter(|a| a.levels.len() > 1);
        several().find(|a| a.is_numeric()).or_else(|| several().next())
    }
}

impl Factor {
    /// True if all levels are numbers.
    pub fn is_numeric(&self) -> bool {
        self.levels.iter().all(|level| level.number().is_some())
    }
}

impl Level {
    /// The level as a number; `None` for words.
    pub fn number(&self) -> Option<f64> {
        self.value.number()
    }
}

/// A factor or an axis: a name and its levels, the baseline first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// The knob's or parameter's name.
    pub name: String,
    /// The levels; the first is the baseline.
    pub levels: Vec<Level>,
    /// The names of the workloads that it holds for; empty for all.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// `optional = true` in a plan: where the knob cannot be used, the factor is left out before the
    /// schedule is made, and the bundle's log says so. Never true for an axis.
    #[serde(default)]
    pub optional: bool,
}

/// A level: its value and how the user wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The value, with durations in ns and sizes in bytes.
    pub value: Value,
    /// How it is shown: as written, with what it came to (`2x cpus = 4` shows as `4`).
    pub label: String,
}

impl Level {
    /// A level that is shown as its value is.
    pub fn plain(value: impl Into<Value>) -> Self {
        let value = value.into();
        Level { label: value.to_string(), value }
    }
}

/// How arms are made of factors. Axes are always crossed with everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Every combination of levels.
    Factorial,
    /// The baseline, and each other level alone.
    OneAtATime,
}

/// When a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopRule {
    /// After the planned blocks, or when the budget is used up.
    Blocks,
    /// As soon as every headline has its verdict (looked at after each block from the fourth on, or after each
    /// session where there are several, at levels that keep the error of the whole run); at the latest after the
    /// planned blocks, or when the budget is used up.
    Decided,
}

/// How the experiment is laid out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// How arms are made of factors.
    pub layout: Layout,
    /// Blocks in each session, at most; every block holds each arm once, in random order.
    pub blocks: u32,
    /// Sessions: fresh clusters (later: boots).
    pub sessions: u32,
    /// The seed of every random choice.
    pub seed: u64,
    /// True if each cell of the axes has the baseline twice (A/A).
    pub aa_pair: bool,
    /// True if each cell of the axes has the baseline once more without collectors.
    pub unobserved_pair: bool,
    /// Time between setting an arm and starting its load, ns.
    pub settle_ns: u64,
    /// Load before the window opens, ns.
    pub warmup_ns: u64,
    /// Length of the window, ns.
    pub duration_ns: u64,
    /// When the run stops.
    pub stop: StopRule,
    /// The longest that the run may take, ns; it ends at a block's end before that.
    pub budget_ns: Option<u64>,
    /// How often a void trial is repeated.
    pub retries: u32,
    /// A trial in whose window the hypervisor took a larger share of all CPU time is void; from 0 to 1.
    #[serde(default = "default_max_steal_share")]
    pub max_steal_share: f64,
    /// Which trials ratios are of.
    #[serde(default)]
    pub effect: EffectKind,
}

/// Which trials a ratio is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// All that count.
    #[default]
    Mean,
    /// Those of blocks in which no trial is far slower than the others of its arm.
    Trimmed,
}

/// The largest share of stolen CPU time in a window, when a plan states none.
pub const DEFAULT_MAX_STEAL_SHARE: f64 = 0.1;

fn default_max_steal_share() -> f64 {
    DEFAULT_MAX_STEAL_SHARE
}

/// A metric that the plan names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricChoice {
    /// The metric's id.
    pub id: String,
    /// The workload it belongs to; `None` for every workload that has it.
    pub workload: Option<String>,
    /// True if it is the metric of the headline. One is for each workload.
    pub primary: bool,
    /// The direction, where the plan overrides or defines it.
    pub better: Option<Direction>,
    /// The unit, where the plan defines it (`command`).
    pub unit: Option<String>,
    /// Equivalence margin as a share: 0.02 means "within 2 %".
    pub margin: f64,
    /// How to read it from a program's output (`command`).
    pub from: Option<Extract>,
}

/// How a metric is read from a program's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extract {
    /// The first group of the last match of a regular expression.
    Regex(String),
    /// A JSON pointer (RFC 6901) into the output read as one JSON document.
    Json(String),
    /// The program's own duration, in seconds.
    Duration,
}

impl Plan {
    /// What a bundle has as its plan where no load was planned: one workload that holdup did not start, in blocks that follow each
    /// other, without factors, metrics and collectors.
    pub fn observational(name: &str, question: String, workload: &str, target: &str) -> Plan {
        Plan {
            name: name.to_owned(),
            question,
            workloads: vec![WorkloadUse {
                name: workload.to_owned(),
                kind: workload.to_owned(),
                parameters: Parameters::default(),
                axes: Vec::new(),
                negative_control: false,
                semantics: Semantics::default(),
            }],
            factors: Vec::new(),
            settings: Vec::new(),
            profiles: Vec::new(),
            design: Design {
                layout: Layout::Factorial,
                blocks: 1,
                sessions: 1,
                seed: 0,
                aa_pair: false,
                unobserved_pair: false,
                settle_ns: 0,
                warmup_ns: 0,
                duration_ns: 0,
                stop: StopRule::Blocks,
                budget_ns: None,
                retries: 0,
                max_steal_share: DEFAULT_MAX_STEAL_SHARE,
                effect: EffectKind::default(),
            },
            metrics: Vec::new(),
            collectors: Vec::new(),
            collect: CollectOptions::default(),
            target: target.to_owned(),
            guest: None,
            hosts: None,
            nodes: None,
            exclude: Vec::new(),
            report: None,
        }
    }

    /// The workload with this name.
    pub fn workload(&self, name: &str) -> Option<&WorkloadUse> {
        self.workloads.iter().find(|w| w.name == name)
    }

    /// The plan's choice for a metric of a workload.
    pub fn metric_choice(&self, workload: &str, metric: &str) -> Option<&MetricChoice> {
        self.metrics.iter().find(|m| m.id == metric && m.workload.as_deref().is_none_or(|w| w == workload))
    }

    /// What is chosen when the guest of an arm boots, as level by name: what the plan fixes, and the arm's levels.
    /// A factor that does not hold for the arm's workload has its baseline there, so that arms of several workloads
    /// share a boot.
    pub fn chosen_at_boot<'a>(&'a self, arm: &'a Arm) -> BTreeMap<&'a str, &'a Level> {
        let at_boot = |name: &str| is_chosen_at_boot(name);
        let fixed = self.settings.iter().filter(|(name, _)| at_boot(name)).map(|(name, level)| (name.as_str(), level));
        let factors = self.factors.iter().filter(|f| at_boot(&f.name));
        let varied =
            factors.filter_map(|f| Some((f.name.as_str(), arm.factors.get(&f.name).or_else(|| f.levels.first())?)));
        fixed.chain(varied).collect()
    }

    /// True if something that is chosen at boot has several levels.
    pub fn varies_at_boot(&self) -> bool {
        self.factors.iter().any(|f| f.levels.len() > 1 && is_chosen_at_boot(&f.name))
    }
}

impl Exclusion {
    /// True if an arm with these levels is left out: it has everything that is named here, at one of its levels.
    pub fn matches<'a>(&self, level_of: impl Fn(&str) -> Option<&'a Level>) -> bool {
        self.levels.iter().all(|(name, levels)| {
            level_of(name).is_some_and(|level| levels.iter().any(|excluded| excluded.value == level.value))
        })
    }
}
