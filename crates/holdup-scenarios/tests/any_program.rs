//! Any text as a scenario: it is refused with a reason, or it runs for 10 ms of simulated time in order and within bounds.
//!
//! The texts are made of valid lines, since random bytes hardly ever do; `fuzz/fuzz_targets/scenario.rs` does
//! the same to what coverage finds.

use holdup_scenarios::{self as scenario, Scenario};
use holdup_sim::machine::Machine;
use holdup_sim::world::World;
use proptest::prelude::*;
use proptest::sample::select;

/// How long each runs, ns, in steps after which the invariants are checked.
const LENGTH_NS: u64 = 10_000_000;
const STEP_NS: u64 = 50_000;
/// A program that does something each nanosecond is not run to the end.
const MOST_EVENTS: u64 = 100_000;

fn machine(number: usize) -> Machine {
    let models = ["none", "voluntary", "full", "lazy", "rt"];
    let model = models[number % models.len()];
    let text = format!(
        "base = \"server-8\"\n[topology]\nsmt = 1\ncores = 2\n[kernel]\nversion = \"{}\"\npreempt = \"{model}\"\n",
        if number.is_multiple_of(2) { "6.18" } else { "6.13" }
    );
    scenario::machine("machine", &text).expect("it is one")
}

/// True if it ran; otherwise it was refused.
fn runs(text: &str) -> bool {
    let has_reason = |problem: holdup_model::Problem| assert!(!problem.what.is_empty() && !problem.why.is_empty());
    let machine = machine(text.len());
    let scenario = match Scenario::parse("fuzzed", text, 1) {
        Ok(scenario) => scenario,
        Err(problem) => {
            has_reason(problem);
            return false;
        }
    };
    if let Err(problem) = scenario.load.check(&machine, &scenario.names) {
        has_reason(problem);
        return false;
    }
    let mut world = World::new(&machine, &scenario.load, scenario.seed);
    for step in 1..=LENGTH_NS / STEP_NS {
        if let Err(failure) = world.advance(step * STEP_NS) {
            has_reason(world.problem(&failure, &scenario.names));
            break;
        }
        world.check_invariants().unwrap_or_else(|why| panic!("{why}\n{text}"));
        if world.events() > MOST_EVENTS {
            break;
        }
    }
    if let Some(failure) = world.deadlock() {
        has_reason(world.problem(&failure, &scenario.names));
    }
    true
}

fn span() -> impl Strategy<Value = String> {
    let time = || select(vec!["0ns", "1ns", "300ns", "5us", "80us", "1.5ms", "40ms", "3600s"]);
    prop_oneof![
        4 => time().prop_map(str::to_owned),
        1 => time().prop_map(|time| format!("exponential {time}")),
        1 => (time(), time()).prop_map(|(a, b)| format!("{a} to {b}")),
    ]
}

fn operation() -> impl Strategy<Value = String> {
    let fixed = select(vec![
        "lock b shared\nunlock b",
        "data a 3 lines",
        "touch heap 3 pages",
        "touch list 2 pages",
        "touch huge 600 pages",
        "forget heap",
        "yield",
        "send door",
        "send door tag 3",
        "receive door",
        "receive mine",
        "send peer",
        "send sender",
        "append wal",
        "flush wal",
        "extension on",
        "extension off",
        "begin x",
        "done x",
        "begin y for sender",
        "done y for sender",
        "fork p0",
        "fork p1",
        "join",
    ]);
    // Lines that are valid only in some places.
    let risky = select(vec![
        "lock a",
        "unlock a",
        "lock b shared",
        "unlock b",
        "lock c",
        "unlock c",
        "exit",
        "jump l",
        "jump l with chance 30%",
        "jump l if tag 3",
        "jump l if used up list",
        "jump l if found one of 9 in list",
    ]);
    prop_oneof![
        8 => fixed.prop_map(str::to_owned),
        1 => risky.prop_map(str::to_owned),
        1 => span().prop_map(|span| format!("compute {span}")),
        1 => span().prop_map(|span| format!("sleep {span}")),
        1 => span().prop_map(|span| format!("io disk {span}")),
        1 => span().prop_map(|span| format!("system {span}, preemption off")),
        1 => span().prop_map(|span| format!("system {span}, a point every 1us")),
        // What most programs have.
        2 => span().prop_map(|span| format!("lock a\ncompute {span}\nunlock a")),
        1 => span().prop_map(|span| format!("lock b\nlock c\nsystem {span}\nunlock c\nunlock b")),
    ]
}

fn block() -> impl Strategy<Value = String> {
    operation().prop_recursive(3, 12, 4, |inner| {
        (select(vec!["forever", "repeat 3"]), proptest::collection::vec(inner, 1..4))
            .prop_map(|(head, inside)| format!("{head} {{\n{}\n}}", inside.join("\n")))
    })
}

fn task() -> impl Strategy<Value = String> {
    let option = select(vec![
        ", on cpu 0",
        ", on cpu 1",
        ", nice 5",
        ", nice -20",
        ", batch",
        ", idle",
        ", fifo 5",
        ", rr 7",
        ", slice 100us",
        ", in g",
        ", in h",
        ", at 1ms",
        ", own process",
        ", inbox door",
        ", peer post",
        ", inbox post",
    ]);
    (select(vec!["task p0", "3 tasks p0", "task p1", "40 tasks p1"]), proptest::collection::vec(option, 0..3))
        .prop_map(|(task, options)| format!("{task}{}", options.concat()))
}

fn text() -> impl Strategy<Value = String> {
    let algorithms = || select(holdup_sim::locks::ids());
    let program = || proptest::collection::vec(block(), 1..7);
    let parts =
        (algorithms(), algorithms(), algorithms(), program(), program(), proptest::collection::vec(task(), 1..4));
    parts.prop_map(|(a, b, c, one, two, tasks)| {
        format!(
            "lock a: {a}\nlock b: {b}\nlock c: {c}\nregion heap: pages\nregion huge: huge pages\n\
             region list: pages, together, steps 4, ends after 50\nchannel door: 1 messages\nchannel post: 3 messages\n\
             device disk: 1 in parallel\nlog wal: on disk, writes 20us\ngroup g: weight 100, quota 2ms of 10ms\ngroup h: in g\n\
             program p0 {{\nlabel l\n{}\n}}\nprogram p1 {{\nlabel l\n{}\n}}\n{}\nmost 60 tasks\n",
            one.join("\n"),
            two.join("\n"),
            tasks.join("\n")
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_program_that_can_be_read_runs_within_bounds(text in text()) {
        runs(&text);
    }

    #[test]
    fn any_text_is_refused_with_a_reason_or_runs(text in text(), cuts in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6)) {
        let mut bytes = text.into_bytes();
        for (place, byte) in cuts {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        runs(&String::from_utf8_lossy(&bytes));
    }
}

/// Most of what is made here can be read, or the properties would say little.
#[test]
fn many_of_these_texts_run() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let ran = (0..200).filter(|_| runs(&text().new_tree(&mut runner).expect("a text").current())).count();
    assert!(ran > 30, "{ran} of 200");
}

/// Found by the properties: the place of a parent that has ended was taken by another task, which had no children.
#[test]
fn children_outlive_their_parent() {
    let text = "program child {\n  sleep 300us\n}\nprogram parent {\n  fork child\n}\n\
                program p {\n  repeat 50 {\n    fork parent\n    sleep 50us\n  }\n  join\n  sleep 1ms\n}\ntask p\nmost 12 tasks\n";
    assert!(runs(text));
}
