//! What Slurm's programs print: any text is read without a panic, what is read stands in it, and a line that is no task changes no
//! other.
#![no_main]

use holdup_slurm::{Mark, accounted, cancelled_waiting, exit_code, nodes, partitions, tasks};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let seen = tasks(text);
    for task in seen.values() {
        assert!(text.contains(&task.reason) && text.contains(&task.node));
        if let Some(Mark::Waits(folder) | Mark::Ended(_, folder)) = &task.mark {
            assert!(folder.starts_with('/') && text.contains(folder));
        }
    }
    // A line is read by itself, and the last job counts, so lines that are no tasks change nothing.
    let with_others = text.lines().flat_map(|line| ["slurm_load_jobs error", line]).collect::<Vec<_>>().join("\n");
    assert_eq!(tasks(&with_others), seen);
    for task in accounted(text).values() {
        assert!(task.mark.is_none() && text.contains(&task.node));
    }
    for job in cancelled_waiting(text) {
        assert!(text.contains("N/A"), "{job}");
    }
    for node in nodes(text) {
        assert!(text.contains(&node.name));
        assert!(node.features.iter().chain(&node.partitions).all(|word| !word.is_empty() && text.contains(word)));
    }
    for usable in partitions(text) {
        assert!(!usable.partition.ends_with('*') && text.contains(&usable.partition));
    }
    if let Some(code) = exit_code(text) {
        assert!(text.contains("ExitCode="), "{code}");
    }
});
