//! What squeue, sacct, scontrol and sinfo print.

use std::collections::{BTreeMap, BTreeSet};

/// The format of squeue that [`tasks`] reads: job, index of the task, state, reason, nodes. `|` is in none of them.
pub(crate) const SQUEUE_FORMAT: &str = "%F|%K|%T|%r|%N";
/// The fields of sacct that [`accounted`] reads.
pub(crate) const SACCT_FIELDS: &str = "JobID,State,NodeList";
/// The format of sinfo that [`partitions`] reads: partition, CPUs by state, CPUs and memory of a node, time limit.
pub(crate) const SINFO_FORMAT: &str = "%P|%C|%c|%m|%l";

/// What a task is at (squeue(1), JOB STATE CODES).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It waits for its node, or is put back into the queue.
    Pending,
    /// It has a node.
    Running,
    /// It exited with 0.
    Completed,
    /// It exited with something else.
    Failed,
    /// A user or an administrator ended it.
    Cancelled,
    /// It took longer than its limit.
    Timeout,
    /// It took more memory than its limit.
    OutOfMemory,
    /// Its node failed, or another job took its place.
    Lost(String),
}

impl State {
    fn of(word: &str) -> State {
        // sacct adds who cancelled: `CANCELLED by 0`; a `+` stands for letters that had no room.
        let word = word.split([' ', '+']).next().unwrap_or_default();
        match word {
            "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" => State::Pending,
            "COMPLETED" => State::Completed,
            "FAILED" => State::Failed,
            "CANCELLED" | "REVOKED" => State::Cancelled,
            "TIMEOUT" | "DEADLINE" => State::Timeout,
            "OUT_OF_MEMORY" => State::OutOfMemory,
            "NODE_FAIL" | "PREEMPTED" | "BOOT_FAIL" => State::Lost(word.to_owned()),
            // RUNNING, COMPLETING, CONFIGURING, SUSPENDED, STOPPED, SIGNALING, …
            _ => State::Running,
        }
    }

    /// Whether more is to come of it.
    pub fn is_live(&self) -> bool {
        matches!(self, State::Pending | State::Running)
    }
}

/// A task of an array job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The array job.
    pub job: u32,
    /// What it is at.
    pub state: State,
    /// Why it waits, or why it ended; empty for no reason.
    pub reason: String,
    /// Its node; empty before it has one.
    pub node: String,
}

/// The tasks by their index, of the last job that has each. A line that is no task is left out.
pub fn tasks(squeue: &str) -> BTreeMap<u32, Task> {
    let mut all = BTreeMap::new();
    for line in squeue.lines() {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [job, index, state, reason, node] = fields.as_slice() else { continue };
        let (Ok(job), Ok(index)) = (job.parse(), index.parse()) else { continue };
        let reason = if *reason == "None" { String::new() } else { (*reason).to_owned() };
        keep(&mut all, index, Task { job, state: State::of(state), reason, node: (*node).to_owned() });
    }
    all
}

/// The jobs whose tasks were cancelled before they began: squeue has one line for all of them then, without their indices.
pub(crate) fn cancelled_waiting(squeue: &str) -> BTreeSet<u32> {
    let job = |line: &str| {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [job, "N/A", state, ..] = fields.as_slice() else { return None };
        job.parse().ok().filter(|_| State::of(state) == State::Cancelled)
    };
    squeue.lines().filter_map(job).collect()
}

/// The same of `sacct --allocations --parsable2 --noheader`.
pub(crate) fn accounted(sacct: &str) -> BTreeMap<u32, Task> {
    let mut all = BTreeMap::new();
    for line in sacct.lines() {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [id, state, node] = fields.as_slice() else { continue };
        let Some((job, index)) = id.split_once('_') else { continue };
        let (Ok(job), Ok(index)) = (job.parse(), index.parse()) else { continue };
        keep(&mut all, index, Task { job, state: State::of(state), reason: String::new(), node: (*node).to_owned() });
    }
    all
}

fn keep(all: &mut BTreeMap<u32, Task>, index: u32, task: Task) {
    if all.get(&index).is_none_or(|known| known.job <= task.job) {
        all.insert(index, task);
    }
}

/// The exit code in `scontrol show job --oneliner`: `ExitCode=66:0`, where the second number is a signal.
pub(crate) fn exit_code(scontrol: &str) -> Option<u32> {
    let found = scontrol.split_whitespace().find_map(|word| word.strip_prefix("ExitCode="))?;
    found.split_once(':')?.0.parse().ok()
}

/// What sinfo says of a partition and one kind of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nodes {
    pub(crate) partition: String,
    pub(crate) is_default: bool,
    /// CPUs that jobs can have: idle, and allocated.
    pub(crate) usable_cpus: u32,
    pub(crate) node_cpus: u32,
    pub(crate) node_memory_mb: u64,
    /// The longest time of a job, minutes; `None` for no limit.
    pub(crate) limit_minutes: Option<u64>,
}

/// The lines of `sinfo --exact`.
pub(crate) fn partitions(sinfo: &str) -> Vec<Nodes> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [partition, cpus, node_cpus, memory, limit] = fields.as_slice() else { return None };
        let states: Vec<u32> = cpus.split('/').map_while(|count| count.parse().ok()).collect();
        let [allocated, idle, _other, _total] = states.as_slice() else { return None };
        Some(Nodes {
            partition: partition.trim_end_matches('*').to_owned(),
            is_default: partition.ends_with('*'),
            usable_cpus: allocated.saturating_add(*idle),
            node_cpus: node_cpus.trim_end_matches('+').parse().ok()?,
            node_memory_mb: memory.trim_end_matches('+').parse().ok()?,
            limit_minutes: minutes_of(limit),
        })
    };
    sinfo.lines().filter_map(line).collect()
}

/// A time as Slurm prints it, `[days-]hours:minutes:seconds` or `minutes:seconds`, in minutes; `None` for `infinite`.
fn minutes_of(text: &str) -> Option<u64> {
    let (days, clock) = text.split_once('-').map_or((0, text), |(days, clock)| (days.parse().unwrap_or(0), clock));
    let numbers: Option<Vec<u64>> = clock.split(':').map(|number| number.parse().ok()).collect();
    let minutes = match numbers?.as_slice() {
        [hours, minutes, _seconds] => hours.saturating_mul(60).saturating_add(*minutes),
        [minutes, _seconds] => *minutes,
        [minutes] => *minutes,
        _ => return None,
    };
    Some(u64::saturating_mul(days, 24 * 60).saturating_add(minutes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tasks_of_several_submissions_are_those_of_the_last() {
        let seen = tasks(
            "2|0|COMPLETED|None|n1\n2|1|FAILED|NonZeroExitCode|n2\n7|1|PENDING|Resources|\n1|N/A|RUNNING|None|n1\n",
        );
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[&0].state, State::Completed);
        let again = Task { job: 7, state: State::Pending, reason: "Resources".to_owned(), node: String::new() };
        assert_eq!(seen[&1], again);
    }

    #[test]
    fn a_line_without_an_index_is_of_all_tasks_that_were_cancelled_before_they_began() {
        let squeue =
            "1|N/A|CANCELLED|Resources|\n1|0|CANCELLED|None|n1\n2|1|CANCELLED|None|n1\n3|N/A|PENDING|Priority|\n";
        assert_eq!(cancelled_waiting(squeue), BTreeSet::from([1]));
    }

    #[test]
    fn what_was_accounted_is_read_with_who_cancelled() {
        let seen =
            accounted("12_3|CANCELLED by 0|n1\n12_4|NODE_FAIL|n2\n12_[5-7]|PENDING|None assigned\n12|RUNNING|n1\n");
        assert_eq!(seen[&3].state, State::Cancelled);
        assert_eq!(seen[&4].state, State::Lost("NODE_FAIL".to_owned()));
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn exit_codes_and_times_are_read() {
        assert_eq!(exit_code("JobId=5 ArrayJobId=2 ExitCode=66:0 RunTime=00:00:01"), Some(66));
        assert_eq!(exit_code("JobId=5"), None);
        for (text, minutes) in
            [("1:00", Some(1)), ("infinite", None), ("2-01:30:00", Some(2 * 1440 + 90)), ("12:00:00", Some(720))]
        {
            assert_eq!(minutes_of(text), minutes, "{text}");
        }
    }

    #[test]
    fn partitions_have_their_default_and_what_jobs_can_have() {
        let seen = partitions("main*|1/3/0/4|1|2000|infinite\nshort|0/2/2/4|2+|2000+|1:00\n");
        assert!(seen[0].is_default && seen[0].partition == "main" && seen[0].usable_cpus == 4);
        assert_eq!((seen[1].usable_cpus, seen[1].node_cpus, seen[1].limit_minutes), (2, 2, Some(1)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[0-9A-Z_|:/+*=%\\[\\] \\n-]{0,200}", any in ".{0,80}") {
            for text in [&text, &any] {
                let (_, _, _, _) = (tasks(text), accounted(text), partitions(text), cancelled_waiting(text));
                let (_, _) = (exit_code(text), minutes_of(text));
            }
        }

        #[test]
        fn a_task_that_squeue_prints_is_found(job in 1_u32.., index in 0_u32..1000, node in "[a-z0-9-]{0,12}") {
            let seen = tasks(&format!("{job}|{index}|NODE_FAIL|NodeDown|{node}\n"));
            prop_assert_eq!(&seen[&index].state, &State::Lost("NODE_FAIL".to_owned()));
            prop_assert_eq!(&seen[&index].node, &node);
        }
    }
}
