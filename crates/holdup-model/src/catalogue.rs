//! What a member of a catalogue (workload, collector, knob, lock algorithm,
//! analysis, target) says about itself.

use crate::semantics::Semantics;
use crate::units::{self, Relative, Wrong};
use crate::{Machine, Value};
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

    /// Why it does not work, or not in full.
    pub fn limit(&self) -> Option<&str> {
        match self {
            Availability::Ready => None,
            Availability::Degraded { reason } | Availability::Unavailable { reason, .. } => Some(reason),
        }
    }

    /// True if it works at least in part.
    pub fn is_usable(&self) -> bool {
        !matches!(self, Availability::Unavailable { .. })
    }
}

/// The type of a parameter or of a knob's values, with its bounds.
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
    Duration {
        /// The shortest, ns.
        min: i64,
        /// The longest, ns.
        max: i64,
    },
    /// `"64MB"`, `"50% memory"`; held as integer bytes, suffixes of 1024.
    Size {
        /// The smallest, bytes.
        min: i64,
        /// The largest, bytes.
        max: i64,
    },
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

impl ParameterKind {
    /// Any duration.
    pub const DURATION: ParameterKind = ParameterKind::Duration { min: 0, max: i64::MAX };
    /// Any size.
    pub const SIZE: ParameterKind = ParameterKind::Size { min: 0, max: i64::MAX };

    /// A value with its unit.
    pub fn show(&self, value: &Value) -> String {
        match (self, value) {
            (ParameterKind::Duration { .. }, Value::Integer(ns)) => units::shown_duration(*ns),
            (ParameterKind::Size { .. }, Value::Integer(bytes)) => units::shown_size(*bytes),
            _ => value.to_string(),
        }
    }

    /// What a value must be: `from 1 to 4096`, `one of tcp, udp`.
    pub fn expected(&self) -> String {
        let bounds = |min: i64, max: i64| {
            let shown = |n: i64| self.show(&Value::Integer(n));
            if max == i64::MAX {
                format!("{} or more", shown(min))
            } else {
                format!("from {} to {}", shown(min), shown(max))
            }
        };
        match self {
            ParameterKind::Integer { min, max }
            | ParameterKind::Duration { min, max }
            | ParameterKind::Size { min, max } => bounds(*min, *max),
            ParameterKind::Float { min, max } => format!("from {min} to {max}"),
            ParameterKind::Bool => "on or off".to_owned(),
            ParameterKind::Choice(words) => format!("one of {}", words.join(", ")),
            ParameterKind::Text => "a text".to_owned(),
            ParameterKind::Path => "a path".to_owned(),
            ParameterKind::CommandLine => "a program with its arguments, without zero bytes".to_owned(),
        }
    }

    /// Checks the type and the bounds of a value.
    ///
    /// # Errors
    /// `it must be …` with what is expected.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let fits = match (self, value) {
            (
                ParameterKind::Integer { min, max }
                | ParameterKind::Duration { min, max }
                | ParameterKind::Size { min, max },
                Value::Integer(n),
            ) => (min..=max).contains(&n),
            (ParameterKind::Float { min, max }, Value::Float(x)) => (min..=max).contains(&x),
            (ParameterKind::Float { min, max }, Value::Integer(n)) => (*min..=*max).contains(&(*n as f64)),
            (ParameterKind::Choice(words), Value::Text(word)) => words.contains(&word.as_str()),
            (ParameterKind::Bool, Value::Bool(_))
            | (ParameterKind::Text | ParameterKind::Path | ParameterKind::CommandLine, Value::Text(_)) => true,
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("it must be {}", self.expected())) }
    }

    /// The value that a text of a plan stands for, and whether it depends on the machine; `None` for a text that is no
    /// value of this kind. Texts, paths and command lines are taken as they are.
    ///
    /// # Errors
    /// When it is out of bounds, or a duration or a size that cannot be read.
    pub fn parse(&self, text: &str, machine: Machine) -> Result<Option<(Value, bool)>, Wrong> {
        let number = |n: u64| Some(Value::Integer(i64::try_from(n).unwrap_or(i64::MAX)));
        let relative = match self {
            ParameterKind::Integer { .. } | ParameterKind::Size { .. } => units::relative(text, machine).transpose()?,
            _ => None,
        };
        let value = match (self, relative) {
            (ParameterKind::Integer { .. }, Some(Relative::Cpus(n))) => Some(Value::Integer(n)),
            (ParameterKind::Integer { .. }, None) => text.trim().parse().ok().map(Value::Integer),
            (ParameterKind::Size { .. }, Some(Relative::Memory(bytes))) => number(bytes),
            (_, Some(_)) => None,
            (ParameterKind::Size { .. }, None) => number(units::size(text)?),
            (ParameterKind::Duration { .. }, _) => number(units::duration(text)?),
            (ParameterKind::Float { .. }, _) => text.trim().parse().ok().map(Value::Float),
            (ParameterKind::Bool, _) => match text {
                "on" | "true" => Some(Value::Bool(true)),
                "off" | "false" => Some(Value::Bool(false)),
                _ => None,
            },
            _ => Some(Value::from(text)),
        };
        let Some(value) = value else { return Ok(None) };
        match self.check(&value) {
            Ok(()) => Ok(Some((value, relative.is_some()))),
            Err(why) if relative.is_some() => Err(Wrong::new(format!("it is {} here; {why}", self.show(&value)))),
            Err(why) => Err(Wrong::new(why)),
        }
    }
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
    /// True if a plan must give it.
    pub required: bool,
    /// One line, with the unit in it where it has one.
    pub summary: &'static str,
    /// True if a simulated workload has it too; one without takes no value but the default.
    pub simulated: bool,
}

impl Parameter {
    /// The default on a machine, where there is one.
    pub fn default_on(&self, machine: Machine) -> Option<Value> {
        self.kind.parse(self.default?, machine).ok().flatten().map(|(value, _)| value)
    }
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
    /// The targets among them whose trials run on other hosts.
    pub host_targets: Vec<&'static str>,
    /// Factors that are chosen when a session opens: of a guest that boots, or of a host that is connected to.
    pub boot_factors: Vec<KnobWords>,
    /// The targets among them that simulate.
    pub simulated_targets: Vec<&'static str>,
    /// Factors that only simulated machines have.
    pub simulated_factors: Vec<KnobWords>,
    /// Names of published reports that have a record.
    pub reports: Vec<&'static str>,
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
    /// True if `postgres.SETTING` factors make sense with it.
    pub has_postgres: bool,
    /// True if a plan may define metrics for it: it runs a program that holdup knows nothing about.
    pub takes_metrics: bool,
    /// True if it is made of other workloads: `foreground` names one, `background` several with `+` between or `none`,
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
