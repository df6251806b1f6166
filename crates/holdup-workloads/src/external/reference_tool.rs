//! A reference tool instead of holdup's own engine, as a level of the parameter `by`.
//!
//! Comparisons are made within one workload, between levels. So "theirs against ours" is an axis of the workload that
//! both measure: the same parameters, the same metrics, interleaved in the same blocks.

use crate::workloads::external::External;
use holdup_host::Host;
use holdup_load::by::{BY, OWN};
use holdup_load::metrics::Row;
use holdup_load::{PrepareContext, Prepared, TrialContext, TrialResult, Workload};
use holdup_model::plan::Level;
use holdup_model::{Fact, Measured, Measurement, Parameters, Problem};
use std::collections::BTreeMap;

/// The reference tools of a workload.
#[derive(Clone, Copy)]
pub(crate) struct ReferenceTools {
    pub(crate) metrics: &'static [Row],
    /// The parameters of a tool that mean what these parameters of the workload mean, without `tool`.
    pub(crate) translate: fn(tool: &str, own: &Parameters) -> Result<Parameters, Problem>,
    /// Metrics that follow from what a tool measures, of which it has no own name for.
    pub(crate) derive: fn(&[Measurement]) -> Vec<Measurement>,
}

/// The reference tool that measures; `None` for holdup itself.
fn tool(parameters: &Parameters) -> Result<Option<&str>, Problem> {
    Ok(parameters.text(BY)?.filter(|by| *by != OWN))
}

impl ReferenceTools {
    fn parameters(&self, tool: &str, own: &Parameters) -> Result<Parameters, Problem> {
        let mut theirs = (self.translate)(tool, own)?;
        theirs.set("tool", tool);
        Ok(theirs)
    }

    /// Checks the parameters of an arm with `own` where holdup's engine measures, else with those of the tool.
    ///
    /// # Errors
    /// When they do not go together.
    pub(crate) fn check(
        self,
        host: &Host,
        parameters: &Parameters,
        own: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        match tool(parameters)? {
            None => own(),
            Some(tool) => External.check(host, &self.parameters(tool, parameters)?),
        }
    }

    /// Refuses the tools where the ends are on two hosts.
    ///
    /// # Errors
    /// When the parameters name one.
    pub(crate) fn check_two_ends(self, parameters: &Parameters) -> Result<(), Problem> {
        match tool(parameters)? {
            None => Ok(()),
            Some(tool) => Err(Problem::usage(format!("by {tool} with [hosts]"), "it is run on one host")
                .hint("by = holdup, or leave [hosts] away")),
        }
    }

    /// Prepares holdup's own engine with `own` for the combinations in which it measures, and the tools for the others.
    ///
    /// # Errors
    /// When one of them cannot be prepared.
    pub(crate) fn prepare(
        self,
        context: PrepareContext<'_>,
        own: impl FnOnce(PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem>,
    ) -> Result<Box<dyn Prepared>, Problem> {
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for parameters in context.combinations {
            match tool(parameters)? {
                None => mine.push(parameters.clone()),
                Some(tool) => theirs.push(self.parameters(tool, parameters)?),
            }
        }
        if theirs.is_empty() {
            return own(context);
        }
        let PrepareContext { host, parameters, metrics, postgres, workdir, cancel, step, .. } = context;
        let tools = External.prepare(PrepareContext {
            other_end: None,
            host,
            parameters: &Parameters::default(),
            combinations: &theirs,
            metrics: &[],
            postgres,
            workdir: workdir.clone(),
            cancel: cancel.clone(),
            step,
        })?;
        let combinations = &mine;
        let own = match combinations.is_empty() {
            true => None,
            false => Some(own(PrepareContext {
                other_end: None,
                host,
                parameters,
                combinations,
                metrics,
                postgres,
                workdir,
                cancel,
                step,
            })?),
        };
        Ok(Box::new(Session { own, tools, reference_tools: self }))
    }

    /// What a tool measured, as the workload's metrics.
    fn rename(&self, tool: &str, mut result: TrialResult) -> TrialResult {
        let derived = (self.derive)(&result.measurements);
        let mut given = std::mem::take(&mut result.measurements);
        given.extend(derived);
        let own = |row: &Row| {
            let named = || given.iter().filter(|m| m.metric == row.0);
            let value = named().find(|m| matches!(m.value, Measured::Value(_))).or_else(|| named().next());
            value.cloned().unwrap_or_else(|| Measurement::absent(row.0, format!("{tool} does not measure it")))
        };
        result.measurements = self.metrics.iter().map(own).collect();
        result
    }
}

/// A session in which both measure.
struct Session {
    own: Option<Box<dyn Prepared>>,
    tools: Box<dyn Prepared>,
    reference_tools: ReferenceTools,
}

impl Prepared for Session {
    fn facts(&mut self) -> Vec<Fact> {
        let own = self.own.as_mut().map(|own| own.facts()).unwrap_or_default();
        own.into_iter().chain(self.tools.facts()).collect()
    }

    fn set(&mut self, factors: &BTreeMap<String, Level>) -> Result<(), Problem> {
        self.own.iter_mut().try_for_each(|own| own.set(factors))?;
        self.tools.set(factors)
    }

    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let Some(tool) = tool(trial.parameters)? else {
            let own = self.own.as_mut().ok_or_else(|| Problem::internal("by holdup", "it was not prepared"))?;
            return own.run(trial);
        };
        let parameters = self.reference_tools.parameters(tool, trial.parameters)?;
        let tool = tool.to_owned();
        let TrialContext { warmup_ns, duration_ns, seed, cancel, enough, window, .. } = trial;
        let parameters = &parameters;
        let trial = TrialContext { parameters, warmup_ns, duration_ns, seed, cancel, enough, window };
        let result = self.tools.run(trial)?;
        Ok(self.reference_tools.rename(&tool, result))
    }

    fn close(self: Box<Self>) -> Result<(), Problem> {
        let own = self.own.map_or(Ok(()), Prepared::close);
        own.and(self.tools.close())
    }
}

/// Puts values of the workload under the names of the tools; those that are absent stay absent.
pub(crate) fn carry(own: &Parameters, names: &[(&str, &str)]) -> Parameters {
    let mut theirs = Parameters::default();
    for (name, their_name) in names {
        if let Some(value) = own.get(name) {
            theirs.set(their_name, value.clone());
        }
    }
    theirs
}

/// A measured value by its id.
pub(crate) fn measured(measurements: &[Measurement], id: &str) -> Option<f64> {
    measurements.iter().find(|m| m.metric == id).and_then(|m| m.value.value())
}
