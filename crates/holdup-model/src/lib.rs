//! The nouns of holdup as types, and the form in which they are stored and sent.
//!
//! This crate knows nothing of a host, a clock or a file. Every other crate
//! speaks in these words (see GLOSSARY.md); what is `Serialize` here is part of
//! a bundle, of `--json` output or of the agent's messages.
#![forbid(unsafe_code)]

pub mod account;
pub mod arm;
pub mod bundle;
pub mod captures;
pub mod catalogue;
pub mod clock_offset;
pub mod ends;
pub mod environment;
pub mod evidence;
pub mod explanation;
pub mod foreign;
pub mod frame;
pub mod guest;
pub mod histogram;
pub mod kept;
pub mod kernel_version;
pub mod metric;
pub mod nodes;
pub mod on_cpu_states;
pub mod outcome;
pub mod plan;
pub mod prediction;
pub mod preempt;
pub mod problem;
pub mod profile;
pub mod progress;
pub mod search;
pub mod sections;
pub mod semantics;
pub mod sparse;
pub mod stacks;
pub mod survey;
pub mod table;
pub mod text;
pub mod timeline;
pub mod trial;
pub mod tuning;
pub mod units;
pub mod value;
pub mod wire;

pub use account::Account;
pub use arm::{Arm, Replica, Schedule, TrialSpec};
pub use bundle::BundleData;
pub use catalogue::{Availability, Meta, Parameter, ParameterKind};
pub use clock_offset::ClockOffset;
pub use ends::Hosts;
pub use environment::{EnvironmentReading, Fact, Machine};
pub use evidence::{Collected, Coverage, EvidenceHistogram, EvidenceItem, SelfCost};
pub use explanation::Explanation;
pub use guest::Guest;
pub use histogram::Histogram;
pub use kernel_version::KernelVersion;
pub use metric::{Direction, Measured, Measurement, Metric};
pub use nodes::Nodes;
pub use outcome::{Analysis, Comparison, Estimate, Finding, Verdict};
pub use plan::{Design, Factor, Level, Plan, WorkloadUse};
pub use prediction::Prediction;
pub use preempt::PreemptModel;
pub use problem::{Problem, ProblemKind};
pub use profile::Profile;
pub use progress::{Event, Observer};
pub use sections::SectionMap;
pub use semantics::{ClosedLoop, Semantics, Think};
pub use sparse::SparseHistogram;
pub use stacks::StackProfile;
pub use table::Table;
pub use timeline::Timeline;
pub use trial::{Trial, TrialStatus, Window};
pub use value::{Parameters, Value};
