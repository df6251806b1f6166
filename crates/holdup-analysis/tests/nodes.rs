//! Sessions on the nodes of a cluster: alike, or of several kinds.

use crate::common;
use common::{Maker, reading};
use holdup_analysis::analyse;
use holdup_model::*;

/// Four sessions on four nodes, of which the last two have another CPU.
fn on_nodes(models: [&str; 4]) -> BundleData {
    let mut bundle = Maker { sessions: 4, blocks: 4, effect: |_| 1.2, ..Maker::default() }.make();
    let facts = |session: u32| {
        vec![
            Fact::read("slurm.node", format!("n{}", session + 1), "SLURMD_NODENAME"),
            Fact::read("cpu.model", models[session as usize], "/proc/cpuinfo"),
            Fact::read("kernel.release", "6.1.0", "/proc/sys/kernel/osrelease"),
        ]
    };
    bundle.environment = (0..4).map(|session| reading(session, facts(session))).collect();
    bundle
}

fn said(bundle: &BundleData) -> Vec<Finding> {
    analyse(bundle).findings.into_iter().filter(|f| f.analysis == "nodes").collect()
}

#[test]
fn nodes_that_are_alike_are_said_to_be() {
    let found = said(&on_nodes(["EPYC"; 4]));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].verdict, holdup_model::outcome::FindingVerdict::Refuted);
    assert_eq!(
        found[0].sentence,
        "The nodes n1, n2, n3 and n4 are alike in CPU model, CPUs, kernel and preemption model."
    );
}

#[test]
fn nodes_that_differ_have_their_own_ratios() {
    let found = said(&on_nodes(["EPYC", "EPYC", "Xeon", "Xeon"]));
    assert_eq!(found[0].verdict, holdup_model::outcome::FindingVerdict::Supported);
    assert_eq!(found[0].sentence, "The nodes differ in CPU model; the headline pools them.");
    let details = found[0].details.join("\n");
    assert!(details.contains("n3 and n4: CPU model Xeon.") && details.contains("on n1 and n2 and ×1."), "{details}");
}

#[test]
fn answers_that_differ_by_kind_of_node_are_in_the_sentence() {
    let mut bundle = on_nodes(["EPYC", "EPYC", "Xeon", "Xeon"]);
    let off: Vec<u32> = bundle
        .schedule
        .arms
        .iter()
        .filter(|arm| arm.factors.get("autogroup").is_some_and(|l| l.value == Value::Bool(false)))
        .map(|arm| arm.id)
        .collect();
    for trial in bundle.trials.iter_mut().filter(|trial| trial.session >= 2 && off.contains(&trial.arm)) {
        for measurement in trial.measurements.iter_mut().filter(|m| m.metric == "tps") {
            measurement.value =
                measurement.value.value().map_or(Measured::Absent("no".into()), |v| Measured::Value(v * 0.7));
        }
    }
    let sentence = &said(&bundle)[0].sentence;
    assert!(sentence.starts_with("The nodes differ in CPU model, and so do the answers: "), "{sentence}");
    assert!(sentence.contains("on n1 and n2") && sentence.contains("on n3 and n4"), "{sentence}");
}

#[test]
fn a_run_without_a_cluster_says_nothing_of_nodes() {
    assert!(said(&Maker::default().make()).is_empty());
}
