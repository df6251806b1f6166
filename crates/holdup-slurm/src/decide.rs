//! What is to be done about a part, by what is known of it.

use crate::folder::LOGS;
use crate::queue::{State, Task};
use crate::script::{NO_COMMENT, NO_FOLDER, NO_SCRATCH, NO_WORKING_FOLDER, NOT_STAGED, STAGE_WAIT_S};
use holdup_model::Problem;
use std::time::Duration;

/// What is known of a part that is not whole.
pub(crate) struct View<'a> {
    pub(crate) number: u32,
    /// Its task; `None` for none that the queue or the accounting knows.
    pub(crate) task: Option<&'a Task>,
    /// Why it could not be run, as it said itself.
    pub(crate) problem: Option<Problem>,
    /// Why what it needs could not be brought to its node, or the part be fetched from there.
    pub(crate) trouble: Option<&'a Problem>,
    /// The exit code of its task, if it failed.
    pub(crate) exit_code: Option<u32>,
    /// How often it was submitted since holdup follows.
    pub(crate) submitted: u32,
    /// How long its task has ended, or is not known.
    pub(crate) ended: Duration,
    pub(crate) is_simulated: bool,
    pub(crate) folder: &'a str,
}

/// What is to be done about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Nothing yet.
    Wait,
    /// Submit it; the reason is for the user, and empty for the first time.
    Submit(String),
    /// Give it up.
    Fail(Problem),
    /// Give up all, as no part can ever run.
    FailAll(Problem),
}

/// How often a part is submitted.
const MOST_SUBMISSIONS: u32 = 4;
/// How long a file may need until it is seen here after its task ended: clients of NFS remember for up to a minute what a
/// folder holds, less where it changes.
const GRACE: Duration = Duration::from_secs(10);

/// Reasons of squeue for which a task waits until somebody changes it.
const NEVER: [&str; 4] = ["PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "AssociationTimeLimit"];

pub(crate) fn decide(view: &View<'_>) -> Act {
    let Some(task) = view.task else {
        return match view.submitted {
            0 => Act::Submit(String::new()),
            _ if view.ended < GRACE => Act::Wait,
            _ => again(view, "the queue does not know it any more".to_owned()),
        };
    };
    let part = format!("part {}", view.number);
    let on = if task.node.is_empty() { String::new() } else { format!(" on {}", task.node) };
    match &task.state {
        State::Pending if NEVER.contains(&task.reason.as_str()) => Act::FailAll(
            Problem::usage("the jobs", format!("they would wait without end: {}", task.reason))
                .hint("give other limits with --slurm-option=…, such as --slurm-option=--time=MINUTES"),
        ),
        State::Pending | State::Running => Act::Wait,
        // Tasks of a run that was interrupted and is continued: what they came to is no answer to this attempt.
        _ if view.submitted == 0 => Act::Submit(String::new()),
        State::Cancelled => Act::Fail(
            Problem::host(part, format!("its job was cancelled{on}, by a user or an administrator"))
                .hint("ask why: `sacct` or the administrator knows"),
        ),
        State::Timeout if !view.is_simulated => Act::Fail(
            Problem::host(part, format!("its time limit ended it{on}"))
                .hint("give a longer one: --slurm-option=--time=MINUTES"),
        ),
        State::Timeout => again(view, format!("its time limit ended it{on}")),
        State::OutOfMemory => Act::Fail(
            Problem::host(part, format!("it took more memory than its limit{on}"))
                .hint("give more: --slurm-option=--mem=MB"),
        ),
        State::Lost(word) => again(view, format!("{word}{on}")),
        State::Failed => failed(view, &part, &on),
        State::Completed if view.ended < GRACE => Act::Wait,
        State::Completed => again(
            view,
            match view.trouble {
                Some(trouble) => format!("its task ended{on}, and what it made could not be fetched: {trouble}"),
                None => format!("its task ended{on}, and what it made is not in {}", view.folder),
            },
        ),
    }
}

fn failed(view: &View<'_>, part: &str, on: &str) -> Act {
    let folder = view.folder;
    if let Some(problem) = &view.problem {
        let said = Problem { what: format!("{part}{on}: {}", problem.what), ..problem.clone() };
        return Act::Fail(said);
    }
    match view.exit_code {
        Some(NO_FOLDER) => Act::FailAll(
            Problem::host(
                "shared storage",
                format!("the node{on} does not see {folder} as this host does").replace("node on", "node"),
            )
            .hint(
                "name a folder that all nodes have, such as one in your home there: --state DIR; or have the jobs bring \
                 what they need: --stage",
            ),
        ),
        Some(NO_WORKING_FOLDER) => Act::FailAll(
            Problem::host(
                "shared storage",
                format!("the node{on} does not have the folder in which holdup was started").replace("node on", "node"),
            )
            .hint("start holdup in a folder that all nodes have, or have the jobs bring what they need: --stage"),
        ),
        Some(NO_SCRATCH) => Act::FailAll(
            Problem::host("--stage", format!("the node{on} lacks the folder for it").replace("node on", "node"))
                .hint("name a folder of the nodes that all can write to: --stage=DIR"),
        ),
        Some(NO_COMMENT) => Act::FailAll(
            Problem::host("--stage", format!("scontrol cannot change the comment of a job{on}"))
                .hint("nodes need Slurm's scontrol on the PATH for it; with a folder that all nodes have: --state DIR"),
        ),
        Some(NOT_STAGED) => {
            let why = view.trouble.map_or("holdup did not follow the run".to_owned(), Problem::to_string);
            let what = format!("nothing was brought to it{on} in {} min: {why}", STAGE_WAIT_S / 60);
            Act::Fail(Problem::host(part, what).hint("sbcast and srun on this host must reach the nodes"))
        }
        code => {
            let code = code.map_or("by a signal".to_owned(), |code| format!("with {code}"));
            again(view, format!("its task ended {code}{on}"))
        }
    }
}

fn again(view: &View<'_>, why: String) -> Act {
    if view.submitted < MOST_SUBMISSIONS {
        return Act::Submit(why);
    }
    let log = format!("{}/{LOGS}/part-{}.txt", view.folder, view.number);
    Act::Fail(
        Problem::host(
            format!("part {}", view.number),
            format!("it was given up after {MOST_SUBMISSIONS} attempts: {why}"),
        )
        .hint(format!("see {log}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(state: State) -> Task {
        Task { job: 1, node: "n1".to_owned(), ..Task::new(state) }
    }

    fn view(task: Option<&Task>, submitted: u32) -> View<'_> {
        View {
            number: 3,
            task,
            problem: None,
            trouble: None,
            exit_code: None,
            submitted,
            ended: Duration::from_secs(60),
            is_simulated: false,
            folder: "/shared/x",
        }
    }

    #[test]
    fn what_a_node_lost_is_submitted_again_up_to_a_bound() {
        let lost = task(State::Lost("NODE_FAIL".to_owned()));
        assert_eq!(decide(&view(Some(&lost), 1)), Act::Submit("NODE_FAIL on n1".to_owned()));
        let Act::Fail(problem) = decide(&view(Some(&lost), 4)) else { panic!("it is given up") };
        assert!(problem.why.contains("after 4 attempts: NODE_FAIL on n1"), "{problem}");
    }

    #[test]
    fn what_somebody_cancelled_is_not_submitted_again_until_it_is_continued() {
        let cancelled = task(State::Cancelled);
        assert!(matches!(decide(&view(Some(&cancelled), 1)), Act::Fail(p) if p.why.contains("cancelled on n1")));
        assert_eq!(decide(&view(Some(&cancelled), 0)), Act::Submit(String::new()));
    }

    #[test]
    fn a_live_task_of_an_interrupted_run_is_followed() {
        assert_eq!(decide(&view(Some(&task(State::Running)), 0)), Act::Wait);
        assert_eq!(decide(&view(Some(&task(State::Pending)), 0)), Act::Wait);
        assert_eq!(decide(&view(None, 0)), Act::Submit(String::new()));
    }

    #[test]
    fn a_node_without_the_folder_ends_all() {
        let failed = task(State::Failed);
        let seen = View { exit_code: Some(NO_FOLDER), ..view(Some(&failed), 1) };
        assert!(
            matches!(decide(&seen), Act::FailAll(p) if p.why == "the node n1 does not see /shared/x as this host does")
        );
    }

    #[test]
    fn a_node_to_which_nothing_could_be_brought_says_why() {
        let failed = task(State::Failed);
        let trouble = Problem::host("sbcast", "n1 cannot be reached");
        let seen = View { exit_code: Some(NOT_STAGED), trouble: Some(&trouble), ..view(Some(&failed), 1) };
        assert!(
            matches!(decide(&seen), Act::Fail(p) if p.why.contains("on n1 in 10 min: sbcast: n1 cannot be reached"))
        );
        let seen = View { exit_code: Some(NO_SCRATCH), ..view(Some(&failed), 1) };
        assert!(matches!(decide(&seen), Act::FailAll(p) if p.why == "the node n1 lacks the folder for it"));
    }

    #[test]
    fn what_a_part_says_itself_is_the_error() {
        let failed = task(State::Failed);
        let problem = Problem::host("pgbench", "there is no initdb").hint("install PostgreSQL");
        let seen = View { problem: Some(problem), ..view(Some(&failed), 1) };
        assert!(matches!(decide(&seen), Act::Fail(p) if p.what == "part 3 on n1: pgbench" && p.hint.is_some()));
    }

    #[test]
    fn jobs_that_would_wait_without_end_are_an_error() {
        let waits = Task { reason: "PartitionTimeLimit".to_owned(), ..task(State::Pending) };
        assert!(matches!(decide(&view(Some(&waits), 1)), Act::FailAll(p) if p.why.contains("PartitionTimeLimit")));
    }
}
