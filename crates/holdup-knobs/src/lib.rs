//! One knob per file, and the undo journal.
//!
//! A knob is what sets one level on a host: read, write, verify, restore. The
//! journal is written once for all knobs: read the old value, put it on disk
//! and sync, write the new one, read it back, compare.

pub mod journal;
pub mod knobs;

use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};

/// What a knob acts on.
pub struct KnobContext<'a> {
    /// The host.
    pub host: &'a Host,
    /// The server under test, for `postgres.…` settings.
    pub postgres: Option<&'a dyn PostgresControl>,
    /// The processes under test whose scheduling is set: the postmaster with all its
    /// children when a server is under test, else holdup itself, whose children inherit it.
    pub pids: Vec<u32>,
}

/// One knob.
pub trait Knob: Sync {
    /// What it says about itself.
    fn meta(&self) -> &'static Meta;

    /// For a family such as `postgres.`: the factor's name is this and the instance.
    fn prefix(&self) -> Option<&'static str> {
        None
    }

    /// The type of its values.
    fn values(&self) -> ParameterKind;

    /// What a change touches, in words for `--dry-run` ("the sysctl kernel.sched_autogroup_enabled").
    fn touches(&self, instance: &str) -> String;

    /// Whether it can be set here. Never writes.
    fn probe(&self, context: &KnobContext<'_>, instance: &str) -> Availability;

    /// What is in force now.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, context: &KnobContext<'_>, instance: &str) -> Result<Value, Problem>;

    /// Puts a value in force. Reading back and comparing is the journal's part.
    ///
    /// # Errors
    /// When the host refuses it.
    fn write(&self, context: &KnobContext<'_>, instance: &str, value: &Value) -> Result<(), Problem>;

    /// Whether two values are the same in force (`128MB` and `131072kB`).
    fn same(&self, a: &Value, b: &Value) -> bool {
        a == b
    }
}

/// The knob for a factor's name, with its instance (`postgres.huge_pages` → postgres-setting, `huge_pages`).
pub fn find(factor: &str) -> Option<(&'static dyn Knob, &str)> {
    knobs::ALL.iter().find_map(|knob| match knob.prefix() {
        Some(prefix) => factor.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| (*knob, rest)),
        None => (knob.meta().id == factor).then_some((*knob, "")),
    })
}
