//! What squeue, sacct, scontrol and sinfo print.

use std::collections::{BTreeMap, BTreeSet};

/// The format of squeue that [`tasks`] reads: array job, index of the task, state, reason, nodes, the task's number as a job,
/// comment. `|` may be in the last alone.
pub(crate) const SQUEUE_FORMAT: &str = "%F|%K|%T|%r|%N|%A|%k";
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

    /// True if more is to come of it.
    pub fn is_live(&self) -> bool {
        matches!(self, State::Pending | State::Running)
    }
}

/// A task of an array job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The array job.
    pub job: u32,
    pub state: State,
    /// Why it waits, or why it ended; empty for no reason.
    pub reason: String,
    /// Its node; empty before it has one.
    pub node: String,
    /// Its number as a job, by which steps are added to it; 0 where that is not known.
    pub id: u32,
    /// Where it is with what is brought to it, if anything is.
    pub mark: Option<Mark>,
}

/// What a task that shares no storage with this host says in the comment of its job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// It waits for what it needs, in this folder of its node.
    Waits(String),
    /// Its part has ended with this exit code, and waits in this folder to be fetched.
    Ended(u32, String),
}

/// What the comment of such a task begins with.
pub(crate) const MARK: &str = "holdup";

impl Mark {
    fn of(comment: &str) -> Option<Mark> {
        let said = comment.strip_prefix(MARK)?.strip_prefix(':')?;
        let mark = match said.split_once(':')? {
            ("waits", folder) => Mark::Waits(folder.to_owned()),
            ("ended", rest) => {
                let (code, folder) = rest.split_once(':')?;
                Mark::Ended(code.parse().ok()?, folder.to_owned())
            }
            _ => return None,
        };
        // Anybody who may change the job may change its comment.
        mark.folder().starts_with('/').then_some(mark)
    }

    /// The folder on the node.
    pub(crate) fn folder(&self) -> &str {
        match self {
            Mark::Waits(folder) | Mark::Ended(_, folder) => folder,
        }
    }
}

impl Task {
    /// A task of which nothing is known but its state.
    pub(crate) fn new(state: State) -> Task {
        Task { job: 0, state, reason: String::new(), node: String::new(), id: 0, mark: None }
    }
}

/// The tasks by their index, of the last job that has each. A line that is no task is left out.
pub fn tasks(squeue: &str) -> BTreeMap<u32, Task> {
    let mut all = BTreeMap::new();
    for line in squeue.lines() {
        let fields: Vec<&str> = line.trim().splitn(7, '|').collect();
        let [job, index, state, reason, node, id, comment] = fields.as_slice() else { continue };
        let (Ok(job), Ok(index)) = (job.parse(), index.parse()) else { continue };
        let reason = if *reason == "None" { String::new() } else { (*reason).to_owned() };
        let (state, mark) = (State::of(state), Mark::of(comment));
        keep(&mut all, index, Task { job, state, reason, node: (*node).to_owned(), id: id.parse().unwrap_or(0), mark });
    }
    all
}

/// The jobs whose tasks were cancelled before they began: squeue has one line for all of them then, without their indices.
pub fn cancelled_waiting(squeue: &str) -> BTreeSet<u32> {
    let job = |line: &str| {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [job, "N/A", state, ..] = fields.as_slice() else { return None };
        job.parse().ok().filter(|_| State::of(state) == State::Cancelled)
    };
    squeue.lines().filter_map(job).collect()
}

/// The same of `sacct --allocations --parsable2 --noheader`.
pub fn accounted(sacct: &str) -> BTreeMap<u32, Task> {
    let mut all = BTreeMap::new();
    for line in sacct.lines() {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [id, state, node] = fields.as_slice() else { continue };
        let Some((job, index)) = id.split_once('_') else { continue };
        let (Ok(job), Ok(index)) = (job.parse(), index.parse()) else { continue };
        keep(&mut all, index, Task { job, node: (*node).to_owned(), ..Task::new(State::of(state)) });
    }
    all
}

fn keep(all: &mut BTreeMap<u32, Task>, index: u32, task: Task) {
    if all.get(&index).is_none_or(|known| known.job <= task.job) {
        all.insert(index, task);
    }
}

/// The exit code in `scontrol show job --oneliner`: `ExitCode=66:0`, where the second number is a signal.
pub fn exit_code(scontrol: &str) -> Option<u32> {
    let found = scontrol.split_whitespace().find_map(|word| word.strip_prefix("ExitCode="))?;
    found.split_once(':')?.0.parse().ok()
}

/// What sinfo says of a partition and one kind of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usable {
    /// The name of the partition.
    pub partition: String,
    /// True if it is the one of jobs that name none.
    pub is_default: bool,
    /// CPUs that jobs can have: idle, and allocated.
    pub usable_cpus: u32,
    pub node_cpus: u32,
    pub node_memory_mb: u64,
    /// The longest time of a job, minutes; `None` for no limit.
    pub limit_minutes: Option<u64>,
}

/// The lines of `sinfo --exact`.
pub fn partitions(sinfo: &str) -> Vec<Usable> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [partition, cpus, node_cpus, memory, limit] = fields.as_slice() else { return None };
        let states: Vec<u32> = cpus.split('/').map_while(|count| count.parse().ok()).collect();
        let [allocated, idle, _other, _total] = states.as_slice() else { return None };
        Some(Usable {
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

/// What scontrol says of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Its architecture; `None` for one that never was up.
    pub arch: Option<String>,
    pub cpus: u32,
    /// Its memory for jobs, MB.
    pub memory_mb: u64,
    /// The features that it has now.
    pub features: Vec<String>,
    pub partitions: Vec<String>,
}

/// The lines of `scontrol show node --oneliner`. What follows `OS=` has spaces, and none of the words that are looked for.
pub fn nodes(scontrol: &str) -> Vec<Node> {
    let line = |line: &str| {
        let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let list = |name: &str| {
            let words = field(name).filter(|text| *text != "(null)").unwrap_or_default().split(',');
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        Some(Node {
            name: field("NodeName")?.to_owned(),
            arch: field("Arch").map(str::to_owned),
            cpus: field("CPUTot")?.parse().ok()?,
            memory_mb: field("RealMemory")?.parse().ok()?,
            features: list("ActiveFeatures"),
            partitions: list("Partitions"),
        })
    };
    scontrol.lines().filter_map(line).collect()
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
            "2|0|COMPLETED|None|n1|2|(null)\n2|1|FAILED|NonZeroExitCode|n2|3|\n7|1|PENDING|Resources||7|(null)\n1|N/A|RUNNING|None|n1|1|(null)\n",
        );
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[&0].state, State::Completed);
        let again = Task { job: 7, reason: "Resources".to_owned(), id: 7, ..Task::new(State::Pending) };
        assert_eq!(seen[&1], again);
    }

    #[test]
    fn a_line_without_an_index_is_of_all_tasks_that_were_cancelled_before_they_began() {
        let squeue = "1|N/A|CANCELLED|Resources||1|\n1|0|CANCELLED|None|n1|2|\n2|1|CANCELLED|None|n1|3|\n3|N/A|PENDING|Priority||4|\n";
        assert_eq!(cancelled_waiting(squeue), BTreeSet::from([1]));
    }

    #[test]
    fn what_a_task_says_of_itself_stands_in_its_comment() {
        let mark = |comment: &str| tasks(&format!("2|0|RUNNING|None|n1|5|{comment}\n"))[&0].mark.clone();
        assert_eq!(mark("holdup:waits:/tmp/a:b|c"), Some(Mark::Waits("/tmp/a:b|c".to_owned())));
        assert_eq!(mark("holdup:ended:3:/tmp/x"), Some(Mark::Ended(3, "/tmp/x".to_owned())));
        for other in ["(null)", "", "holdup:ended:x:/tmp", "holdup:waits:etc", "for holdup:waits:/tmp"] {
            assert_eq!(mark(other), None, "{other}");
        }
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
    fn nodes_have_what_a_plan_asks_for() {
        let seen = nodes(
            "NodeName=n1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 CPUTot=16 AvailableFeatures=milan,nvme ActiveFeatures=milan \
             OS=Linux 6.1.0 #1 SMP RealMemory=2000 State=IDLE Partitions=main,short \n\
             NodeName=n2 CPUTot=2 ActiveFeatures=(null) RealMemory=1 State=DOWN Partitions=main \nNodeName=n3 CPUTot=x\n",
        );
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[0].arch.as_deref(), seen[0].cpus, seen[0].memory_mb), (Some("x86_64"), 16, 2000));
        assert_eq!((seen[0].features.as_slice(), seen[0].partitions.len()), (&["milan".to_owned()][..], 2));
        assert_eq!((&seen[1].arch, seen[1].features.len()), (&None, 0));
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
                let (_, _, _) = (exit_code(text), minutes_of(text), nodes(text));
            }
        }

        #[test]
        fn a_task_that_squeue_prints_is_found(job in 1_u32.., index in 0_u32..1000, node in "[a-z0-9-]{0,12}") {
            let seen = tasks(&format!("{job}|{index}|NODE_FAIL|NodeDown|{node}|7|\n"));
            prop_assert_eq!(&seen[&index].state, &State::Lost("NODE_FAIL".to_owned()));
            prop_assert_eq!(&seen[&index].node, &node);
        }
    }
}
