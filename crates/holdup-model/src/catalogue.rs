//! What a member of a catalogue (workload, collector, knob, lock algorithm,
//! analysis, target) says about itself.

use crate::semantics::Semantics;
use serde::{Deserialize, Serialize};

/// What every catalogue member states. `holdup list KIND` and the reference
/// pages are made from it.
#[derive(Debug, Clone, Serialize)]
pub struct Meta {
    /// Kebab-case, unique in its catalogue, stable for ever (it is in bundles).
    /// Equal to the file name with `-` for `_`.
    pub id: &'static str,
    /// One line of at most 72 characters, without a full stop.
    pub summary: &'static str,
    /// Some paragraphs: what it is, how it is measured or done, its limits.
    pub docs: &'static str,
    /// Where the facts come from: kernel file and function with version, RFC, paper, manual.
    pub references: &'static [&'static str],
}

/// Whether something can be used here. Asking never fails and never writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Availability {
    /// It works in full.
    Ready,
    /// It works in part.
    Degraded {
        /// What is lost, and why.
        reason: String,
    },
    /// It cannot work here.
    Unavailable {
        /// Why.
        reason: String,
        /// A command or a setting that would make it work, if there is one.
        remedy: Option<String>,
    },
}

impl Availability {
    /// An `Unavailable` without a remedy.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Availability::Unavailable { reason: reason.into(), remedy: None }
    }

    /// An `Unavailable` with what would make it work.
    pub fn unavailable_but(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Availability::Unavailable { reason: reason.into(), remedy: Some(remedy.into()) }
    }

    /// Whether it works at least in part.
    pub fn is_usable(&self) -> bool {
        !matches!(self, Availability::Unavailable { .. })
    }
}

/// The type of a parameter or of a knob's values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// A whole number within bounds. A plan may write `"2x cpus"` for it.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A real number within bounds.
    Float {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// `"500ms"`, `"2s"`, `"1500ns"`; held as integer nanoseconds.
    Duration,
    /// `"64MB"`, `"50% memory"`; held as integer bytes, suffixes of 1024.
    Size,
    /// `true`, `false`, `"on"`, `"off"`.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// A path of an existing file, relative to the plan's folder.
    Path,
    /// A program with its arguments, as a list in the plan or after `--`;
    /// held as a JSON array of strings in `Value::Text`.
    CommandLine,
}

/// A parameter of a workload, or a factor that a workload offers.
#[derive(Debug, Clone, Serialize)]
pub struct Parameter {
    /// Its name in plans; on the command line `--name` with `_` as `-`.
    pub name: &'static str,
    /// Its type and bounds.
    pub kind: ParameterKind,
    /// Its default, written as in a plan; `None` when it must be given or may stay absent.
    pub default: Option<&'static str>,
    /// Whether a plan must give it.
    pub required: bool,
    /// One line, with the unit in it where it has one.
    pub summary: &'static str,
}

/// What a plan may name: made by the flow layer from the catalogues and handed
/// to the plan checker, which knows no catalogue itself.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// Every workload.
    pub workloads: Vec<WorkloadWords>,
    /// Every knob.
    pub knobs: Vec<KnobWords>,
    /// Every collector's id.
    pub collectors: Vec<&'static str>,
    /// The collectors that run when a plan names none.
    pub default_collectors: Vec<&'static str>,
    /// Every target's id.
    pub targets: Vec<&'static str>,
    /// The targets among them that boot guests.
    pub boot_targets: Vec<&'static str>,
    /// Factors that are chosen when a guest boots: only for plans whose target boots one.
    pub boot_factors: Vec<KnobWords>,
    /// The targets among them that simulate.
    pub simulated_targets: Vec<&'static str>,
    /// Factors that only simulated machines have.
    pub simulated_factors: Vec<KnobWords>,
}

/// A workload as the plan checker sees it.
#[derive(Debug, Clone)]
pub struct WorkloadWords {
    /// Its id.
    pub id: &'static str,
    /// Its parameters; each may be an axis.
    pub parameters: &'static [Parameter],
    /// Factors that it offers beside the knobs, such as `postgres.pool`.
    pub factors: &'static [Parameter],
    /// The ids of its metrics; empty when the plan must define them (`command`).
    pub metrics: Vec<String>,
    /// The metric that is primary when the plan names none.
    pub primary_metric: Option<&'static str>,
    /// What its metrics mean.
    pub semantics: Semantics,
    /// Whether `postgres.SETTING` factors make sense with it.
    pub has_postgres: bool,
    /// Whether a plan may define metrics for it: it runs a program that holdup knows nothing about.
    pub takes_metrics: bool,
    /// Whether it is made of other workloads: `foreground` names one, `background` several with `+` between or `none`,
    /// and the parameters of each are named `KIND.parameter`.
    pub combines: bool,
}

/// A knob as the plan checker sees it.
#[derive(Debug, Clone)]
pub struct KnobWords {
    /// Its id, which is the factor's name in plans, unless `prefix` is set.
    pub id: &'static str,
    /// For a family such as `postgres.`: the factor's name is this and the instance.
    pub prefix: Option<&'static str>,
    /// The type of its values.
    pub values: ParameterKind,
}
