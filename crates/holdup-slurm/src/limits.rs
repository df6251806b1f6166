//! What is asked of Slurm for a part.

use crate::client::Partition;
use crate::queue::Node;
use crate::script::STAGE_WAIT_S;
use holdup_model::{Nodes, Problem};
use std::time::Duration;

/// What the largest part of a run needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// How long it is expected to take.
    pub time: Duration,
    /// The memory of a part whose trials are computed, MB, on one CPU of a node; `None` for an exclusive node.
    pub computed_mb: Option<u64>,
    /// What a node must have.
    pub nodes: Nodes,
    /// The names of nodes that lack it, in ways that no option of sbatch says.
    pub excluded: Vec<String>,
    /// True if the jobs bring what they need.
    pub is_staged: bool,
}

/// What starting a part takes at most.
const SET_UP_MINUTES: u64 = 5;

impl Needs {
    /// The time limit, minutes: half as long again as was expected where trials are measured, because void trials are
    /// repeated; three times as long where they are computed, because the cost of a trial was measured on another machine.
    pub fn minutes(&self) -> u64 {
        let seconds = self.time.as_secs();
        let with_margin =
            if self.computed_mb.is_some() { seconds.saturating_mul(3) } else { seconds.saturating_mul(3) / 2 };
        let staging = if self.is_staged { 2 * STAGE_WAIT_S / 60 } else { 0 };
        with_margin.div_ceil(60).saturating_add(SET_UP_MINUTES).saturating_add(staging)
    }

    /// What of them no option says: the architecture.
    ///
    /// # Errors
    /// When no node of the partition has all that is needed.
    pub fn narrow(&mut self, partition: &mut Partition) -> Result<(), Problem> {
        let wanted = &self.nodes;
        let own = std::env::consts::ARCH;
        if let Some(arch) = wanted.arch.as_deref().filter(|arch| *arch != own) {
            return Err(Problem::usage(format!("arch = \"{arch}\" of [nodes]"), format!("this holdup is for {own}"))
                .hint(format!("run it from a login node that is {arch}")));
        }
        let is_of_another = |node: &Node| node.arch.as_deref().is_some_and(|arch| arch != own);
        let has = |node: &Node| {
            wanted.cpus.is_none_or(|cpus| node.cpus >= cpus)
                && wanted.memory_bytes.is_none_or(|bytes| node.memory_mb >= bytes.div_ceil(1 << 20))
                && wanted.features.iter().all(|feature| node.features.contains(feature))
        };
        let (others, mut nodes): (Vec<_>, Vec<_>) =
            std::mem::take(&mut partition.nodes).into_iter().partition(is_of_another);
        self.excluded = others.into_iter().map(|node| node.name).collect();
        let known = nodes.len() + self.excluded.len();
        let some: Vec<String> = nodes.iter().take(3).map(described).collect();
        nodes.retain(has);
        if let (Some(cpus), Some(memory)) =
            (nodes.iter().map(|n| n.cpus).min(), nodes.iter().map(|n| n.memory_mb).min())
        {
            (partition.node_cpus, partition.node_memory_mb) = (cpus, memory);
        } else if known > 0 {
            let what = format!("partition {}", partition.name);
            return Err(Problem::usage(what, format!("none of its {known} nodes has {}", written(wanted, own)))
                .hint(format!("another partition, or another [nodes] in the plan; there are {}", some.join("; "))));
        }
        partition.nodes = nodes;
        Ok(())
    }
}

/// A node in words.
fn described(node: &Node) -> String {
    let Node { name, cpus, memory_mb, features, .. } = node;
    let features = if features.is_empty() { String::new() } else { format!(", {}", features.join(" ")) };
    format!("{name}: {cpus} CPUs, {memory_mb} MB{features}")
}

/// What is wanted of nodes, in words.
fn written(nodes: &Nodes, arch: &str) -> String {
    let mut all = vec![arch.to_owned()];
    all.extend(nodes.cpus.map(|cpus| format!("{cpus} CPUs")));
    all.extend(nodes.memory_bytes.map(|bytes| format!("{} MB", bytes.div_ceil(1 << 20))));
    all.extend(nodes.features.iter().map(|feature| format!("feature {feature}")));
    all.join(", ")
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
        format!("--time={}", needs.minutes()),
    ];
    all.extend(partition.map(|partition| format!("--partition={partition}")));
    let Nodes { cpus, memory_bytes, features, .. } = &needs.nodes;
    match needs.computed_mb {
        Some(mb) => all.extend(["--cpus-per-task=1".to_owned(), format!("--mem={mb}")]),
        // All memory of the node, unless the plan says how much: then Slurm chooses nodes by it, and it is the limit.
        None => {
            let mb = memory_bytes.map_or(0, |bytes| bytes.div_ceil(1 << 20));
            all.extend(["--exclusive".to_owned(), format!("--mem={mb}")]);
        }
    }
    all.extend(cpus.map(|cpus| format!("--mincpus={cpus}")));
    if !features.is_empty() {
        all.push(format!("--constraint={}", features.join("&")));
    }
    if !needs.excluded.is_empty() {
        all.push(format!("--exclude={}", needs.excluded.join(",")));
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
    let Some(most) = partition.limit_minutes.filter(|most| !is_given && *most < needs.minutes()) else { return Ok(()) };
    let smaller = if needs.computed_mb.is_some() { "more --parts" } else { "more --sessions with fewer --blocks" };
    Err(Problem::usage(
        format!("partition {}", partition.name),
        format!("a part needs a limit of {} min, and the partition ends jobs after {most} min", needs.minutes()),
    )
    .hint(format!("choose another partition, {smaller}, or set a limit yourself: --slurm-option=--time={most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(needs: &Needs, given: &[&str]) -> Vec<String> {
        let given: Vec<String> = given.iter().map(|word| (*word).to_owned()).collect();
        arguments("holdup-1", Some("main"), needs, &given)
    }

    #[test]
    fn what_the_user_gives_comes_last() {
        let needs = Needs { time: Duration::from_secs(600), ..Needs::default() };
        let all = options(&needs, &["--time=3"]);
        assert_eq!(all.iter().filter(|a| a.starts_with("--time=")).collect::<Vec<_>>(), ["--time=20", "--time=3"]);
        assert!(all.contains(&"--exclusive".to_owned()) && all.contains(&"--partition=main".to_owned()));
        assert!(all.contains(&"--mem=0".to_owned()) && !all.iter().any(|a| a.starts_with("--mincpus")), "{all:?}");
    }

    fn partition(nodes: &[(&str, &str, u32, &[&str])]) -> Partition {
        let node = |(name, arch, cpus, features): &(&str, &str, u32, &[&str])| Node {
            name: (*name).to_owned(),
            arch: Some((*arch).to_owned()).filter(|arch| !arch.is_empty()),
            cpus: *cpus,
            memory_mb: u64::from(*cpus) * 1000,
            features: features.iter().map(|word| (*word).to_owned()).collect(),
            partitions: vec!["main".to_owned()],
        };
        let nodes = nodes.iter().map(node).collect();
        let name = "main".to_owned();
        Partition { name, usable_cpus: 2, node_cpus: 1, node_memory_mb: 1, limit_minutes: Some(1), nodes }
    }

    #[test]
    fn what_a_plan_needs_of_nodes_is_asked_for() {
        let own = std::env::consts::ARCH;
        let mut main = partition(&[
            ("n1", own, 2, &["milan"]),
            ("n2", own, 16, &["milan", "nvme"]),
            ("n3", "riscv9", 64, &["milan", "nvme"]),
        ]);
        let nodes = Nodes {
            arch: Some(own.to_owned()),
            cpus: Some(8),
            memory_bytes: Some((4 << 30) + 1),
            features: vec!["milan".to_owned(), "nvme".to_owned()],
        };
        let mut needs = Needs { nodes, ..Needs::default() };
        needs.narrow(&mut main).unwrap();
        assert_eq!((main.node_cpus, main.node_memory_mb, main.nodes.len()), (16, 16_000, 1));
        let all = options(&needs, &[]);
        for option in ["--mincpus=8", "--mem=4097", "--constraint=milan&nvme", "--exclude=n3", "--exclusive"] {
            assert!(all.iter().any(|word| word == option), "{option}: {all:?}");
        }
    }

    #[test]
    fn what_no_node_has_is_refused_with_what_there_is() {
        let own = std::env::consts::ARCH;
        let refused = |nodes: Nodes| {
            let mut main = partition(&[("n1", own, 2, &["milan"]), ("n2", "riscv9", 64, &[])]);
            Needs { nodes, ..Needs::default() }.narrow(&mut main).unwrap_err()
        };
        let problem = refused(Nodes { cpus: Some(64), ..Nodes::default() });
        assert!(problem.why.contains("none of its 2 nodes") && problem.why.contains("64 CPUs"), "{problem}");
        assert!(problem.hint.unwrap().contains("n1: 2 CPUs, 2000 MB, milan"));
        let problem = refused(Nodes { features: vec!["nvme".to_owned()], ..Nodes::default() });
        assert!(problem.why.contains("feature nvme"), "{problem}");
        let problem = refused(Nodes { arch: Some("riscv9".to_owned()), ..Nodes::default() });
        assert!(problem.why.contains(own), "{problem}");
        // A node that never was up may have it; where nodes are not shown, sbatch judges.
        for nodes in [&[("n1", "", 2, &["milan"][..])][..], &[]] {
            assert_eq!(Needs::default().narrow(&mut partition(nodes)), Ok(()));
        }
    }

    #[test]
    fn a_partition_that_ends_jobs_too_early_is_refused_unless_a_limit_is_given() {
        let short = Partition { name: "short".to_owned(), ..partition(&[]) };
        let needs = Needs { time: Duration::from_secs(60), computed_mb: Some(1024), ..Needs::default() };
        let problem = check_time(&needs, &short, &[]).unwrap_err();
        assert!(problem.why.contains("8 min") && problem.why.contains("after 1 min"), "{problem}");
        assert_eq!(check_time(&needs, &short, &["--time=1".to_owned()]), Ok(()));
        assert_eq!(Needs { is_staged: true, ..needs }.minutes(), 28);
    }
}
