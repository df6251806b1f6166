//! The engine of the workload `external`: original tools, and what they say.
//!
//! One tool is one file in [`tools`]: its arguments, and a reader of its output that is a function of text alone.

pub mod metrics;
pub(crate) mod reference_tool;
pub(crate) mod setup;
pub mod snmp;
pub mod text;
pub mod tools;
pub(crate) mod trial;
pub(crate) mod version;

use crate::external::setup::Setup;
use holdup_catalogue::external;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Parameters, Problem};

pub(crate) trait Tool: Sync {
    /// What is fixed about it.
    fn about(&self) -> &'static About;
    /// The ids of the metrics that it gives in the mode of a set-up; the others are absent.
    fn measures(&self, setup: &Setup) -> &'static [&'static str];
    /// Its command lines.
    ///
    /// # Errors
    /// When parameters do not go together.
    fn invocation(&self, setup: &Setup, run: &Run) -> Result<Invocation, Problem>;
    /// Its numbers.
    ///
    /// # Errors
    /// Why its output is not what it prints after a run that went well.
    fn read(&self, setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String>;
}

/// What is fixed about a tool.
#[derive(Debug)]
pub(crate) struct About {
    /// The value of the parameter `tool`.
    pub(crate) tool: external::Tool,
    pub(crate) program: &'static str,
    pub(crate) install: &'static str,
    /// The arguments that make it say its version; `None` when it cannot.
    pub(crate) version: Option<&'static [&'static str]>,
    /// The text before its version.
    pub(crate) version_after: &'static str,
    /// Its modes, the default first; empty when it has only one.
    pub(crate) modes: &'static [external::Mode],
    /// Its protocols, the default first; empty when it has none.
    pub(crate) protocols: &'static [external::Protocol],
    /// The parameters that it knows besides these, in any mode.
    pub(crate) parameters: &'static [&'static str],
}

/// What differs from trial to trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// The length that the plan wants, ns.
    pub(crate) duration_ns: u64,
    /// A free port of the loopback address.
    pub(crate) port: u16,
}

impl Run {
    /// The duration in whole seconds, rounded up, for tools that take no parts of one.
    pub(crate) fn whole_seconds(&self) -> String {
        self.duration_ns.div_ceil(1_000_000_000).max(1).to_string()
    }
}

/// How a server is known to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listens {
    Tcp,
    Udp,
}

/// The server of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) arguments: Vec<String>,
    pub(crate) listens: Listens,
    /// True if it makes a process for each client, whose CPU time is known when it has waited for it.
    pub(crate) forks: bool,
}

/// What is run in a trial.
#[derive(Debug, Clone, Default)]
pub(crate) struct Invocation {
    /// Arguments without the program. `{profile}` in them becomes the path of the profile.
    pub(crate) arguments: Vec<String>,
    pub(crate) server: Option<Server>,
    /// A file that it reads.
    pub(crate) profile: Option<String>,
    /// True if the duration of the plan was given to it in whole seconds.
    pub(crate) whole_seconds: bool,
    /// True if its work is fixed, so that the duration of the plan does not apply.
    pub(crate) fixed_work: bool,
    /// True if UDP of the namespace is counted over the run.
    pub(crate) counts_udp: bool,
}

/// What is known after a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolOutput<'a> {
    /// What the tool wrote to its standard output.
    pub stdout: &'a str,
    /// What it wrote to its standard error.
    pub stderr: &'a str,
    /// What its server wrote to its standard output.
    pub server: &'a str,
    /// UDP of the namespace from before the tool started until its queues were empty; `None` when not counted.
    pub udp: Option<Result<snmp::Udp, &'a str>>,
}

/// What a reader made of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Metrics by id.
    pub values: Vec<(&'static str, f64)>,
    /// Metrics that this tool gives, but not this time, with the reason.
    pub absent: Vec<(&'static str, String)>,
    /// Its full histogram.
    pub histograms: Vec<NamedHistogram>,
    /// Bytes that reached the other end, for CPU time per byte.
    pub bytes: Option<f64>,
    /// What is known to be wrong with its numbers.
    pub notes: Vec<String>,
}

impl Reading {
    pub(crate) fn put(&mut self, id: &'static str, value: f64) {
        self.values.push((id, value));
    }

    pub(crate) fn absent(&mut self, id: &'static str, why: impl Into<String>) {
        self.absent.push((id, why.into()));
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// Reads what a tool said in a run with these parameters (`tool` among them), without running it.
///
/// # Errors
/// Of kind `Usage` when the parameters are wrong, of kind `Trial` when the output is not what the tool prints after a
/// run that went well.
pub fn read(parameters: &Parameters, said: &ToolOutput<'_>) -> Result<Reading, Problem> {
    let setup = Setup::read(parameters)?;
    setup.tool.read(&setup, said).map_err(|why| Problem::trial(format!("the output of {}", setup.given.tool), why))
}
