//! One workload in front of others: all their tasks on one machine, each counted for itself.

use super::{Files, Levels, Results, Workload, find};
use crate::combine;
use crate::machine::Machine;
use crate::stats::WindowStats;
use crate::world::Load;
use holdup_catalogue::mixed::{self, own};
use holdup_model::{Measurement, Parameters, Problem};

pub(super) struct Mixed;

/// The kinds that take part: the foreground first.
fn kinds(parameters: &Parameters) -> Vec<String> {
    let Ok(p) = mixed::Parameters::read(parameters) else { return Vec::new() };
    std::iter::once(p.foreground.clone()).chain(p.backgrounds().map(str::to_owned)).collect()
}

fn member(kind: &str) -> Result<&'static dyn Workload, Problem> {
    // The tasks of a trace are numbered as in the trace, so they are alone.
    let may_be_member = |w: &&dyn Workload| w.id() != Mixed.id() && w.id() != "replay";
    find(kind).filter(may_be_member).ok_or_else(|| {
        let known: Vec<&str> = super::ALL.iter().copied().filter(may_be_member).map(Workload::id).collect();
        Problem::host(format!("member {kind} on target sim"), "it was not said as programs")
            .hint(format!("the simulator has {}", known.join(", ")))
    })
}

impl Workload for Mixed {
    fn id(&self) -> &'static str {
        "mixed"
    }

    fn leaves_out(&self) -> &'static str {
        "all members begin and are counted at the same moments"
    }

    fn members(&self, parameters: &Parameters) -> Vec<&'static dyn Workload> {
        kinds(parameters).iter().filter_map(|kind| member(kind).ok()).collect()
    }

    fn changes(&self, factor: &str) -> Option<&'static str> {
        super::ALL.iter().filter(|w| w.id() != self.id()).find_map(|w| w.changes(factor))
    }

    fn load(
        &self,
        parameters: &Parameters,
        levels: &Levels,
        machine: &Machine,
        files: &Files,
    ) -> Result<Load, Problem> {
        let mut all = Load::default();
        for kind in &kinds(parameters) {
            combine::add(&mut all, member(kind)?.load(&own(kind, parameters), levels, machine, files)?);
        }
        Ok(all)
    }

    fn results(&self, parameters: &Parameters, seen: &WindowStats, length_ns: u64) -> Results {
        let (mut measurements, mut histograms) = (Vec::new(), Vec::new());
        for (place, (kind, part)) in kinds(parameters).iter().zip(&seen.parts).enumerate() {
            let Some(workload) = find(kind) else { continue };
            let (theirs, of_theirs) = workload.results(&own(kind, parameters), &part.of(seen), length_ns);
            let named = |name: String| if place == 0 { name } else { format!("{kind}.{name}") };
            measurements.extend(theirs.into_iter().map(|m| Measurement { metric: named(m.metric), ..m }));
            histograms.extend(of_theirs.into_iter().map(|mut h| {
                h.name = named(h.name);
                h
            }));
        }
        (measurements, histograms)
    }
}
