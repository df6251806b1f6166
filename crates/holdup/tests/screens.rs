//! What lists print fits one screen of 24 lines of 80 columns.

use crate::common;
use common::Sandbox;
use serde_json::Value;

fn one_screen(place: &Sandbox, args: &[&str]) -> String {
    let (text, _) = place.expect(0, args);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(text.lines().count() <= 24 && widest <= 80, "{args:?}: {widest} columns\n{text}");
    text
}

fn each_list_of_a_catalogue_fits_one_screen() {
    let place = Sandbox::new();
    for kind in [
        "workloads",
        "algorithms",
        "collectors",
        "knobs",
        "cases",
        "reports",
        "analyses",
        "explanations",
        "targets",
        "machines",
        "formats",
        "schemas",
    ] {
        let text = one_screen(&place, &["list", kind]);
        let has_room = text.lines().count() < 24;
        if has_room && (text.contains(" [not here]") || text.contains(" [in part]")) {
            assert!(text.ends_with(&format!("why not here: holdup list {kind} ID\n")), "{text}");
        }
    }
    // With its id a member says why it cannot be used, and all of its summary.
    let (text, _) = place.expect(0, &["list", "algorithms", "slice-extension"]);
    assert!(text.contains("source: "), "{text}");
}

fn lists_of_a_bundle_fit_one_screen() {
    let place = Sandbox::new();
    place.expect(
        0,
        &[
            "run",
            "lock-contention",
            "--target",
            "sim:server-8",
            "--threads",
            "2",
            "--vary",
            "algorithm=tas,ticket,futex-mutex",
            "--duration",
            "1ms",
            "--warmup",
            "0s",
            "--blocks",
            "10",
            "--out",
            "b.holdup",
        ],
    );
    for kind in ["arms", "trials", "boots", "logs"] {
        one_screen(&place, &["list", kind, "b.holdup"]);
    }
    let (all, _) = place.expect(0, &["list", "trials", "b.holdup", "--details"]);
    assert!(all.lines().count() > 24, "{all}");
}

fn kernels_fit_one_screen_and_hold_to_their_schema() {
    let place = Sandbox::new();
    one_screen(&place, &["kernels", "list"]);
    let document: Value = serde_json::from_str(&place.expect(0, &["kernels", "list", "--json"]).0).unwrap();
    let schema = place.expect(0, &["list", "schemas", "holdup.kernels/1"]).0;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let declared = schema["properties"].as_object().unwrap();
    assert!(schema["required"].as_array().unwrap().iter().all(|key| document.get(key.as_str().unwrap()).is_some()));
    let extra: Vec<&String> = document.as_object().unwrap().keys().filter(|key| !declared.contains_key(*key)).collect();
    assert_eq!(extra, Vec::<&String>::new());
}

fn a_prediction_fits_one_screen() {
    let place = Sandbox::new();
    one_screen(
        &place,
        &[
            "predict",
            "lock-contention",
            "--machine",
            "server-8",
            "--threads",
            "4,8",
            "--algorithm",
            "tas",
            "--duration",
            "2ms",
            "--warmup",
            "1ms",
            "--draws",
            "4",
        ],
    );
}

fn workloads_have_whole_summaries_in_help() {
    let place = Sandbox::new();
    let (help, _) = place.expect(0, &["run", "-h"]);
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    for workload in holdup_workloads::workloads::ALL {
        assert!(help.contains(workload.meta().summary), "{}: {help}", workload.meta().id);
    }
}

holdup_testkit::tests!(
    each_list_of_a_catalogue_fits_one_screen,
    lists_of_a_bundle_fit_one_screen,
    kernels_fit_one_screen_and_hold_to_their_schema,
    a_prediction_fits_one_screen,
    workloads_have_whole_summaries_in_help
);
