//! Plans that are good and plans that are not, each with what must come of it.
use crate::common::{self, Case};
use holdup_model::plan::StopRule;
use holdup_model::{Plan, Replica, Schedule};
use holdup_plan::{Overhead, Overrides, PlanErrors, estimate_ns, notes, schedule};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A plan with its arms and the order of its trials, as a person would check it.
fn render(plan: &Plan, schedule: &Schedule) -> String {
    let mut out = String::new();
    writeln!(out, "{plan:#?}").unwrap();
    writeln!(out, "\n{} arms, {} trials", schedule.arms.len(), schedule.trials.len()).unwrap();
    for arm in schedule.arms.iter().take(40) {
        let replica = match arm.replica {
            None => "",
            Some(Replica::Same) => "same",
            Some(Replica::Unobserved) => "unobserved",
        };
        let levels = |levels: &BTreeMap<String, holdup_model::Level>| {
            levels.iter().map(|(k, l)| format!("{k}={:?}", l.value)).collect::<Vec<_>>().join(" ")
        };
        writeln!(out, "{:>3} | {} | {} | {} | {replica}", arm.id, arm.label, levels(&arm.axes), levels(&arm.factors))
            .unwrap();
    }
    writeln!(out, "\norder").unwrap();
    let varies = plan.varies_at_boot();
    let runs = schedule.trials.chunk_by(|a, b| (a.boot, a.block) == (b.boot, b.block));
    for run in runs.take(if varies { 16 } else { 4 }) {
        let arms: Vec<String> = run.iter().map(|t| t.arm.to_string()).collect();
        let boot = if varies { format!(" boot {}", run[0].boot) } else { String::new() };
        writeln!(out, "session {}{boot} block {}: {}", run[0].session, run[0].block, arms.join(" ")).unwrap();
    }
    for note in notes(plan) {
        writeln!(out, "\nnote: {note}").unwrap();
    }
    writeln!(out, "\nestimate {} ns", estimate_ns(plan, schedule, &Overhead::default())).unwrap();
    out
}

#[test]
fn valid_plans_come_to_what_they_say() {
    let plans = common::plans("valid");
    assert!(plans.len() >= 10, "the corpus is there");
    for (file, text) in plans {
        let plan = match common::check_with("valid", &file, &text, &Overrides::default()) {
            Ok(plan) => plan,
            Err(errors) => panic!("{errors}"),
        };
        insta::assert_snapshot!(file.trim_end_matches(".toml"), render(&plan, &schedule(&plan).unwrap()));
    }
}

/// The cases of the table, and what is said of each.
fn invalid() -> (Vec<Case>, impl Fn(&Case) -> PlanErrors) {
    let files: BTreeMap<String, String> =
        common::table("invalid.cases").into_iter().map(|case| (case.name, case.text)).collect();
    let errors = move |case: &Case| {
        let read = |path: &str| files.get(path).cloned().ok_or_else(|| "no such file".to_owned());
        match common::check_including(&case.name, &case.text, &Overrides::default(), &read) {
            Err(errors) => errors,
            Ok(_) => panic!("{} was taken for a good plan", case.name),
        }
    };
    (common::table("invalid.cases"), errors)
}

#[test]
fn errors_of_invalid_plans_are_reported() {
    let (cases, errors) = invalid();
    assert!(cases.len() >= 140, "the corpus is there");
    common::compare("invalid.cases", &cases, |case| format!("{}\n", errors(case)));
}

/// A message that says nothing of what to do is half a message.
#[test]
fn messages_keep_the_form_of_messages() {
    let (cases, errors) = invalid();
    for case in cases.iter().filter(|case| case.expected.is_some()) {
        for error in &errors(case).errors {
            let file = &case.name;
            assert!(error.line > 0 && error.column > 0, "{file}: {error}");
            for part in [Some(&error.what), Some(&error.why), error.hint.as_ref()].into_iter().flatten() {
                assert!(!part.ends_with('.') && !part.contains('\n') && !part.is_empty(), "{file}: {error}");
            }
        }
    }
}

/// The examples of docs/plans.md are plans.
#[test]
fn the_examples_of_the_docs_are_good() {
    let text = std::fs::read_to_string(common::corpus("../../../docs/plans.md")).unwrap();
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect();
    assert!(examples.len() >= 3, "the examples are there");
    let vocabulary = common::vocabulary();
    let inputs = holdup_plan::Inputs {
        machine: common::MACHINE,
        vocabulary: &vocabulary,
        environment: &common::environment,
        read_include: &|_| Ok(String::new()),
        machine_of: &|_| Ok(None),
        overrides: &Overrides::default(),
    };
    for example in &examples {
        if let Err(errors) = holdup_plan::check("docs.toml", example, &inputs) {
            panic!("{errors}\n{example}");
        }
    }
    // What it gives for defaults are the defaults: the shortest plan has the same design as the one with every
    // key, where that says so.
    let short = holdup_plan::check("docs.toml", examples[0], &inputs).unwrap().design;
    let long = holdup_plan::check("docs.toml", examples[1], &inputs).unwrap().design;
    // The short one compares nothing, so it has a fixed number of blocks and nothing to decide.
    let (blocks, stop) = (short.blocks, short.stop);
    assert_eq!((blocks, stop, long.blocks), (5, StopRule::Blocks, 20));
    assert_eq!(long.stop, StopRule::Decided);
    let expected = holdup_model::Design { layout: short.layout, seed: 1, budget_ns: None, blocks, stop, ..long };
    assert_eq!(short, expected);
}
