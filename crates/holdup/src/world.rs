//! What engines are told of the world: the machine, the catalogues, the environment.

use holdup_model::catalogue::Vocabulary;
use holdup_model::{Machine, Problem};
use holdup_plan::{Inputs, Overrides};
use std::path::Path;

/// What a plan is checked against.
pub(crate) struct World {
    vocabulary: Vocabulary,
    /// What relative sizes are resolved against.
    pub(crate) machine: Machine,
}

impl World {
    /// This host.
    pub(crate) fn here(host: &holdup_host::Host) -> Self {
        World { vocabulary: holdup_target::vocabulary(), machine: holdup_host::machine(host) }
    }

    /// Calls a function of `holdup-plan` with what it needs.
    pub(crate) fn with<T>(&self, overrides: &Overrides, ask: impl FnOnce(&Inputs<'_>) -> T) -> T {
        ask(&Inputs {
            machine: self.machine,
            vocabulary: &self.vocabulary,
            environment: &|name| std::env::var(name).ok(),
            read_include: &|path| std::fs::read_to_string(path).map_err(|e| e.to_string()),
            overrides,
        })
    }
}

/// Reads a plan file as text.
///
/// # Errors
/// When it cannot be read or is not UTF-8.
pub(crate) fn read_plan(path: &Path) -> Result<String, Problem> {
    let what = format!("cannot read the plan {}", path.display());
    let bytes = std::fs::read(path).map_err(|e| {
        let known: Vec<&str> = holdup_workloads::workloads::ALL.iter().map(|w| w.meta().id).collect();
        Problem::usage(&what, e.to_string())
            .hint(format!("give a plan file, or one of the workloads: {}", known.join(", ")))
    })?;
    String::from_utf8(bytes)
        .map_err(|e| Problem::usage(what, format!("byte {} is not UTF-8", e.utf8_error().valid_up_to())))
}
