//! What plans may name, made from the catalogues.

use holdup_model::ParameterKind;
use holdup_model::catalogue::{KnobWords, Vocabulary, WorkloadWords};
use holdup_model::guest;

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
        simulated_factors: holdup_sim::factors::MECHANISMS
            .iter()
            .map(|m| KnobWords { id: m.id, prefix: None, values: ParameterKind::Bool })
            .collect(),
    }
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
