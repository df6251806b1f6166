//! The members of a mix, and their parameters and metrics.

use crate::{find, workloads};
use holdup_catalogue::mixed::{self, BACKGROUND, FOREGROUND, named};
use holdup_load::Workload;
use holdup_model::plan::MetricChoice;
use holdup_model::{Metric, Parameter, Parameters, Problem, Value, WorkloadUse};

/// Every workload that can be a member.
pub(crate) fn kinds() -> impl Iterator<Item = &'static dyn Workload> {
    workloads::ALL.iter().copied().filter(|w| !w.combines())
}

/// The parameters of all members as `KIND.parameter`. Their defaults are their own: they are filled in for the members
/// that take part. To be called once: the names live for ever.
pub(crate) fn parameters() -> impl Iterator<Item = Parameter> {
    kinds().flat_map(|workload| {
        let kind = workload.meta().id;
        workload.parameters().iter().map(move |parameter| Parameter {
            name: Box::leak(format!("{kind}.{}", parameter.name).into_boxed_str()),
            default: None,
            required: false,
            ..parameter.clone()
        })
    })
}

/// The member of this kind, if it can be one.
fn member(kind: &str) -> Result<&'static dyn Workload, Problem> {
    find(kind).filter(|w| !w.combines()).ok_or_else(|| {
        let known: Vec<&str> = kinds().map(|w| w.meta().id).collect();
        Problem::usage(format!("member {kind}"), "there is no such workload")
            .hint(format!("known: {}", known.join(", ")))
    })
}

/// The members of one arm: the foreground first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) foreground: &'static str,
    pub(crate) backgrounds: Vec<&'static str>,
}

impl Members {
    /// Reads them from the parameters of an arm.
    ///
    /// # Errors
    /// When one is unknown, named twice, or can be no background.
    pub(crate) fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let p = mixed::Parameters::read(parameters)?;
        let foreground = member(&p.foreground)?.meta().id;
        let mut backgrounds = Vec::new();
        for kind in p.backgrounds() {
            let workload = member(kind)?;
            let id = workload.meta().id;
            let refuse = |why: &str, hint: &str| Err(Problem::usage(format!("background {id}"), why).hint(hint));
            if !workload.may_be_background() {
                return refuse("it ends by itself", "take it as the foreground");
            }
            if id == foreground || backgrounds.contains(&id) {
                return refuse("it takes part twice", "name each member once: they are distinguished by their kind");
            }
            backgrounds.push(id);
        }
        Ok(Members { foreground, backgrounds })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &'static str> + '_ {
        std::iter::once(self.foreground).chain(self.backgrounds.iter().copied())
    }
}

/// The texts of a parameter in a use of a plan: what is fixed, or all levels of the axis.
fn texts<'a>(used: &'a WorkloadUse, name: &str) -> Vec<&'a str> {
    let fixed = used.parameters.text(name).ok().flatten();
    let axis = used.axes.iter().filter(|axis| axis.name == name).flat_map(|axis| &axis.levels);
    fixed
        .into_iter()
        .chain(axis.filter_map(|level| match &level.value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }))
        .collect()
}

/// The kinds that take part in any arm of a use, the foreground first.
pub(crate) fn taking_part(used: &WorkloadUse) -> Vec<&str> {
    let mut all: Vec<&str> = texts(used, FOREGROUND);
    for kind in texts(used, BACKGROUND).into_iter().flat_map(named) {
        if !all.contains(&kind) {
            all.push(kind);
        }
    }
    all
}

/// The metrics of a use: those of the foreground by their names, those of the others behind their kind.
pub(crate) fn metrics(used: &WorkloadUse, chosen: &[MetricChoice]) -> Vec<Metric> {
    let mut all = Vec::new();
    for (place, kind) in taking_part(used).into_iter().enumerate() {
        let Some(workload) = find(kind) else { continue };
        if place == 0 {
            all.extend(workload.metrics(chosen));
        } else {
            all.extend(workload.metrics(&[]).into_iter().map(|m| Metric { id: format!("{kind}.{}", m.id), ..m }));
        }
    }
    all
}
