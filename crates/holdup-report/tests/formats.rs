//! Every format over synthetic bundles: the demo, hostile text, nothing at all, nothing that counts.

use crate::common;
use common::{demo, void};
use holdup_analysis::analyse;
use holdup_model::bundle::Ending;
use holdup_model::foreign::is_harmful;
use holdup_model::*;
use holdup_report::formats::ALL;
use holdup_report::*;
use std::collections::BTreeMap;

const PLAIN: TerminalOptions = TerminalOptions { width: 80, color: false, details: true };

/// Each format by its id, and the comparisons.
fn every_format(bundle: &BundleData) -> BTreeMap<&'static str, String> {
    let a = analyse(bundle);
    let mut texts: BTreeMap<&'static str, String> = ALL.iter().map(|f| (f.id, (f.render)(bundle, &a))).collect();
    texts.insert("compare", compare_terminal(&a, ("a", "b"), &PLAIN));
    texts.insert("compare-json", compare_json(&a, ("a", "")));
    texts.insert("dry-run", dry_run(&bundle.plan, &bundle.schedule, 90_000_000_000, &[]));
    texts
}

fn terminal_at(width: usize) -> String {
    let bundle = demo();
    let text = terminal(&bundle, &analyse(&bundle), &TerminalOptions { width, color: false, details: true });
    let long: Vec<&str> = text.lines().filter(|l| l.chars().count() > width).collect();
    assert!(long.is_empty(), "{long:#?}");
    assert!(!text.contains('\u{1b}'));
    text
}

#[test]
fn terminal_at_80_columns() {
    insta::assert_snapshot!(terminal_at(80));
}

/// The default of `run`, `report` and `compare` is one screen for every bundle.
#[test]
fn the_answer_fits_one_screen() {
    let screen = TerminalOptions { width: 80, color: false, details: false };
    let mut bundles: Vec<(String, BundleData)> = vec![("demo".into(), demo()), ("hostile".into(), hostile())];
    let mut empty = demo();
    empty.trials.clear();
    let mut all = demo();
    all.trials.iter_mut().for_each(|t| void(t, &"no server and many reasons ".repeat(40)));
    let mut emulated = demo();
    emulated.head.emulated = Some("emulated by QEMU TCG".into());
    emulated.ending = Some(Ending::Failed { reason: "the server died ".repeat(100) });
    let mut many = demo();
    let levels = (0..40_i32).map(|i| Level::plain(i64::from(i))).collect();
    many.plan.factors[0].levels = levels;
    let mut curve = demo();
    curve.plan.factors.clear();
    curve.schedule.arms.retain(|a| a.factors.values().all(|l| ["on", "other"].contains(&l.label.as_str())));
    curve.schedule.arms.iter_mut().for_each(|a| a.factors.clear());
    let mut one = demo();
    one.schedule.arms.truncate(1);
    for (name, bundle) in [("empty", empty), ("void", all), ("emulated", emulated), ("many", many), ("curve", curve)] {
        bundles.push((name.into(), bundle));
    }
    bundles.push(("one arm".into(), one));
    for (name, bundle) in &bundles {
        let analysis = analyse(bundle);
        let text = terminal(bundle, &analysis, &screen);
        common::is_one_screen(name, &text);
        common::is_one_screen(name, &compare_terminal(&analysis, ("a.holdup", "b.holdup"), &screen));
        if ["demo", "curve", "one arm"].contains(&name.as_str()) {
            insta::assert_snapshot!(format!("screen of {name}"), text);
        }
    }
}

#[test]
fn terminal_at_120_columns() {
    insta::assert_snapshot!(terminal_at(120));
}

#[test]
fn colour_says_nothing_by_itself() {
    let bundle = demo();
    let a = analyse(&bundle);
    let colored = terminal(&bundle, &a, &TerminalOptions { width: 80, color: true, details: true });
    assert!(colored.contains('\u{1b}'));
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        rest = rest[at..].split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    assert_eq!(plain, terminal(&bundle, &a, &PLAIN));
}

#[test]
fn markdown_csv_and_benchstat() {
    let bundle = demo();
    let texts = every_format(&bundle);
    insta::assert_snapshot!("markdown", texts["markdown"]);
    let head = |id: &str, lines: usize| texts[id].lines().take(lines).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!("csv", head("csv", 12));
    insta::assert_snapshot!("benchstat", head("benchstat", 20));
    assert_eq!(texts["csv"].lines().count(), 1 + bundle.trials.len() * 5);
    let benchmarks = texts["benchstat"].lines().filter(|l| l.starts_with("Benchmark"));
    assert_eq!(benchmarks.clone().count(), bundle.trials.iter().filter(|t| t.is_done()).count());
    for line in benchmarks {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words.len() >= 4 && words.len().is_multiple_of(2), "name, count, then pairs: {line}");
        assert!(words[1] == "1" && words[2].parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn a_dry_run_shows_order_time_and_what_is_touched() {
    let bundle = demo();
    let touches = [("autogroup".to_owned(), "writes /proc/sys/kernel/sched_autogroup_enabled".to_owned())];
    insta::assert_snapshot!("dry_run", dry_run(&bundle.plan, &bundle.schedule, 3_900_000_000_000, &touches));
}

/// A plan that boots shows what it boots, and how its boots are mixed.
#[test]
fn a_dry_run_shows_boots() {
    let mut bundle = demo();
    let kernels = ["debian:6.19", "debian:7.0"];
    bundle.plan.target = "qemu".into();
    bundle.plan.factors = vec![Factor {
        name: "kernel".into(),
        levels: kernels.map(Level::plain).into(),
        workloads: Vec::new(),
        optional: false,
    }];
    bundle.plan.guest = Some(Guest { numa_nodes: 2, hugepages: Some(64), pin: vec![0, 1], ..Guest::default() });
    (bundle.plan.design.sessions, bundle.plan.design.blocks) = (2, 2);
    let mut arms: Vec<Arm> = bundle.schedule.arms.drain(..2).collect();
    for (arm, kernel) in arms.iter_mut().zip(kernels) {
        arm.label = format!("select-only clients=2 kernel={kernel}");
    }
    let trial = |(seq, session, boot, block, arm)| TrialSpec { seq, session, boot, block, position: 0, arm };
    let trials = [
        (0, 0, 0, 0, 1),
        (1, 0, 0, 1, 1),
        (2, 0, 1, 0, 0),
        (3, 0, 1, 1, 0),
        (4, 1, 2, 2, 0),
        (5, 1, 2, 3, 0),
        (6, 1, 3, 2, 1),
        (7, 1, 3, 3, 1),
    ];
    let schedule = Schedule { arms, trials: trials.map(trial).into() };
    insta::assert_snapshot!("dry_run_of_boots", dry_run(&bundle.plan, &schedule, 90_000_000_000, &[]));
    let guest = bundle.plan.guest.take().unwrap_or_default();
    bundle.plan.guest = Some(Guest { peer: true, nic_options: "mrg_rxbuf=off".to_owned(), ..guest });
    let text = dry_run(&bundle.plan, &schedule, 90_000_000_000, &[]);
    assert!(text.contains("Peer: a second machine of the same kernel") && text.contains("mrg_rxbuf=off"), "{text}");
    assert!(text.contains("6144 MB together"), "{text}");
}

#[test]
fn a_dry_run_of_very_many_arms_stays_short() {
    let mut bundle = demo();
    let first = bundle.schedule.arms[0].clone();
    bundle.schedule.arms = (0..100_000).map(|id| Arm { id, label: format!("arm {id}"), ..first.clone() }).collect();
    bundle.schedule.trials =
        (0..100_000).map(|arm| TrialSpec { seq: arm, session: 0, boot: 0, block: 0, position: arm, arm }).collect();
    let text = dry_run(&bundle.plan, &bundle.schedule, 1, &[]);
    assert!(text.lines().count() < 80, "{} lines", text.lines().count());
    assert!(text.contains("100000 arms") && text.contains("99960 further arms"), "{text}");
}

#[test]
fn the_three_answers_stand_in_every_format_for_readers() {
    let texts = every_format(&demo());
    for id in ["terminal", "markdown", "html"] {
        let text = &texts[id];
        assert!(text.contains("no difference beyond ±5 %"), "{id}: equivalent");
        assert!(text.contains("different, better"), "{id}: different");
        assert!(text.contains("undecided (the interval includes 1"), "{id}: undecided");
        assert!(text.contains("the environment moved: cpu.governor"), "{id}: void trial");
        assert!(text.contains("the server&#39;s control group") || text.contains("the server's control group"), "{id}");
        assert!(text.contains("noise floor"), "{id}");
        assert!(text.contains("holdup run plans/demo.toml --out demo.holdup"), "{id}: the command");
    }
}

#[test]
fn a_ratio_without_slow_trials_stands_beside_the_mean() {
    let mut bundle = demo();
    let once = std::mem::take(&mut bundle.trials);
    let slow = bundle.schedule.arms.iter().find(|a| a.factors["autogroup"].label == "off").expect("an arm").id;
    // Four times five blocks, in two of which a trial of one arm took ten times as long.
    for trial in (0..4).flat_map(|k| once.iter().map(move |t| Trial { block: t.block + 5 * k, ..t.clone() })) {
        bundle.trials.push(Trial { seq: bundle.trials.len() as u32, ..trial });
    }
    for trial in bundle.trials.iter_mut().filter(|t| t.arm == slow && [3, 8].contains(&t.block)) {
        let tps = trial.measurements.iter_mut().find(|m| m.metric == "tps").expect("tps");
        tps.value = Measured::Value(tps.value.value().expect("measured") / 10.0);
    }
    bundle.plan.design.effect = holdup_model::plan::EffectKind::Trimmed;
    let texts = every_format(&bundle);
    let one_line = |id: &str| texts[id].split_whitespace().collect::<Vec<_>>().join(" ");
    for id in ["terminal", "html", "markdown"] {
        assert!(one_line(id).contains("slow trials are left out, with them ×"), "{id}: {}", texts[id]);
        assert!(
            one_line(id).contains("2 of 20 blocks left out for slow trials (0 of the baseline, 2 of the other arm)"),
            "{id}"
        );
        assert!(one_line(id).contains("ran 90 % slower than the rest"), "{id}");
    }
    assert!(one_line("html").contains("of the blocks without far slower trials (effect = trimmed)"));
    let json: serde_json::Value = serde_json::from_str(&texts["json"]).expect("JSON");
    let text = json.to_string();
    assert!(text.contains("\"mean_ratio\""), "both are in the JSON");
}

#[test]
fn empty_and_all_void_bundles_say_so() {
    let mut empty = demo();
    empty.trials.clear();
    let texts = every_format(&empty);
    assert!(texts["html"].contains("holds no trial") && texts["terminal"].contains("holds no trial"));
    empty.schedule.arms.clear();
    empty.schedule.trials.clear();
    empty.metrics.clear();
    empty.plan.workloads.clear();
    every_format(&empty);

    let mut all = demo();
    all.trials.iter_mut().for_each(|t| void(t, "no server"));
    let texts = every_format(&all);
    for id in ["terminal", "html", "markdown", "json", "csv"] {
        assert!(texts[id].contains("no server"), "{id} hides the reason");
    }
    for id in ["terminal", "html"] {
        assert!(texts[id].contains("Every trial of this run is void"), "{id}");
    }
    assert!(!texts["benchstat"].lines().any(|l| l.starts_with("Benchmark")));
}

#[test]
fn emulation_and_an_early_end_cannot_be_overlooked() {
    let mut b = demo();
    b.head.emulated = Some("emulated by QEMU TCG".into());
    for (ending, words) in [
        (Some(Ending::Complete), ""),
        (Some(Ending::Budget), "used up its time budget"),
        (Some(Ending::Interrupted), "was interrupted"),
        (Some(Ending::Failed { reason: "the server died".into() }), "the server died"),
        (None, "never ended properly"),
    ] {
        b.ending = ending;
        let texts = every_format(&b);
        for id in ["terminal", "html", "markdown"] {
            let before = texts[id].find("autogroup=off instead of on").expect("there is a verdict");
            let flat = texts[id][..before].split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains("emulated by QEMU TCG"), "{id} hides the emulation");
            assert!(flat.contains(words), "{id} hides the end: {words}");
        }
        let first = |id: &str| texts[id].lines().next().unwrap_or_default().to_owned();
        assert!(first("terminal").starts_with("! Times here are emulated by QEMU TCG, not"), "{}", first("terminal"));
        assert!(first("markdown").starts_with("**Times here are emulated by QEMU TCG, not"), "{}", first("markdown"));
        assert!(first("benchstat").starts_with("holdup-emulated: Times here are emulated by QEMU TCG, not"));
        assert!(texts["csv"].lines().skip(1).all(|row| row.ends_with(",emulated by QEMU TCG")));
        let json: serde_json::Value = serde_json::from_str(&texts["json"]).expect("JSON");
        assert!(json["caution"].as_str().expect("it is there").contains("absolute times may not"));
        let body = texts["html"].split_once("<body>").expect("a body").1;
        let text = body.split_once("</p>").expect("a paragraph").0;
        assert!(text.contains("Times here are emulated by QEMU TCG, not"), "the page begins with {text}");
        for id in ["terminal", "html", "markdown", "benchstat"] {
            let flat = texts[id].split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(flat.matches("not those of hardware").count(), 1, "{id} says it once");
        }
    }
}

fn hostile() -> BundleData {
    let evil = "</script><img src=x onerror=alert(1)>\u{1b}[2J\n| *x* \"q\" '\u{2028}<!-- \u{9b}2J \u{202e}\u{200b}";
    let mut b = demo();
    b.plan.name = evil.into();
    b.plan.question = evil.into();
    b.head.command.push(evil.into());
    b.plan.factors[0].levels[1].label = evil.into();
    b.plan.workloads[0].name = evil.into();
    for (workload, _) in &mut b.metrics {
        if workload == "select-only" {
            *workload = evil.into();
        }
    }
    for arm in &mut b.schedule.arms {
        arm.label = format!("{evil} {}", arm.id);
        if arm.workload == "select-only" {
            arm.workload = evil.into();
        }
        for level in arm.factors.values_mut().filter(|l| l.label == "off") {
            level.label = evil.into();
        }
    }
    for reading in &mut b.environment {
        for fact in &mut reading.facts {
            fact.value = Some(evil.into());
        }
    }
    for trial in &mut b.trials {
        trial.notes.push(evil.into());
        for collected in &mut trial.evidence {
            collected.items.iter_mut().for_each(|item| item.label = Some(evil.into()));
        }
    }
    b.head.run_id = evil.into();
    b.head.target = evil.into();
    b.plan_source = format!("{evil}\n");
    void(&mut b.trials[3], evil);
    b
}

#[test]
fn hostile_text_stays_text() {
    let texts = every_format(&hostile());
    for id in ["terminal", "markdown", "compare", "dry-run", "benchstat"] {
        assert!(!texts[id].contains('\u{1b}'), "{id} hands on a control character");
    }
    // What is written into files; a terminal gets all of it through `foreign::printed`.
    for id in ["html", "markdown", "csv", "benchstat"] {
        let harmful: Vec<char> =
            texts[id].chars().filter(|c| is_harmful(*c) && !matches!(c, '\n' | '\r' | '\t')).collect();
        assert!(harmful.is_empty(), "{id} hands on {harmful:?}");
    }
    assert!(!texts["html"].contains("<img"), "foreign markup");
    // The command stands in an indented block of code, on one line, where markup is text.
    let outside = |l: &&str| !l.starts_with("    ");
    assert!(!texts["markdown"].lines().filter(outside).any(|l| l.contains("<img")), "foreign markup");
    assert!(texts["json"].contains("onerror"), "nothing is dropped");
    let page = &texts["html"];
    assert_eq!(page.matches("</script").count(), 2, "data and script, and nothing of a label");
    assert!(!page.contains('\u{2028}') || !data_of(page).contains('\u{2028}'));
    let data: serde_json::Value = serde_json::from_str(data_of(page)).expect("the page's data are JSON");
    assert!(data["series"].to_string().contains("onerror"), "the charts show the label as it is");
}

/// The data that stand in a page.
fn data_of(page: &str) -> &str {
    let begin = page.find("id=\"data\">").expect("the page has data") + "id=\"data\">".len();
    &page[begin..begin + page[begin..].find("</script").expect("the data end")]
}

#[test]
fn csv_keeps_absent_values_empty_with_their_reason() {
    let mut b = demo();
    b.trials[0].measurements[0] = Measurement::absent("tps", "the server, it died");
    let text = csv(&b, &analyse(&b));
    assert!(text.contains(",tps,1/s,,\"the server, it died\",\r\n"));
}

#[test]
fn every_chart_of_the_page_has_data_and_a_table() {
    let page = &every_format(&demo())["html"];
    let data: serde_json::Value = serde_json::from_str(data_of(page)).expect("the page's data are JSON");
    let charts = data["charts"].as_object().expect("charts by id");
    let kinds = ["effects", "curve", "percentiles", "shift", "order", "cpu"];
    for kind in kinds {
        assert!(page.contains(&format!("data-kind=\"{kind}\"")), "no chart of kind {kind}");
    }
    assert_eq!(page.matches("<figure class=\"chart\"").count(), charts.len());
    for (id, data) in charts {
        let at = page.find(&format!("data-chart=\"{id}\"")).expect("a figure for the data");
        let figure = &page[at..at + page[at..].find("</figure>").expect("the figure ends")];
        assert!(figure.contains("<td"), "{id} has no table");
        assert!(!data.to_string().contains("NaN"), "{id}");
    }
    assert!(!page.contains("src=") && !page.contains("@import"), "the page would load something");
    for t in demo().trials {
        assert!(page.contains(&format!("id=\"trial-{}\"", t.seq)), "trial {} has no place to link to", t.seq);
    }
}

#[test]
fn thin_tails_and_absent_metrics_are_marked() {
    let page = &every_format(&demo())["html"];
    assert!(page.contains("(thin)"), "450 samples have no p99.9");
    assert!(page.contains("no rate is set, so nothing has a scheduled start"));
}
