//! Distributions, call stacks and timelines in the formats.

use crate::common;
use common::{data, demo, section};
use holdup_analysis::analyse;
use holdup_model::stacks::Stack;
use holdup_model::timeline::TimelineKind;
use holdup_model::{BundleData, Problem, Timeline, TrialStatus};
use holdup_report::{Choice, csv, html, html_with, json, perfetto, stack_profile, timeline};
use serde_json::Value;
use std::cell::RefCell;
use std::sync::LazyLock;

/// Its histograms take a while to make.
static RICH: LazyLock<BundleData> = LazyLock::new(common::rich);

fn rich() -> BundleData {
    RICH.clone()
}

fn page(bundle: &BundleData) -> String {
    html(bundle, &analyse(bundle))
}

#[test]
fn a_page_without_such_evidence_has_no_such_section() {
    let page = page(&demo());
    assert!(!page.contains("id=\"holdups\"") && !page.contains("class=\"flame\""));
    assert_eq!(data(&page)["flames"]["graphs"], Value::Object(serde_json::Map::new()));
}

#[test]
fn the_tables_say_what_the_script_draws() {
    let text = section(&page(&rich()), "tasks");
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let first = |of: &str, count: usize| {
        let at = lines.iter().position(|l| l.contains(of)).unwrap_or_else(|| panic!("{of} is not on the page"));
        lines[at..].iter().take(count).map(|l| l.trim_end()).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(
        [
            first("Critical sections, clients=2", 7),
            first("Who preempted whom", 4),
            first("Who preempted the holder", 4),
            first("clients=2: distributions", 8),
            first("Where CPU time went: baseline", 12),
        ]
        .join("\n\n")
    );
}

#[test]
fn each_graph_holds_all_that_was_seen() {
    let bundle = rich();
    let data = data(&page(&bundle));
    let graphs = data["flames"]["graphs"].as_object().expect("graphs");
    assert_eq!(graphs.len(), 2 * 2 * 3 * 3, "profiles, workloads, cells, arms without the A/A");
    let functions = data["flames"]["functions"].as_array().expect("functions").len() as u64;
    let drawn: u64 = graphs.values().flat_map(|g| g["own"].as_array().expect("own")).filter_map(Value::as_u64).sum();
    let seen: u64 = bundle
        .trials
        .iter()
        .filter(|t| t.is_done())
        .flat_map(|t| &t.evidence)
        .flat_map(|c| &c.stacks)
        .flat_map(|p| &p.stacks)
        .map(|s| s.weight)
        .sum();
    assert_eq!(drawn, seen);
    for (id, graph) in graphs {
        let parents = graph["parent"].as_array().expect("parents");
        assert!(parents.iter().zip(0..).all(|(p, at)| p.as_u64().is_some_and(|p| p <= at)), "{id}: callers come first");
        let called = graph["function"].as_array().expect("functions");
        assert!(called.iter().all(|f| f.as_u64().is_some_and(|f| f < functions)), "{id}");
    }
}

/// A bundle whose one profile has very many stacks.
fn wide() -> BundleData {
    let mut bundle = rich();
    let mut is_first = true;
    for c in bundle.trials.iter_mut().flat_map(|t| &mut t.evidence) {
        c.stacks.retain(|p| p.name == "on_cpu" && std::mem::take(&mut is_first));
        for profile in &mut c.stacks {
            let frame = profile.frames[0].clone();
            profile.frames = (0..9_000)
                .map(|n| holdup_model::stacks::Frame { function: format!("</script>{n}"), ..frame.clone() })
                .collect();
            let stack = |n| Stack { task: "a".into(), role: None, frames: vec![n, 8_999 - n], weight: 10 };
            profile.stacks = (0..9_000).map(stack).collect();
        }
    }
    bundle
}

#[test]
fn of_many_stacks_the_heaviest_are_drawn_and_the_page_says_so() {
    let page = page(&wide());
    assert!(page.contains("the 2000 heaviest stacks are drawn, the others (78 %) are [other]"), "the note is missing");
    let data = data(&page);
    let graph = &data["flames"]["graphs"]["flame-0"];
    let own: u64 = graph["own"].as_array().expect("own").iter().filter_map(Value::as_u64).sum();
    assert_eq!(own, 90_000, "what is not drawn is in [other]");
    assert_eq!(graph["own"].as_array().expect("own").last(), Some(&Value::from(70_000)));
    assert!(!page.contains("</script>8"), "a function's name ended the element that it stands in");
}

#[test]
fn csv_and_json_have_the_quantiles() {
    let bundle = &*RICH;
    let text = csv(bundle, &analyse(bundle));
    let rows: Vec<&str> = text.lines().filter(|l| l.contains("run_queue_wait_")).take(10).collect();
    let metric = |row: &&str| row.split(",switches/").nth(1).unwrap_or_default().to_owned();
    insta::assert_snapshot!("csv_of_distributions", rows.iter().map(metric).collect::<Vec<_>>().join("\n"));

    let report: Value = serde_json::from_str(&json(bundle, &analyse(bundle))).expect("is JSON");
    let evidence = report["trials"][0]["evidence"].as_array().expect("a list");
    let last: Vec<&Value> = evidence.iter().rev().take(5).rev().collect();
    insta::assert_snapshot!(
        "json_of_distributions",
        format!("{:#}\n{:#}\n{:#}", last[1]["histograms"], last[2]["stacks"], last[4]["timeline"])
    );
}

#[test]
fn a_timeline_becomes_a_trace() {
    let text = perfetto(&common::rich::timeline(), "trial 7");
    let trace: Value = serde_json::from_str(&text).expect("is JSON");
    for event in trace["traceEvents"].as_array().expect("a list") {
        let has = |key: &str| event.get(key).is_some();
        match event["ph"].as_str().expect("a phase") {
            "X" => assert!(has("ts") && has("dur") && has("pid") && has("tid") && has("name"), "{event}"),
            "i" => assert!(has("ts") && has("s"), "{event}"),
            "b" | "e" => assert!(has("ts") && has("id") && has("cat"), "{event}"),
            "M" => assert!(has("args"), "{event}"),
            other => panic!("{other} is no phase that is used"),
        }
    }
    insta::assert_snapshot!("perfetto", text);
}

#[test]
fn slices_of_one_track_lie_inside_each_other_or_apart() {
    for timeline in [common::rich::timeline(), common::rich::simulated_timeline()] {
        nested(&serde_json::from_str(&perfetto(&timeline, "")).expect("is JSON"));
    }
}

fn nested(trace: &Value) {
    let events = trace["traceEvents"].as_array().expect("a list");
    let slices: Vec<(String, f64, f64)> = events
        .iter()
        .filter(|e| e["ph"] == "X")
        .map(|e| {
            let begin = e["ts"].as_f64().expect("a number");
            (e["tid"].to_string(), begin, begin + e["dur"].as_f64().expect("a number"))
        })
        .collect();
    assert!(slices.len() > 8);
    for (i, a) in slices.iter().enumerate() {
        for b in &slices[i + 1..] {
            let apart = a.0 != b.0 || a.2 <= b.1 || b.2 <= a.1;
            let inside = (a.1 <= b.1 && b.2 <= a.2) || (b.1 < a.1 && a.2 <= b.2);
            assert!(apart || inside, "{a:?} and {b:?}");
        }
    }
}

#[test]
fn damaged_timelines_do_no_harm() {
    let mut bad = common::rich::timeline();
    bad.tasks.truncate(1);
    bad.events.reverse();
    bad.events.iter_mut().for_each(|e| e.cpu = u32::MAX);
    let text = perfetto(&bad, "a \"title\"\n");
    assert!(serde_json::from_str::<Value>(&text).is_ok());
    let mut worse = common::rich::simulated_timeline();
    worse.tasks.clear();
    worse.end_ns = Some(u64::MAX);
    for (i, event) in worse.events.iter_mut().enumerate() {
        event.at_ns = u64::MAX - 7 * i as u64;
        if let TimelineKind::Hold { length_ns, .. } | TimelineKind::Fault { length_ns, .. } = &mut event.kind {
            *length_ns = u64::MAX;
        }
    }
    assert!(serde_json::from_str::<Value>(&perfetto(&worse, "")).is_ok());
    let mut bundle = rich();
    for collected in bundle.trials.iter_mut().flat_map(|t| &mut t.evidence) {
        collected.timeline = collected.timeline.take().map(|_| worse.clone());
    }
    assert!(data(&page(&bundle))["timelines"].is_object());
    assert!(serde_json::from_str::<Value>(&perfetto(&holdup_model::Timeline::default(), "")).is_ok());
}

/// The bundle with the timeline of a simulated machine in each trial of its first arm.
fn simulated() -> BundleData {
    let mut bundle = rich();
    for trial in &mut bundle.trials {
        let is_first = trial.arm == bundle.schedule.arms[0].id;
        for collected in &mut trial.evidence {
            collected.timeline = collected.timeline.take().and(is_first.then(common::rich::simulated_timeline));
        }
    }
    bundle
}

#[test]
fn what_cpus_did_is_drawn_and_in_the_tables() {
    let page = page(&simulated());
    let timelines = &data(&page)["timelines"];
    let text = section(&page, "tasks");
    let at = text.find("CPUs over time").expect("the heading is there");
    let lines: Vec<&str> = text[at..].lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    let mut result = lines.iter().take(14).map(|l| format!("{l}\n")).collect::<String>();
    result += &format!("{:#}", serde_json::to_string(&timelines["timeline-0"]).expect("is JSON").replace("},", "},\n"));
    insta::assert_snapshot!("timeline_of_cpus", result);
    let sum =
        |row: &Value| row["slices"]["length"].as_array().expect("a list").iter().filter_map(Value::as_u64).sum::<u64>();
    let rows = timelines["timeline-0"]["rows"].as_array().expect("a list");
    assert_eq!(
        rows.iter().map(sum).collect::<Vec<_>>(),
        [24_000, 30_000],
        "slices fill the time that tasks have a CPU"
    );
}

#[test]
fn what_cpus_did_is_in_the_trace() {
    insta::assert_snapshot!("perfetto_simulated", perfetto(&common::rich::simulated_timeline(), "trial 7"));
}

#[test]
fn a_long_timeline_is_cut_and_says_so() {
    let mut bundle = simulated();
    let mut long = common::rich::simulated_timeline();
    let wakeup = long.events.pop().expect("there is one");
    for i in 0..100_000 {
        let mut switch = wakeup.clone();
        let (from, to) = if i % 2 == 0 { (Some(0), Some(2)) } else { (Some(2), Some(0)) };
        switch.at_ns += 1_000 * (i + 1);
        switch.kind = TimelineKind::Switch { from, to, left: "user boundary (R)".into(), section: None };
        long.events.push(switch);
    }
    long.end_ns = None;
    bundle.trials.retain(|t| t.arm == bundle.schedule.arms[0].id);
    let first = bundle.trials[0].evidence.iter_mut().find(|c| c.timeline.is_some()).expect("it has one");
    first.timeline = Some(long);
    let page = page(&bundle);
    let text = section(&page, "tasks");
    let note = text.lines().find(|l| l.contains("A page holds no more of it")).expect("it is said");
    assert!(note.contains("the bundle has 100.0 ms, of which 60.01 ms are drawn"), "{note}");
    let rows = &data(&page)["timelines"]["timeline-0"]["rows"];
    let count: usize =
        rows.as_array().expect("a list").iter().map(|r| r["slices"]["task"].as_array().map_or(0, Vec::len)).sum();
    assert!(count > 59_000 && count <= 60_000, "{count}");
}

/// A bundle of many trials has more timelines than there is memory for.
#[test]
fn a_page_reads_the_timelines_alone_that_it_draws() {
    let whole = simulated();
    let mut without = whole.clone();
    for timeline in without.trials.iter_mut().flat_map(|t| &mut t.evidence).filter_map(|c| c.timeline.as_mut()) {
        *timeline = Timeline { left_out: timeline.count(), lost: timeline.lost, ..Timeline::default() };
    }
    let read = RefCell::new(Vec::new());
    let trial = |seq| {
        read.borrow_mut().push(seq);
        Ok(whole.trials.iter().find(|trial| trial.seq == seq).expect("it is there").clone())
    };
    let analysis = analyse(&whole);
    assert!(html_with(&without, &analysis, &trial).expect("all are read") == html(&whole, &analysis));
    assert_eq!(read.take().len(), 1, "one arm has timelines");
    assert!(html_with(&without, &analysis, &|_| Err(Problem::host("trial 0", "is damaged"))).is_err());
}

#[test]
fn which_trials_are_meant_is_chosen_or_said() {
    let mut bundle = rich();
    let arm = bundle.schedule.arms[0].clone();
    let said = |bundle: &BundleData, choice: Choice| {
        let profile =
            stack_profile(bundle, &choice).map(|p| p.stacks.iter().map(|s| s.weight).sum::<u64>().to_string());
        profile.unwrap_or_else(|p| p.to_string())
    };
    let all = said(&bundle, Choice::default());
    let of_arm = said(&bundle, Choice { arm: Some(arm.label.clone()), ..Choice::default() });
    let by_number = said(&bundle, Choice { arm: Some(arm.id.to_string()), ..Choice::default() });
    assert_eq!(of_arm, by_number);
    assert!(of_arm.parse::<u64>().expect("a weight") < all.parse::<u64>().expect("a weight"));
    assert_eq!(timeline(&bundle, &Choice::default()).expect("there is one").0.seq, 0);

    let no_arm = said(&bundle, Choice { arm: Some("fast".into()), ..Choice::default() });
    let no_trial = said(&bundle, Choice { trial: Some(9_999), ..Choice::default() });
    let no_profile = said(&bundle, Choice { profile: Some("heap".into()), ..Choice::default() });
    let none = said(&demo(), Choice::default());
    let no_timeline = timeline(&demo(), &Choice::default()).expect_err("there is none").to_string();
    bundle.trials.iter_mut().flat_map(|t| &mut t.evidence).for_each(|c| c.timeline = None);
    let stacks_alone = timeline(&bundle, &Choice::default()).expect_err("there is none").to_string();
    bundle.trials[0].status = TrialStatus::Void { reason: "slow".into() };
    assert_ne!(said(&bundle, Choice::default()), all, "a void trial is not part of it");
    assert!(said(&bundle, Choice { trial: Some(0), ..Choice::default() }).parse::<u64>().is_ok(), "unless it is named");
    insta::assert_snapshot!([no_arm, no_trial, no_profile, none, no_timeline, stacks_alone].join("\n"));
}
