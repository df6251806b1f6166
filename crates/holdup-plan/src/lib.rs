//! TOML to a checked plan, a design and a seeded order.
//!
//! [`check`] reads a plan's text, with what it includes, against a vocabulary: what may be named is made from the
//! catalogues by the flow layer, so this crate knows no workload and no knob itself. It reports every error
//! of a plan, each with file, line and column. [`from_command_line`] makes the same of a command line, and
//! the TOML that stands for it. [`schedule`] lays the arms out and puts the trials in order, [`estimate_ns`] says how
//! long they take.
//!
//! Everything here is a function of its arguments: no file, no clock, no environment but what [`Inputs`] hands in.
#![forbid(unsafe_code)]

mod arms;
mod boot;
mod checker;
mod collect;
mod combined;
mod command_line;
mod design;
mod draft;
mod errors;
mod exclude;
mod guest;
mod hosts;
mod metrics;
mod node;
mod nodes;
mod order;
mod overrides;
mod profile;
mod profiles;
mod schedule;
mod source;
mod tables;
mod toml;
mod values;
mod words;
mod workloads;

pub use arms::{MOST_ARMS, MOST_TRIALS};
pub use command_line::{from_command_line, shell_words};
pub use errors::{MOST_ERRORS, PlanError, PlanErrors};
pub use holdup_model::units::parse_duration_ns;
pub use profile::check_profile;
pub use schedule::{Overhead, estimate_ns, notes, schedule};
pub use toml::{comparing_profiles, profile_toml};

use holdup_model::catalogue::Vocabulary;
use holdup_model::{Machine, Plan, Problem};

/// What a plan is checked against, and what the command line changes in it.
pub struct Inputs<'a> {
    /// What relative sizes (`"2x cpus"`, `"50% memory"`) are relative to, unless the plan's target boots a guest: then
    /// they are relative to that, and only those of `[guest]` to this.
    pub machine: Machine,
    /// What a plan may name.
    pub vocabulary: &'a Vocabulary,
    /// A variable of the environment; `None` when it is not set.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The text of an included file or of a profile, or why it cannot be read. The path is that of the including file's folder joined
    /// with what the plan says: `common.toml` in `plans/demo.toml` is asked for as `plans/common.toml`.
    pub read_include: &'a dyn Fn(&str) -> Result<String, String>,
    /// The machine that a target names (`sim:NAME`), which relative sizes are relative to then; `None` for one that names
    /// none, or why there is no such machine.
    pub machine_of: &'a dyn Fn(&str) -> Result<Option<Machine>, Problem>,
    /// What the command line changes.
    pub overrides: &'a Overrides,
}

/// What a command line changes in a plan. `set` is applied first, then `vary`, then the rest.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Overrides {
    /// `--set KEY=V[,V…]` as (key, values): a parameter of the workloads that have it, `WORKLOAD.parameter`, a key of
    /// the design (`blocks` or `design.blocks`) or of the guest (`guest.cpus`) or of its hosts (`hosts.server`) or nodes (`nodes.cpus`), `name`, `question`, `target`, a factor or a fixed setting. Several
    /// values make an axis or a factor; `\,` is a comma in a value.
    pub set: Vec<(String, String)>,
    /// `--vary KEY=V1,V2`: adds or replaces a factor, or an axis when the key is a workload's parameter.
    pub vary: Vec<(String, String)>,
    /// `--blocks`
    pub blocks: Option<u32>,
    /// `--max-blocks`
    pub max_blocks: Option<u32>,
    /// `--sessions`
    pub sessions: Option<u32>,
    /// `--seed`
    pub seed: Option<u64>,
    /// `--warmup`, such as `500ms`
    pub warmup: Option<String>,
    /// `--duration`, such as `2s`
    pub duration: Option<String>,
    /// `--budget`, such as `5m`
    pub budget: Option<String>,
    /// `--collect`: the collectors' ids; empty for none.
    pub collect: Option<Vec<String>>,
    /// `--section`: functions whose critical sections are to be known.
    pub sections: Option<Vec<String>>,
    /// `--frequency`: how often CPUs are sampled, Hz.
    pub frequency: Option<u32>,
    /// `--no-breakpoints`: no thread under test gets one.
    pub no_breakpoints: bool,
    /// `--target`
    pub target: Option<String>,
    /// `--accel`: `auto`, `kvm` or `tcg`.
    pub accel: Option<String>,
}

/// Checks the text of a plan. `file` is its name as the user gave it: it stands in errors, included paths are relative
/// to its folder, and its stem is the plan's name where the plan states none.
///
/// # Errors
/// Everything that is wrong with the plan, with what it includes and with what the command line changes.
pub fn check(file: &str, text: &str, inputs: &Inputs<'_>) -> Result<Plan, PlanErrors> {
    let mut complaints = errors::Complaints::default();
    let mut draft = draft::read(file, text, inputs, &mut complaints);
    overrides::apply(&mut draft, inputs.overrides, words::Words { all: inputs.vocabulary }, &mut complaints);
    let plan = checker::Checker::new(inputs, &mut complaints).plan(file, &draft);
    if complaints.is_empty() { Ok(plan) } else { Err(complaints.into_errors()) }
}
