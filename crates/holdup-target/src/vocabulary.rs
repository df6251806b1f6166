//! What plans may name, made from the catalogues.

use holdup_model::ParameterKind;
use holdup_model::catalogue::{KnobWords, Vocabulary, WorkloadWords};
use holdup_model::guest;
use holdup_sim::factors;
use holdup_sim::machine::MOST_CPUS;

/// Every workload, knob, collector and target, as the plan checker wants them.
pub fn vocabulary() -> Vocabulary {
    Vocabulary {
        workloads: holdup_workloads::workloads::ALL
            .iter()
            .map(|w| WorkloadWords {
                id: w.meta().id,
                parameters: w.parameters(),
                factors: w.factors(),
                metrics: w.metrics(&[]).into_iter().map(|m| m.id).collect(),
                primary_metric: w.primary_metric(),
                semantics: w.semantics(),
                has_postgres: w.has_postgres(),
                takes_metrics: w.takes_metrics(),
                combines: w.combines(),
            })
            .collect(),
        knobs: holdup_knobs::knobs::ALL
            .iter()
            .map(|k| KnobWords { id: k.meta().id, prefix: k.prefix(), values: k.values() })
            .collect(),
        collectors: holdup_evidence::collectors::ALL.iter().map(|c| c.meta().id).collect(),
        default_collectors: holdup_evidence::collectors::ALL
            .iter()
            .filter(|c| c.is_default())
            .map(|c| c.meta().id)
            .collect(),
        targets: crate::targets::ALL.iter().map(|t| t.meta().id).collect(),
        boot_targets: crate::targets::ALL.iter().filter(|t| t.boots_guests()).map(|t| t.meta().id).collect(),
        host_targets: crate::targets::ALL.iter().filter(|t| t.is_elsewhere()).map(|t| t.meta().id).collect(),
        boot_factors: boot_factors(),
        simulated_targets: crate::targets::ALL.iter().filter(|t| t.is_simulated()).map(|t| t.meta().id).collect(),
        simulated_factors: simulated_factors(),
        reports: holdup_catalogue::reports::all().iter().map(|report| report.name.as_str()).collect(),
    }
}

/// The factors that only simulated machines have.
fn simulated_factors() -> Vec<KnobWords> {
    let words = |id, values| KnobWords { id, prefix: None, values };
    let cpus = words(factors::CPUS, ParameterKind::Integer { min: 1, max: MOST_CPUS as i64 });
    let mechanisms = factors::MECHANISMS.iter().map(|m| words(m.id, ParameterKind::Bool));
    mechanisms.chain([cpus]).collect()
}

/// The factors that are chosen when a session opens.
fn boot_factors() -> Vec<KnobWords> {
    let words = |id, prefix| KnobWords { id, prefix, values: ParameterKind::Text };
    vec![
        words(guest::KERNEL, None),
        words(guest::POSTGRES_SERVER, None),
        words(guest::HOST, None),
        words("boot", Some(guest::BOOT_PREFIX)),
    ]
}
