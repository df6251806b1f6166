//! What is asked of Slurm for a part.

use crate::client::Partition;
use holdup_model::Problem;
use std::time::Duration;

/// What the largest part of a run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// How long it is expected to take.
    pub time: Duration,
    /// Whether its trials are computed: on one CPU of a node then, else on an exclusive node.
    pub is_simulated: bool,
}

/// The memory of a part whose trials are computed, MB: that of holdup with a few results that wait to be written.
const MEMORY_MB: u32 = 1024;
/// What starting a part takes at most.
const SET_UP_MINUTES: u64 = 5;

/// The time limit, minutes: half as long again as was expected where trials are measured, because void trials are
/// repeated; three times as long where they are computed, because the cost of a trial was measured on another machine.
pub fn minutes(needs: &Needs) -> u64 {
    let seconds = needs.time.as_secs();
    let with_margin = if needs.is_simulated { seconds.saturating_mul(3) } else { seconds.saturating_mul(3) / 2 };
    with_margin.div_ceil(60).saturating_add(SET_UP_MINUTES)
}

/// The command line of sbatch for one run, without the array and the script. What the user gives comes last and wins.
pub fn arguments(name: &str, partition: Option<&str>, needs: &Needs, given: &[String]) -> Vec<String> {
    let mut all: Vec<String> = vec![
        "--parsable".to_owned(),
        format!("--job-name={name}"),
        "--chdir=/".to_owned(),
        "--output=/dev/null".to_owned(),
        "--requeue".to_owned(),
        "--nodes=1".to_owned(),
        "--ntasks=1".to_owned(),
        format!("--time={}", minutes(needs)),
    ];
    all.extend(partition.map(|partition| format!("--partition={partition}")));
    if needs.is_simulated {
        all.extend(["--cpus-per-task=1".to_owned(), format!("--mem={MEMORY_MB}")]);
    } else {
        all.extend(["--exclusive".to_owned(), "--mem=0".to_owned()]);
    }
    all.extend_from_slice(given);
    all
}

/// Whether a part may take as long as it has to.
///
/// # Errors
/// When the partition ends it earlier, and the user gave no limit.
pub fn check_time(needs: &Needs, partition: &Partition, given: &[String]) -> Result<(), Problem> {
    let is_given = given.iter().any(|option| option.starts_with("--time") || option.starts_with("-t"));
    let Some(most) = partition.limit_minutes.filter(|most| !is_given && *most < minutes(needs)) else { return Ok(()) };
    let smaller = if needs.is_simulated { "more --parts" } else { "more --sessions with fewer --blocks" };
    Err(Problem::usage(
        format!("partition {}", partition.name),
        format!("a part needs a limit of {} min, and the partition ends jobs after {most} min", minutes(needs)),
    )
    .hint(format!("choose another partition, {smaller}, or set a limit yourself: --slurm-option=--time={most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_gives_comes_last() {
        let needs = Needs { time: Duration::from_secs(600), is_simulated: false };
        let all = arguments("holdup-1", Some("main"), &needs, &["--time=3".to_owned()]);
        assert_eq!(all.iter().filter(|a| a.starts_with("--time=")).collect::<Vec<_>>(), ["--time=20", "--time=3"]);
        assert!(all.contains(&"--exclusive".to_owned()) && all.contains(&"--partition=main".to_owned()));
    }

    #[test]
    fn a_partition_that_ends_jobs_too_early_is_refused_unless_a_limit_is_given() {
        let partition = Partition {
            name: "short".to_owned(),
            usable_cpus: 2,
            node_cpus: 1,
            node_memory_mb: 1,
            limit_minutes: Some(1),
        };
        let needs = Needs { time: Duration::from_secs(60), is_simulated: true };
        let problem = check_time(&needs, &partition, &[]).unwrap_err();
        assert!(problem.why.contains("8 min") && problem.why.contains("after 1 min"), "{problem}");
        assert_eq!(check_time(&needs, &partition, &["--time=1".to_owned()]), Ok(()));
    }
}
