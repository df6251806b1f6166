//! Traces with more tasks than a machine has.

use crate::common;
use common::within;
use holdup_model::MemoryBudget;
use holdup_traces::account::Selection;

/// Each task runs for 10 us and sleeps for the rest of the trace.
fn tasks(count: usize) -> Vec<u8> {
    let line = |n: usize| {
        let (tid, next, us) = (n + 10, n + 11, 10 * n);
        let at = format!("{}.{:06}", 100 + us / 1_000_000, us % 1_000_000);
        format!("   t{n} {tid} [000] {at}: sched:sched_switch: t{n}:{tid} [120] S ==> t:{next} [120]\n")
    };
    (0..count).map(line).collect::<String>().into_bytes()
}

fn more_tasks_than_there_is_memory_for_are_refused() {
    let bytes = tasks(20_000);
    // Of tasks that are not under test a window keeps no numbers.
    let none = || Selection::new(&["none".to_owned()], &[]);
    let refused = within(&bytes, none(), &MemoryBudget::new(6 << 20)).err().expect("is refused");
    assert!(refused.why.contains("more than 6MB of memory"), "{refused}");
    assert!(refused.hint.is_some_and(|hint| hint.contains("--max-memory 12MB")));
    // Tasks that end give back what they took.
    let ended = String::from_utf8(bytes).expect("is text").replace("] S ==>", "] X ==>");
    let budget = MemoryBudget::new(6 << 20);
    let (_, finished) = within(&ended.into_bytes(), none(), &budget).expect("is read");
    assert_eq!(finished.seen.switches, 20_000);
}

fn tasks_without_numbers_of_their_own_are_in_the_sums() {
    let budget = MemoryBudget::default();
    let (_, finished) = within(&tasks(20_000), Selection::default(), &budget).expect("is read");
    let left: u64 = finished.windows.iter().flat_map(|totals| totals.tasks.values()).map(|task| task.left).sum();
    assert_eq!(left, finished.seen.switches);
    let most = finished.windows.iter().map(|totals| totals.tasks.len()).max().expect("there are windows");
    assert_eq!(most, 16_385, "as many as have numbers, and the others");
    let last = finished.evidence.last().expect("there are windows");
    let tasks = last.iter().find(|collected| collected.collector == "tasks").expect("it is there");
    let named =
        tasks.items.iter().filter(|item| item.name == "task_asleep_s" && item.label.as_deref() != Some("other"));
    let others = tasks.items.iter().find(|item| item.name == "other_tasks").and_then(|item| item.value.value());
    assert_eq!(named.count() as f64 + others.expect("there are others"), 20_000.0);
    assert!(tasks.items.iter().all(|item| !item.label.as_deref().is_some_and(|label| label.starts_with("4294967295"))));
}

/// A sample of each task, whose stack has these frames.
fn samples(frames: impl Fn(usize) -> String) -> Vec<u8> {
    let sample = |n: usize| format!("t {} [000] 1.{n:06}: cpu-clock:\n{}\n", n + 1, frames(n));
    (0..100).map(sample).collect::<String>().into_bytes()
}

fn samples_of_long_or_deep_stacks_are_refused() {
    let within = |bytes: &[u8], budget: &MemoryBudget| within(&bytes, Selection::default(), budget);
    let frame = |name: &str| format!("\tffff {name}+0x1 (/bin/a)\n");
    let names = samples(|n| frame(&format!("f{n}{}", "x".repeat(10_000))));
    let stacks = samples(|n| (0..1_000).map(|at| frame(if at == n { "f" } else { "g" })).collect());
    for (bytes, least, most) in [(names, 1 << 20, 8 << 20), (stacks, 512 << 10, 4 << 20)] {
        let refused = within(&bytes, &MemoryBudget::new(least)).err().expect("is refused");
        assert!(refused.why.contains("of memory"), "{refused}");
        within(&bytes, &MemoryBudget::new(most)).expect("is read");
    }
}

fn the_next_trace_has_the_memory_of_the_tasks_of_the_one_before() {
    let budget = MemoryBudget::new(24 << 20);
    let finished = within(&tasks(20_000), Selection::new(&["none".to_owned()], &[]), &budget).expect("is read").1;
    assert_eq!(finished.seen.switches, 20_000);
    assert!(budget.left() > 23 << 20, "{} are left", budget.left());
}

/// The place of the others is no task's.
fn a_task_with_a_number_that_no_task_can_have_is_refused() {
    let bytes = [tasks(10), String::from_utf8(tasks(1)).expect("is text").replace(":10 ", ":4294967295 ").into_bytes()]
        .concat();
    let (_, finished) = within(&bytes, Selection::default(), &MemoryBudget::default()).expect("is read");
    assert_eq!((finished.seen.refused, finished.seen.switches), (1, 10));
}

holdup_testkit::tests!(
    more_tasks_than_there_is_memory_for_are_refused,
    tasks_without_numbers_of_their_own_are_in_the_sums,
    samples_of_long_or_deep_stacks_are_refused,
    the_next_trace_has_the_memory_of_the_tasks_of_the_one_before,
    a_task_with_a_number_that_no_task_can_have_is_refused
);
