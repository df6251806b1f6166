//! What is printed as JSON holds to the schemas that are printed for it.

use crate::common;
use crate::made::story;
use crate::world;
use holdup_analysis::{analyse, explain};
use holdup_model::outcome::History;
use holdup_model::profile::{ProfileLine, ProfileState};
use holdup_model::{BundleData, Measured, Profile};
use holdup_report::{TerminalOptions, compare_json, explain_json, history_json, history_terminal, json, schemas};
use serde_json::Value;

/// Twelve runs, the last five of which are slower.
fn past() -> History {
    let runs: Vec<(String, BundleData)> = (0..12)
        .map(|i| {
            let mut bundle = common::demo();
            bundle.head.run_id = format!("{i:024x}");
            bundle.head.created_unix_ns += i64::from(i) * 86_400_000_000_000;
            let factor = if i >= 7 { 0.8 } else { 1.0 } * (1.0 + f64::from(i * 7 % 5) / 1_000.0);
            for m in bundle.trials.iter_mut().flat_map(|t| &mut t.measurements) {
                if let Measured::Value(v) = &mut m.value {
                    *v *= factor;
                }
            }
            (format!("night-{i}.holdup"), bundle)
        })
        .collect();
    holdup_analysis::history(&runs).expect("a history")
}

#[test]
fn a_history_reads_well() {
    let history = past();
    assert!(history.series[0].changes.iter().any(|c| c.run == 7), "{:#?}", history.series[0]);
    insta::assert_snapshot!(history_terminal(&history, &TerminalOptions { width: 100, color: false, details: true }));
    let screen = TerminalOptions { width: 80, color: false, details: false };
    common::is_one_screen("a history", &history_terminal(&history, &screen));
}

/// True if a value is of a type, as JSON Schema calls it.
fn is(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => panic!("unknown type {name}"),
    }
}

/// What is wrong with a document, as far as our schemas go: `type`, `const`, `enum`, `required`, `properties`,
/// `additionalProperties`, `items`, `minimum` and `$ref` into `$defs`. Any other word is an error, so that no rule
/// can stand in a schema unchecked.
fn check(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Value::Bool(all) = schema {
        if !all {
            wrong.push(format!("{at}: must not be there"));
        }
        return;
    }
    for (word, rule) in schema.as_object().expect("a schema is an object") {
        match word.as_str() {
            "$schema" | "$id" | "title" | "description" | "$defs" => {}
            "$ref" => {
                let name = rule.as_str().and_then(|r| r.strip_prefix("#/$defs/")).expect("a reference into $defs");
                check(root, &root["$defs"][name], value, at, wrong);
            }
            "const" => {
                if value != rule {
                    wrong.push(format!("{at}: {value} is not {rule}"));
                }
            }
            "enum" => {
                if !rule.as_array().expect("a list").contains(value) {
                    wrong.push(format!("{at}: {value} is none of {rule}"));
                }
            }
            "type" => {
                let types: Vec<&str> = match rule {
                    Value::String(one) => vec![one],
                    many => many.as_array().expect("a list").iter().map(|t| t.as_str().expect("a word")).collect(),
                };
                if !types.into_iter().any(|t| is(value, t)) {
                    wrong.push(format!("{at}: {value} is no {rule}"));
                }
            }
            "required" => {
                for key in rule.as_array().expect("a list").iter().filter_map(Value::as_str) {
                    if value.get(key).is_none() && value.is_object() {
                        wrong.push(format!("{at}: has no {key}"));
                    }
                }
            }
            "properties" => {
                for (key, schema) in rule.as_object().expect("an object") {
                    if let Some(value) = value.get(key) {
                        check(root, schema, value, &format!("{at}.{key}"), wrong);
                    }
                }
            }
            "additionalProperties" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    if schema["properties"].get(key).is_none() {
                        check(root, rule, value, &format!("{at}.{key}"), wrong);
                    }
                }
            }
            "items" => {
                for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, value, &format!("{at}[{i}]"), wrong);
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|v| Some(v) < rule.as_f64()) {
                    wrong.push(format!("{at}: {value} is less than {rule}"));
                }
            }
            other => panic!("{at}: the check does not know `{other}`"),
        }
    }
}

fn wrong(id: &str, document: &Value) -> Vec<String> {
    let (_, text) = schemas().iter().find(|(name, _)| *name == id).expect("there is such a schema");
    let schema: Value = serde_json::from_str(text).expect("a schema is JSON");
    let mut wrong = Vec::new();
    check(&schema, &schema, document, "$", &mut wrong);
    wrong
}

/// A value that is in force, and one that is not to be had.
fn profile() -> String {
    let line = |state, found: Option<&str>| ProfileLine {
        knob: "autogroup".to_owned(),
        wanted: "off".to_owned(),
        found: found.map(str::to_owned),
        state,
        reason: found.is_none().then(|| "it is not there".to_owned()),
        remedy: None,
        touches: "the sysctl".to_owned(),
    };
    let profile = Profile { name: "p".to_owned(), summary: String::new(), settings: Vec::new() };
    holdup_report::profile::json(
        &profile,
        &[line(ProfileState::Applied, Some("on")), line(ProfileState::LeftOut, None)],
    )
}

/// Two captures with rows of every sort, a capture alone, counts, a connection.
fn packets() -> [String; 4] {
    use holdup_model::captures::Parts;
    use holdup_packets::compare::{Options, compare, compare_counts};
    use holdup_packets::kinds::Kind;
    use holdup_packets::summary::{all_flows, summarise};
    let small = |seed| world::World { flows: 12, segments: 300, ..world::World::new(seed) };
    let a = world::make(&small(1).with(Kind::DuplicateAck, 0.01).with(Kind::ZeroWindow, 0.005));
    let b = world::make(&small(2).with(Kind::DuplicateAck, 0.03).with(Kind::LostSegment, 0.001));
    let summaries = [summarise("a", &a, Parts::Flow, 3), summarise("b", &b, Parts::Time, 3)];
    let compared = compare(("a", &a), &[("b", &b)], &Options::default());
    let text = "   Frequency      Group           Protocol  Summary\n  7   Sequence  TCP  Duplicate ACK (#1)\n";
    let some = holdup_packets::expert::read(text).expect("counts");
    let none = holdup_packets::expert::Expert::default();
    let counts = compare_counts(("a", &none), ("b", &some), Some((0.5, 1.0)));
    let flow = all_flows(&a).next().expect("a connection");
    [
        holdup_report::packets_json(&summaries, &compared, None),
        holdup_report::packets_json(&summaries[..1], &[], None),
        holdup_report::packets_json(&[], &[], Some(&counts)),
        serde_json::json!({"schema": "holdup.flow/1", "capture": "a", "flow": flow}).to_string(),
    ]
}

fn documents() -> [(&'static str, Value); 12] {
    let full = common::rich();
    let mut empty = common::demo();
    empty.trials.clear();
    empty.ending = None;
    let parse = |text: String| serde_json::from_str(&text).expect("a report is JSON");
    let [two, one, counts, flow] = packets();
    [
        ("holdup.report/1", parse(json(&full, &analyse(&full)))),
        ("holdup.report/1", parse(json(&empty, &analyse(&empty)))),
        ("holdup.compare/1", parse(compare_json(&analyse(&full), ("a", "b")))),
        ("holdup.compare/1", parse(compare_json(&analyse(&empty), ("a", "")))),
        ("holdup.history/1", parse(history_json(&past()))),
        ("holdup.profile/1", parse(profile())),
        (
            "holdup.explain/1",
            parse(explain_json(&explain(&story::Story::quiet().with_account().preempted_holder().bundle()), "a")),
        ),
        ("holdup.explain/1", parse(explain_json(&explain(&empty), "a"))),
        ("holdup.packets/1", parse(two)),
        ("holdup.packets/1", parse(one)),
        ("holdup.packets/1", parse(counts)),
        ("holdup.flow/1", parse(flow)),
    ]
}

#[test]
fn documents_hold_to_their_schemas() {
    for (id, document) in documents() {
        assert_eq!(wrong(id, &document), Vec::<String>::new(), "{id}");
    }
}

#[test]
fn a_document_that_does_not_hold_is_found() {
    let [(id, report), _, (compare_id, compare), ..] = documents();
    let check = |id: &str, document: &Value, change: fn(&mut Value)| {
        let mut broken = document.clone();
        change(&mut broken);
        assert!(!wrong(id, &broken).is_empty(), "{id}: a broken document passes");
    };
    check(id, &report, |d| d["schema"] = "holdup.report/2".into());
    check(id, &report, |d| {
        d.as_object_mut().expect("an object").remove("findings");
    });
    check(id, &report, |d| d["trials"][0]["measurements"][0]["value"] = "fast".into());
    check(id, &report, |d| d["findings"][0]["verdict"] = "maybe".into());
    check(id, &report, |d| d["comparisons"][0]["ratio"]["low"] = Value::Null);
    check(id, &report, |d| d["trials"][0]["evidence"][0]["cost"]["cpu_ns"] = (-1).into());
    check(compare_id, &compare, |d| d["comparisons"][0]["margin"] = "5 %".into());
    check(compare_id, &compare, |d| d["comparisons"][0]["verdict"]["answer"] = "faster".into());
}
