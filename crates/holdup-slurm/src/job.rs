//! All that a node has to know of a run.

use crate::cut::Span;
use holdup_model::prediction::Wanted;
use holdup_model::{Machine, Plan, Problem};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// What the parts of a run are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Kind {
    /// Trials, of which one bundle is made.
    Run,
    /// Values of a prediction.
    Predict {
        /// How many machines are drawn.
        draws: u32,
        /// Ratios that are looked for.
        reach: Vec<Wanted>,
    },
}

/// A run in parts, as its folder keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// A random name, hexadecimal: that of the run in the bundle, and of its jobs in the queue.
    pub run_id: String,
    pub kind: Kind,
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
    /// True if the trials are computed.
    pub is_simulated: bool,
    pub parts: Vec<Span>,
    /// The command line of sbatch without the array and the script.
    pub sbatch: Vec<String>,
    pub options: Options,
    /// How the jobs get what they need where the nodes do not see the folder of the run; `None` where they do.
    pub stage: Option<Stage>,
}

/// What is brought to nodes, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The folder of temporary files on the nodes.
    pub folder: PathBuf,
    /// Files of this host, and what each is called beneath the folder in which programs of the plan are started.
    pub files: Vec<(PathBuf, PathBuf)>,
}

impl Stage {
    /// What is brought to the nodes.
    ///
    /// # Errors
    /// When the folder is not one that nodes could have, or a file is not there or has no name beneath the working folder.
    pub fn new(folder: &Path, files: &[PathBuf], working_folder: &Path) -> Result<Self, Problem> {
        if !folder.is_absolute() {
            return Err(Problem::usage(format!("--stage={}", folder.display()), "it is relative")
                .hint("name a folder of the nodes from the root on, such as --stage=/scratch"));
        }
        let named = |file: &PathBuf| {
            let what = || format!("--stage-file {}", file.display());
            let from = working_folder.join(file);
            let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
            let beneath = from.strip_prefix(working_folder).ok().filter(|name| name.components().all(plain));
            let Some(name) = beneath else {
                return Err(Problem::usage(what(), "it is not beneath the folder in which holdup was started")
                    .hint("start holdup in a folder above it: nodes get it under its path from there"));
            };
            match from.is_file() {
                true => Ok((from.clone(), name.to_owned())),
                false => Err(Problem::usage(what(), "there is no such file")),
            }
        };
        let files: Result<_, Problem> = files.iter().map(named).collect();
        Ok(Stage { folder: folder.to_owned(), files: files? })
    }
}

/// Options of the run that hold on the nodes too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    pub pg_bin: Option<PathBuf>,
    pub pg: Option<String>,
    pub workdir: Option<PathBuf>,
    pub cache: Option<PathBuf>,
    pub mirror: Option<String>,
    pub offline: bool,
}

impl Job {
    /// What the names of its parts end with.
    pub(crate) fn ending(&self) -> &'static str {
        match self.kind {
            Kind::Run => "holdup",
            Kind::Predict { .. } => "values",
        }
    }

    /// The name of its jobs in the queue.
    pub fn name(&self) -> String {
        format!("holdup-{}", self.run_id)
    }
}
