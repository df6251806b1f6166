//! Every format over synthetic bundles: hostile text, nothing at all, nothing that counts.

#[path = "../../holdup-analysis/tests/common/mod.rs"]
mod common;

use common::{Maker, void};
use holdup_analysis::analyse;
use holdup_model::*;
use holdup_report::*;

const PLAIN: TerminalOptions = TerminalOptions { width: 80, color: false };

fn every_format(bundle: &BundleData) -> Vec<String> {
    let a = analyse(bundle);
    vec![
        terminal(bundle, &a, &PLAIN),
        html(bundle, &a),
        markdown(bundle, &a),
        json(bundle, &a),
        csv(bundle, &a),
        benchstat(bundle, &a),
        compare_terminal(&a, ("a", "b"), &PLAIN),
        compare_json(&a, ("a", "")),
        dry_run(&bundle.plan, &bundle.schedule, 90_000_000_000, &[]),
    ]
}

fn effect() -> BundleData {
    let mut b = Maker { effect: |_| 0.93, clients: vec![2, 16], blocks: 6, ..Maker::default() }.make();
    void(&mut b.trials[3], "fact cpu.governor moved from performance to powersave");
    b
}

#[test]
fn terminal_at_80_columns() {
    let bundle = effect();
    let text = terminal(&bundle, &analyse(&bundle), &PLAIN);
    let long: Vec<&str> = text.lines().filter(|l| l.chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:#?}");
    assert!(!text.contains("refuted") && !text.contains('\u{1b}'));
    insta::assert_snapshot!(text);
}

#[test]
fn dry_run_and_markdown() {
    let bundle = effect();
    let touches = [("autogroup".to_owned(), "writes /proc/sys/kernel/sched_autogroup_enabled".to_owned())];
    insta::assert_snapshot!(dry_run(&bundle.plan, &bundle.schedule, 3_900_000_000_000, &touches));
    insta::assert_snapshot!("markdown", markdown(&bundle, &analyse(&bundle)));
}

#[test]
fn empty_and_all_void_bundles_are_said_not_panicked_over() {
    let mut empty = effect();
    empty.trials.clear();
    every_format(&empty);
    empty.schedule.arms.clear();
    empty.schedule.trials.clear();
    empty.metrics.clear();
    every_format(&empty);
    let mut all = effect();
    all.trials.iter_mut().for_each(|t| void(t, "no server"));
    let texts = every_format(&all);
    for at in [0, 1, 2, 3, 4] {
        assert!(texts[at].contains("no server"), "format {at} hides the reason");
    }
    assert!(!texts[5].lines().any(|l| l.starts_with("Benchmark")));
}

#[test]
fn hostile_text_stays_text() {
    let evil = "</script><img src=x onerror=alert(1)>\u{1b}[2J\n| *x*";
    let mut b = effect();
    b.plan.name = evil.into();
    b.plan.factors[0].levels[1].label = evil.into();
    for arm in &mut b.schedule.arms {
        arm.label = format!("{evil} {}", arm.id);
        for level in arm.factors.values_mut().filter(|l| l.label == "off") {
            level.label = evil.into();
        }
    }
    let texts = every_format(&b);
    for at in [0, 2, 6] {
        assert!(!texts[at].contains('\u{1b}'), "format {at}");
    }
    assert!(!texts[1].contains("<img"), "the page holds foreign markup");
    assert_eq!(texts[1].matches("</script>").count(), 2);
    assert!(!texts[2].contains("<img"));
    assert!(texts[3].contains("onerror"));
}

#[test]
fn csv_has_a_row_for_each_trial_and_metric_and_absent_is_empty() {
    let mut b = effect();
    b.trials[0].measurements[0] = Measurement::absent("tps", "the server, it died");
    let text = csv(&b, &analyse(&b));
    assert_eq!(text.lines().count(), 1 + b.trials.len() * 3);
    assert!(text.contains(",tps,1/s,,\"the server, it died\"\r\n"));
}

/// Writes the page for the browser's tests where `HOLDUP_PAGE_OUT` names a file.
#[test]
fn page_holds_data_and_verdicts() {
    let b = effect();
    let page = html(&b, &analyse(&b));
    assert!(page.contains("autogroup=off instead of on") && page.contains("id=\"data\">{"));
    if let Some(out) = std::env::var_os("HOLDUP_PAGE_OUT") {
        std::fs::write(out, page).expect("the page can be written");
    }
}

#[test]
fn schemas_are_json_and_name_what_is_there() {
    let b = effect();
    let texts = every_format(&b);
    for ((id, schema), document) in schemas().iter().zip([&texts[3], &texts[7]]) {
        let schema: serde_json::Value = serde_json::from_str(schema).expect("a schema is JSON");
        let document: serde_json::Value = serde_json::from_str(document).expect("a report is JSON");
        assert_eq!(document["schema"], **id);
        for key in schema["required"].as_array().expect("a list") {
            assert!(document.get(key.as_str().expect("a name")).is_some(), "{id}: {key}");
        }
    }
}
