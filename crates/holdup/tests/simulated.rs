//! Runs and predictions on machines that do not exist, as a user meets them.

use crate::common;
use common::{Sandbox, refused};

const LOCKS: &[&str] = &[
    "run",
    "lock-contention",
    "--target",
    "sim:server-8",
    "--threads",
    "4,16",
    "--algorithm",
    "tas,postgres-s-lock",
    "--vary",
    "preempt=none,full",
    "--set",
    "faults=1",
    "--duration",
    "5ms",
    "--warmup",
    "2ms",
    "--blocks",
    "4",
];

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    base.iter().chain(more).copied().collect()
}

fn a_plan_and_a_seed_give_the_same_bundle_to_the_byte() {
    let place = Sandbox::new();
    for name in ["a.holdup", "b.holdup"] {
        place.expect(0, &with(LOCKS, &["--out", name]));
    }
    place.expect(0, &with(LOCKS, &["--seed", "7", "--out", "c.holdup"]));
    let bytes = |name: &str| std::fs::read(place.path(name)).expect("a bundle");
    assert!(bytes("a.holdup") == bytes("b.holdup"), "the same plan and seed");
    assert!(bytes("a.holdup") != bytes("c.holdup"), "another seed");
    place.expect(0, &["verify", "a.holdup"]);
}

fn every_rendering_says_first_that_it_is_simulated() {
    let place = Sandbox::new();
    place.expect(0, &with(LOCKS, &["--out", "s.holdup"]));
    place.expect(0, &["report", "s.holdup", "--html", "s.html", "--markdown", "s.md"]);
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let (terminal, _) = place.expect(0, &["report", "s.holdup"]);
    assert!(first(&terminal).contains("simulated on a machine with 8 CPUs"), "{terminal}");
    for file in ["s.html", "s.md"] {
        let text = std::fs::read_to_string(place.path(file)).expect("a report");
        assert!(text.contains("simulated on a machine with 8 CPUs"), "{file}");
    }
    let (explanation, _) = texts(&place, &["explain", "s.holdup"]);
    assert!(first(&explanation).contains("simulated on a machine"), "{explanation}");
}

/// The output of a command whose exit code is a verdict.
fn texts(place: &Sandbox, args: &[&str]) -> (String, String) {
    common::texts(&place.output(args))
}

fn a_prediction_has_intervals_and_the_parameters_behind_them() {
    let place = Sandbox::new();
    let predict = |more: &[&str]| {
        let base = ["predict", "lock-contention", "--machine", "server-8", "--threads", "4,8", "--algorithm", "tas"];
        place.expect(0, &with(&with(&base, &["--duration", "2ms", "--warmup", "1ms", "--draws", "4"]), more)).0
    };
    let (json, again) = (predict(&["--json"]), predict(&["--json"]));
    assert_eq!(json, again, "it is the same each time");
    let document: serde_json::Value = serde_json::from_str(&json).expect("one JSON document");
    assert_eq!(document["schema"], "holdup.predict/1");
    let ratio = &document["prediction"]["ratios"][0];
    let [low, median, high] =
        ["low", "median", "high"].map(|key| ratio["ratio"][key].as_f64().expect("a number that was simulated"));
    assert!(low <= median && median <= high && low < high, "{json}");
    let hangs_on = ratio["hangs_on"].as_array().expect("a list");
    assert!(hangs_on.iter().any(|h| h["parameter"] == "transfer_llc_ns"), "{json}");
    let terminal = predict(&[]);
    assert!(terminal.starts_with("! Simulated on a machine with 8 CPUs, not measured"), "{terminal}");
}

fn a_published_ratio_is_looked_for_on_other_machines() {
    let place = Sandbox::new();
    let base = ["predict", "lock-contention", "--machine", "server-8", "--threads", "4,8", "--algorithm", "tas"];
    let base = with(&base, &["--duration", "2ms", "--warmup", "1ms", "--draws", "4"]);
    let (json, _) = place.expect(0, &with(&base, &["--reach", "threads=8:0.01", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&json).expect("one JSON document");
    let reach = &document["prediction"]["reach"][0];
    assert_eq!((&reach["baseline"], &reach["machines"], &reach["reached"]), (&"4".into(), &20.into(), &0.into()));
    let alone = reach["alone"].as_array().expect("a list");
    assert!(alone.iter().any(|a| a["parameter"] == "transfer_llc_ns"), "{json}");
    assert!(
        alone.iter().all(|a| a["reached_at_ns"].is_null()),
        "nothing slows twice the threads a hundredfold: {json}"
    );
    let (terminal, _) = place.expect(0, &with(&base, &["--reach", "threads=8:0.01"]));
    assert!(terminal.contains("0 of 20 machines reach it"), "{terminal}");
    for (wrong, why) in [("threads=16:0.9", "no level"), ("threads=8", "no ratio"), ("x=8:0.9", "no such factor")] {
        let (_, error) = place.expect(2, &with(&base, &["--reach", wrong]));
        assert!(error.contains(why) && error.contains("hint: "), "{wrong}: {error}");
    }
}

/// A machine of the catalogue of which only the costs of lines that many CPUs want have ranges: enough for the two reports of
/// 2026, and few enough machines for a test.
fn machine_of_lines(place: &Sandbox, name: &str) {
    let (file, _) = place.expect(0, &["list", "machines", name]);
    let narrow = |line: &str| match line.split_once(" = { value = ") {
        Some((cost, rest)) if !matches!(cost, "contender_ns" | "spin_ns") => {
            let value = rest.split(',').next().unwrap_or_default();
            let source = rest.split_once("source = ").map_or("", |(_, source)| source);
            format!("{cost} = {{ value = {value}, range = [{value}, {value}], source = {source}")
        }
        _ => line.to_owned(),
    };
    let text: Vec<String> = file.lines().map(narrow).collect();
    std::fs::write(place.path(&format!("{name}.toml")), text.join("\n")).expect("a machine file");
}

/// The 5th and the 95th percentile of the ratio that `holdup predict` has beside the first one of a plan's report.
fn beside_published(place: &Sandbox, plan: &str, more: &[&str]) -> (f64, f64) {
    let plan = format!("{}/../../plans/{plan}.toml", env!("CARGO_MANIFEST_DIR"));
    let base = ["predict", &plan, "--draws", "3", "--warmup", "40ms", "--duration", "40ms", "--quiet"];
    let (json, _) = place.expect(0, &with(&with(&base, more), &["--json"]));
    let document: serde_json::Value = serde_json::from_str(&json).expect("one JSON document");
    let range = &document["prediction"]["published"][0]["range"];
    let [low, high] =
        ["low", "high"].map(|end| range[end].as_f64().unwrap_or_else(|| panic!("no two arms differ so: {json}")));
    (low, high)
}

fn the_ratio_of_the_report_of_2026_lies_within() {
    let place = Sandbox::new();
    machine_of_lines(&place, "graviton4-96");
    let arms = ["--set", "preempt=none,lazy", "--set", "postgres.huge_pages=off", "--machine", "./graviton4-96.toml"];
    let (low, high) = beside_published(&place, "postgres-lazy-2026-sim", &arms);
    assert!(low < 0.515 && 0.515 < high, "{low} to {high}");
}

fn the_ratio_of_the_wait_list_of_2026_lies_within() {
    let place = Sandbox::new();
    machine_of_lines(&place, "neoverse-v3-192");
    let builds = "postgres.build=stock,patches/lwlock-wait-list-futex";
    let arms = ["--set", "clients=1000", "--set", builds, "--machine", "./neoverse-v3-192.toml"];
    let (low, high) = beside_published(&place, "lwlock-wait-list-2026-sim", &arms);
    assert!(low < 1.0 && 1.55 < high, "{low} to {high}");
    // On half as many CPUs it brings nothing, as published of machines with other cores.
    machine_of_lines(&place, "graviton4-96");
    let arms = ["--set", "clients=1000", "--set", builds, "--machine", "./graviton4-96.toml"];
    let (low, high) = beside_published(&place, "lwlock-wait-list-2026-sim", &arms);
    assert!(0.9 < low && high < 1.1, "{low} to {high}");
}

fn a_prediction_that_does_not_give_the_published_ratio_says_so_first() {
    let place = Sandbox::new();
    machine_of_lines(&place, "xeon-16");
    let plan = format!("{}/../../plans/tweaks-2013-sim.toml", env!("CARGO_MANIFEST_DIR"));
    let base = ["predict", &plan, "--draws", "2", "--warmup", "20ms", "--duration", "20ms", "--quiet"];
    let (text, _) = place.expect(0, &with(&base, &["--set", "clients=900", "--machine", "./xeon-16.toml"]));
    let first = text.split('▸').next().unwrap_or_default().replace("\n  ", " ");
    assert!(first.contains("Published: autogroup=off migration-cost=5ms instead of on 500us"), "{text}");
    assert!(first.contains("it lies outside, so these costs do not give it"), "{text}");
    // Where no arm has the published number of clients, the ratio says nothing.
    let (text, _) = place.expect(0, &with(&base, &["--set", "clients=64", "--machine", "./xeon-16.toml"]));
    assert!(text.replace("\n  ", " ").contains("no two arms of this plan differ so"), "{text}");
}

/// Who ran, held, spun and had page faults is in the bundle when it is asked for, and in what is made of it.
fn a_timeline_of_cpus_is_drawn_and_exported() {
    let place = Sandbox::new();
    let run = |duration: &'static str, out: &'static str, more: &[&'static str]| {
        let base = ["run", "lock-contention", "--target", "sim:server-8", "--threads", "12", "--algorithm", "tas"];
        let window = ["--set", "faults=1", "--duration", duration, "--warmup", "1ms", "--blocks", "4", "--out", out];
        place.expect(0, &with(&with(&base, &window), more));
        let (json, _) = place.expect(0, &["report", out, "--json"]);
        serde_json::from_str::<serde_json::Value>(&json).expect("one JSON document")
    };
    let timeline = |report: &serde_json::Value| {
        let evidence = report["trials"][0]["evidence"].as_array().expect("a list");
        evidence.iter().find(|c| c["collector"] == "timeline").cloned()
    };
    assert_eq!(timeline(&run("500us", "without.holdup", &[])), None, "without the collector");
    let short = timeline(&run("5ms", "a.holdup", &["--collect", "timeline"])).expect("it was asked for");
    assert_eq!((&short["timeline"]["lost_events"], &short["coverage"]["notes"]), (&0.into(), &serde_json::json!([])));
    // A long window has more events than there is room for: that is said, and the rest is whole.
    let long = timeline(&run("120ms", "b.holdup", &["--collect", "timeline"])).expect("it was asked for");
    assert!(long["timeline"]["lost_events"].as_u64() > Some(0), "{long}");
    let note = long["coverage"]["notes"][0].as_str().expect("a note");
    assert!(
        note.starts_with("the room of 100000 events was used up after ") && note.contains(" of 120 ms: "),
        "{note}"
    );
    place.expect(0, &["verify", "b.holdup"]);

    place.expect(0, &["report", "b.holdup", "--html", "b.html"]);
    let page = std::fs::read_to_string(place.path("b.html")).expect("a page");
    assert!(page.contains("data-timeline=\"timeline-0\""), "it is on the page");
    assert!(page.contains("There was no room for the "), "the page says what is not there");
    let (trace, _) = place.expect(0, &["export", "a.holdup", "--format", "perfetto"]);
    let trace: serde_json::Value = serde_json::from_str(&trace).expect("is JSON");
    let names: std::collections::BTreeSet<&str> =
        trace["traceEvents"].as_array().expect("a list").iter().filter_map(|e| e["name"].as_str()).collect();
    for name in ["spins for tas", "holds tas", "page fault", "switch", "running"] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
}

fn what_cannot_be_simulated_is_refused_with_what_can() {
    let place = Sandbox::new();
    let locks = ["run", "lock-contention", "--threads", "2", "--algorithm", "tas", "--out", "x.holdup"];
    refused(&place, 2, &with(&locks, &["--target", "sim:server-9"]), &["machine server-9", "server-8"]);
    refused(&place, 2, &with(&locks, &["--target", "sim:./none.toml"]), &["machine ./none.toml", "No such file"]);
    let on = |more: &[&'static str]| with(&with(&locks, &["--target", "sim:server-8"]), more);
    refused(&place, 3, &on(&["--set", "cpu-governor=performance"]), &["factor cpu-governor", "does not have it"]);
    refused(&place, 2, &on(&["--set", "preempt=soft"]), &["preempt", "soft"]);
    refused(
        &place,
        3,
        &["run", "request", "--target", "sim:server-8", "--out", "x.holdup"],
        &["workload request", "lock-contention"],
    );
    let huge = "name = \"x\"\nsummary = \"x\"\nmemory_gib = 1\n[topology]\nsmt = 1\ncores = 1000\nllcs = 1000\nnodes = 1\nsource = \"assumed: x\"\n[kernel]\nversion = \"6.18\"\npreempt = \"lazy\"\nhz = 250\n";
    place.write("huge.toml", huge);
    refused(&place, 2, &with(&locks, &["--target", "sim:./huge.toml"]), &["1000000 CPUs", "4096"]);
    place.write("zero.toml", &huge.replace("cores = 1000", "cores = 0"));
    refused(&place, 2, &with(&locks, &["--target", "sim:./zero.toml"]), &["topology.cores", "between 1 and"]);
    assert!(!place.path("x.holdup").exists());
}

fn each_workload_runs_on_a_machine_that_is_not_there() {
    let place = Sandbox::new();
    let runs: [&[&str]; 5] = [
        &["messenger", "--groups", "2", "--senders", "4", "--receivers", "4"],
        &["wakeup", "--threads", "8"],
        &["stream", "--connections", "4", "--network", "loopback,peer"],
        &["ping", "--mode", "throughput", "--placement", "same-cpu"],
        &["mixed", "--foreground", "wakeup", "--background", "none,messenger"],
    ];
    for run in runs {
        let more = ["--target", "sim:server-8", "--vary", "preempt=full,lazy", "--duration", "20ms", "--warmup", "2ms"];
        let args = with(&with(&["run"], run), &with(&more, &["--blocks", "2", "--out", "r.holdup"]));
        place.expect(0, &args);
        let (report, _) = place.expect(0, &["report", "r.holdup"]);
        assert!(report.contains("simulated on a machine with 8 CPUs"), "{report}");
        std::fs::remove_file(place.path("r.holdup")).expect("it was written");
    }
}

fn a_mechanism_is_a_factor_of_simulated_machines_only() {
    let place = Sandbox::new();
    let vary = ["--vary", "mechanism.fault-under-lock=on,off"];
    place.expect(0, &with(&with(LOCKS, &vary), &["--out", "m.holdup"]));
    let (report, _) = place.expect(0, &["report", "m.holdup"]);
    assert!(report.contains("mechanism.fault-under-lock"), "{report}");
    let local =
        ["run", "lock-contention", "--threads", "2", "--algorithm", "tas", "--target", "local", "--out", "x.holdup"];
    refused(&place, 2, &with(&local, &vary), &["mechanism.fault-under-lock", "only a simulated machine has it"]);
}

holdup_testkit::tests!(
    a_plan_and_a_seed_give_the_same_bundle_to_the_byte,
    every_rendering_says_first_that_it_is_simulated,
    a_prediction_has_intervals_and_the_parameters_behind_them,
    a_published_ratio_is_looked_for_on_other_machines,
    the_ratio_of_the_report_of_2026_lies_within,
    the_ratio_of_the_wait_list_of_2026_lies_within,
    a_prediction_that_does_not_give_the_published_ratio_says_so_first,
    a_timeline_of_cpus_is_drawn_and_exported,
    what_cannot_be_simulated_is_refused_with_what_can,
    each_workload_runs_on_a_machine_that_is_not_there,
    a_mechanism_is_a_factor_of_simulated_machines_only
);
