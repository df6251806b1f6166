//! One workload in front of others.

use crate::mixed::members::{self, Members};
use crate::mixed::session::Session;
use holdup_catalogue::mixed as declared;
use holdup_host::Host;
use holdup_load::{PrepareContext, Prepared, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{Meta, Metric, Parameter, Parameters, Problem, WorkloadUse};
use std::sync::LazyLock;

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Mixed;

const META: Meta = Meta {
    id: "mixed",
    summary: "one workload with others behind it",
    docs: "`foreground` is measured, `background` disturbs it: cyclictest under hackbench is `wakeup` with `messenger` \
           behind it. `background` names one workload, several with `+` between, or `none`; as an axis (`none,messenger`) \
           it compares idle with loaded in interleaved blocks. The parameters of a member are written with its kind: \
           `wakeup.interval`, `messenger.groups`; a member has its own defaults.\n\n\
           All members warm up side by side. When every background is under way and the foreground is warm, the window \
           opens for all of them at the same time; when the foreground's closes, the backgrounds close theirs within about 20 ms. \
           Each counts in its own window. Metrics of the foreground have their own names; those of a background begin \
           with its kind (`messenger.messages_per_s`), so what a scheduler takes from one and gives to the other is seen in \
           one trial. A background that ends before the foreground voids the trial.\n\n\
           Collectors watch holdup and all its children, that is all members.",
    references: &["design: throughput and latency of the same trial, together"],
};

static PARAMETERS: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
    let mut all = declared::Parameters::ALL.to_vec();
    all.extend(members::parameters());
    all
});

impl Workload for Mixed {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn factors(&self) -> &'static [Parameter] {
        members::kinds().map(Workload::factors).find(|factors| !factors.is_empty()).unwrap_or_default()
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        Vec::new()
    }

    fn metrics_of(&self, used: &WorkloadUse, chosen: &[MetricChoice]) -> Vec<Metric> {
        members::metrics(used, chosen)
    }

    fn primary_metric(&self) -> Option<&'static str> {
        None
    }

    fn combines(&self) -> bool {
        true
    }

    fn has_postgres(&self) -> bool {
        true
    }

    fn has_postgres_in(&self, used: &WorkloadUse) -> bool {
        members::taking_part(used).iter().any(|kind| crate::find(kind).is_some_and(Workload::has_postgres))
    }

    fn check(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        let members = Members::read(parameters)?;
        members.all().try_for_each(|kind| {
            let member =
                crate::find(kind).ok_or_else(|| Problem::internal(format!("workload {kind}"), "it is gone"))?;
            member.check(host, &declared::own(kind, parameters))
        })
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        Ok(Box::new(Session::prepare(context)?))
    }
}
