//! One knob per file, and the undo journal.
//!
//! A knob is what sets one level on a host: read, write, verify, restore. The
//! journal is written once for all knobs: read the old value, put it on disk
//! and sync, write the new one, read it back, compare.

pub mod connection;
mod cpu_group;
mod dirty_limit;
mod features;
mod guc;
pub mod journal;
mod kernel_file;
pub mod knobs;
mod pieces;
mod refused;
pub mod sample;
mod sched_level;
mod tasks;
pub mod tunables;
mod undo;

pub use undo::{Past, Standing};

use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use sample::Sample;

/// What a knob acts on.
pub struct KnobContext<'a> {
    pub host: &'a Host,
    /// The server under test, for `postgres.…` settings.
    pub postgres: Option<&'a dyn PostgresControl>,
    /// The processes under test whose scheduling is set: the postmaster with all its
    /// children when a server is under test, else holdup itself, whose children inherit it.
    pub pids: Vec<u32>,
}

/// One knob.
///
/// A knob whose old state is one value that is read and written needs the methods without a body only. One
/// whose old state is richer (the policy of each task, a line in a file of settings) overrides `save`,
/// `standing` and `restore` as well.
pub trait Knob: Sync {
    /// What it says about itself.
    fn meta(&self) -> &'static Meta;

    /// For a family such as `postgres.`: the factor's name is this and the instance.
    fn prefix(&self) -> Option<&'static str> {
        None
    }

    /// The type of its values.
    fn values(&self) -> ParameterKind;

    /// What tests set of it.
    fn samples(&self) -> &'static [Sample];

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

    /// True if two values are the same in force (`128MB` and `131072kB`).
    fn same(&self, a: &Value, b: &Value) -> bool {
        a == b
    }

    /// The same question where the host must be asked (in what unit a bare number counts).
    fn same_here(&self, _context: &KnobContext<'_>, _instance: &str, wanted: &Value, found: &Value) -> bool {
        self.same(wanted, found)
    }

    /// Whether a value can be one of this knob, asked before anything is touched.
    ///
    /// # Errors
    /// When it cannot; the hint says what can.
    fn check(&self, instance: &str, value: &Value) -> Result<(), Problem>;

    /// The same question where the host must be asked (which preemption models this kernel has). Never writes.
    ///
    /// # Errors
    /// When it cannot, or the host cannot be asked; the hint says what can.
    fn check_here(&self, _context: &KnobContext<'_>, instance: &str, value: &Value) -> Result<(), Problem> {
        self.check(instance, value)
    }

    /// What must be known to put things back. `already` holds what earlier changes of this run have saved; `None`
    /// when that is enough.
    ///
    /// # Errors
    /// When it cannot be read.
    fn save(&self, context: &KnobContext<'_>, instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        if already.is_empty() { self.read(context, instance).map(Some) } else { Ok(None) }
    }

    /// True if a change here is also one of what was saved then.
    ///
    /// # Errors
    /// When the host cannot be asked.
    fn overlaps(&self, _context: &KnobContext<'_>, _saved: &Value) -> Result<bool, Problem> {
        Ok(true)
    }

    /// How things stand as against an earlier change.
    ///
    /// # Errors
    /// When it cannot be read.
    fn standing(&self, context: &KnobContext<'_>, instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        let now = self.read(context, instance)?;
        if self.same(past.saved, &now) {
            return Ok(Standing::Restored);
        }
        let is_ours = past.written.iter().any(|written| self.same(written, &now));
        Ok(if is_ours { Standing::Ours(now) } else { Standing::Foreign(now) })
    }

    /// Puts back what was saved, and nothing that someone else changed meanwhile.
    ///
    /// # Errors
    /// When the host refuses it.
    fn restore(&self, context: &KnobContext<'_>, instance: &str, past: &Past<'_>) -> Result<(), Problem> {
        self.write(context, instance, past.saved)
    }

    /// A command of the shell, or SQL, that puts back what was saved.
    fn by_hand(&self, instance: &str, saved: &Value) -> String;

    /// Where a value lives, for tools that put it there without holdup; none where no file and no unit says it. Of the
    /// kernels that keep it in different places, the newer ones count. Only for values that [`Knob::check`] passes.
    fn destinations(&self, _instance: &str, _value: &Value) -> Vec<Destination> {
        Vec::new()
    }

    /// True if a change is still there after the process that made it has ended.
    fn outlives_process(&self) -> bool {
        true
    }

    /// True if a change is still there after the host was booted again.
    fn outlives_boot(&self) -> bool {
        false
    }

    /// True if a change is one of a server and not of the host.
    fn is_of_server(&self) -> bool {
        false
    }

    /// True if a change is one of the processes under test and not of the whole host.
    fn is_of_processes(&self) -> bool {
        false
    }
}

/// The knob for a factor's name, with its instance (`postgres.huge_pages` → postgres-setting, `huge_pages`).
pub fn find(factor: &str) -> Option<(&'static dyn Knob, &str)> {
    knobs::ALL.iter().find_map(|knob| match knob.prefix() {
        Some(prefix) => factor.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| (*knob, rest)),
        None => (knob.meta().id == factor).then_some((*knob, "")),
    })
}
