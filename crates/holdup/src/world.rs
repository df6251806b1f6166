//! The inputs that a plan is checked against: the machine, the catalogues, the environment.

use holdup_model::catalogue::Vocabulary;
use holdup_model::{Machine, Problem, Profile};
use holdup_plan::{Inputs, Overrides};
use std::path::Path;

/// What a plan is checked against.
pub(crate) struct World {
    vocabulary: Vocabulary,
    /// What relative sizes are resolved against.
    pub(crate) machine: Machine,
}

impl World {
    pub(crate) fn here(host: &holdup_host::Host) -> Self {
        World { vocabulary: holdup_target::vocabulary(), machine: holdup_host::machine(host) }
    }

    /// Checks the text of a profile.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn profile(&self, file: &str, text: &str) -> Result<Profile, Problem> {
        Ok(holdup_plan::check_profile(file, text, self.machine, &self.vocabulary)?)
    }

    /// Calls a function of `holdup-plan` with its inputs.
    pub(crate) fn with<T>(&self, overrides: &Overrides, ask: impl FnOnce(&Inputs<'_>) -> T) -> T {
        ask(&Inputs {
            machine: self.machine,
            vocabulary: &self.vocabulary,
            environment: &|name| std::env::var(name).ok(),
            read_include: &|path| holdup_files::read_text_input(Path::new(path)).map_err(|e| e.to_string()),
            machine_of: &|target| holdup_target::machine_of(&holdup_host::Host::real(), target),
            overrides,
        })
    }
}

/// Reads a plan file as text.
pub(crate) fn read_plan(path: &Path) -> Result<String, Problem> {
    read_text(path, "plan", || {
        let known: Vec<&str> = holdup_workloads::workloads::ALL.iter().map(|w| w.meta().id).collect();
        format!("give a plan file, or one of the workloads: {}", known.join(", "))
    })
}

/// Reads a profile as text.
pub(crate) fn read_profile(path: &Path) -> Result<String, Problem> {
    read_text(path, "profile", || "give the file of a profile: PROFILE.toml".to_owned())
}

fn read_text(path: &Path, what: &str, hint: impl Fn() -> String) -> Result<String, Problem> {
    let what = format!("cannot read the {what} {}", path.display());
    holdup_files::read_text_input(path).map_err(|e| Problem::usage(what, e.to_string()).hint(hint()))
}
