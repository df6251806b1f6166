//! All that a node has to know of a run.

use crate::cut::Span;
use holdup_model::{Machine, Plan};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A run in parts, as its folder keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "fields without a comment are what their names say")]
pub struct Job {
    /// A random name, hexadecimal: that of the run in the bundle, and of its jobs in the queue.
    pub run_id: String,
    pub begun_unix_ns: i64,
    pub holdup_version: String,
    pub plan: Plan,
    /// The plan as TOML.
    pub plan_source: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    pub notes: Vec<String>,
    /// What relative sizes in the plan were resolved against.
    pub machine: Machine,
    /// The bundle to write.
    pub out: PathBuf,
    /// The folder in which programs of the plan are started.
    pub working_folder: PathBuf,
    /// Whether the trials are computed.
    pub is_simulated: bool,
    pub parts: Vec<Span>,
    /// The command line of sbatch without the array and the script.
    pub sbatch: Vec<String>,
    pub options: Options,
}

/// Options of the run that hold on the nodes too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "fields are what their names say")]
pub struct Options {
    pub pg_bin: Option<PathBuf>,
    pub pg: Option<String>,
    pub workdir: Option<PathBuf>,
    pub cache: Option<PathBuf>,
    pub mirror: Option<String>,
    pub offline: bool,
}

impl Job {
    /// The name of its jobs in the queue.
    pub fn name(&self) -> String {
        format!("holdup-{}", self.run_id)
    }
}
