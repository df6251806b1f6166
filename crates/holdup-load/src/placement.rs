//! On which CPUs the two sides of a workload run.
//!
//! Most of these workloads have a side that sends, asks or wakes, and one that receives, answers or is woken. Whether the
//! two share a run queue, a core, a cache or nothing decides most of the result, so it is a parameter of all.

use holdup_host::{CpuTopology, Host};
use holdup_model::Problem;

/// The CPUs of the two sides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// The CPUs of the side that sends, asks or wakes; `None` for anywhere.
    pub client: Option<Vec<u32>>,
    /// The CPUs of the side that receives, answers or is woken; `None` for anywhere.
    pub server: Option<Vec<u32>>,
}

impl Placement {
    /// The CPUs of a placement on this host.
    ///
    /// # Errors
    /// Of kind `Host` when this machine has no such CPUs, or does not show its topology.
    pub fn on(placement: holdup_catalogue::Placement, host: &Host) -> Result<Self, Problem> {
        Placement::of(placement, &holdup_host::cpu_topologies(host))
    }

    /// The CPUs of a placement on a machine with these CPUs. Of several possibilities it is the one with the
    /// lowest numbers, so that every trial has the same.
    ///
    /// # Errors
    /// Of kind `Host` when there are no such CPUs, or the machine does not show its topology.
    pub fn of(placement: holdup_catalogue::Placement, cpus: &[CpuTopology]) -> Result<Self, Problem> {
        use holdup_catalogue::Placement::{Llc, Node, SameCpu, SmtSiblings, TwoCpus};
        let impossible = |why: &str, hint: &str| Err(Problem::host(format!("placement {placement}"), why).hint(hint));
        let Some(first) = cpus.first() else { return impossible("no CPU is allowed", "look at taskset -p $$") };
        let both = |client: Vec<u32>, server: Vec<u32>| Ok(Placement { client: Some(client), server: Some(server) });
        match placement {
            holdup_catalogue::Placement::None => Ok(Placement::default()),
            SameCpu => both(vec![first.cpu], vec![first.cpu]),
            TwoCpus => {
                let others = || cpus.iter().filter(|other| other.cpu != first.cpu && !first.core.contains(&other.cpu));
                // The nearest other core, so that two CPUs of one socket are preferred to two sockets.
                let client = others().find(|other| first.llc.contains(&other.cpu));
                match client.or_else(|| others().next()) {
                    Some(other) => both(vec![first.cpu], vec![other.cpu]),
                    None => impossible("the allowed CPUs are all of one core", "take smt-siblings, or allow more CPUs"),
                }
            }
            SmtSiblings => {
                let pair = cpus.iter().find_map(|p| Some((p.cpu, p.core.iter().find(|other| **other != p.cpu)?)));
                match pair {
                    Some((one, other)) => both(vec![one], vec![*other]),
                    None => impossible("no two allowed CPUs are of one core", "take two-cpus, or switch SMT on"),
                }
            }
            Llc if first.llc.is_empty() => impossible("the kernel does not show which CPUs share a cache", "take node"),
            Llc => both(first.llc.clone(), first.llc.clone()),
            Node if first.node.is_empty() => impossible("the kernel does not show the memory nodes", "take none"),
            Node => both(first.node.clone(), first.node.clone()),
        }
    }

    /// In words, for a note of the trial; `None` where it is anywhere.
    pub fn in_words(&self) -> Option<String> {
        let ranges = |cpus: &Option<Vec<u32>>| cpus.as_deref().map(holdup_host::cpu_ranges);
        let (client, server) = (ranges(&self.client)?, ranges(&self.server)?);
        Some(if client == server {
            format!("both sides ran on CPU {client}")
        } else {
            format!("one side ran on CPU {client}, the other on {server}")
        })
    }
}

/// Keeps the calling thread on these CPUs; neither allocates nor prints.
///
/// # Errors
/// When none of them may be used any more.
pub fn stay_on(cpus: &[u32]) -> std::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| (**cpu as usize) < rustix::thread::CpuSet::MAX_CPU) {
        set.set(*cpu as usize);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores with two threads each, numbered as x86 servers number them.
    fn server() -> Vec<CpuTopology> {
        let place = |cpu: u32| CpuTopology {
            cpu,
            core: vec![cpu % 4, cpu % 4 + 4],
            llc: if cpu % 4 < 2 { vec![0, 1, 4, 5] } else { vec![2, 3, 6, 7] },
            node: if cpu % 4 < 2 { vec![0, 1, 4, 5] } else { vec![2, 3, 6, 7] },
        };
        (0..8).map(place).collect()
    }

    fn silent() -> Vec<CpuTopology> {
        (0..2).map(|cpu| CpuTopology { cpu, core: Vec::new(), llc: Vec::new(), node: Vec::new() }).collect()
    }

    #[test]
    fn a_word_comes_to_the_lowest_cpus_that_fit() {
        let shown = |word: &str, cpus: &[CpuTopology]| match Placement::of(word.parse().expect("a word"), cpus) {
            Ok(placement) => placement.in_words().unwrap_or_else(|| "anywhere".to_owned()),
            Err(problem) => format!("{}: {}", problem.what, problem.why),
        };
        let check = |word: &str, cpus: &[CpuTopology], expect: &str| assert_eq!(shown(word, cpus), expect, "{word}");
        check("none", &server(), "anywhere");
        check("same-cpu", &server(), "both sides ran on CPU 0");
        check("two-cpus", &server(), "one side ran on CPU 0, the other on 1");
        check("smt-siblings", &server(), "one side ran on CPU 0, the other on 4");
        check("llc", &server(), "both sides ran on CPU 0-1,4-5");
        check("node", &server()[2..4], "both sides ran on CPU 2-3,6-7");
        check("two-cpus", &silent(), "one side ran on CPU 0, the other on 1");
        check("two-cpus", &silent()[1..], "placement two-cpus: the allowed CPUs are all of one core");
        check("smt-siblings", &silent(), "placement smt-siblings: no two allowed CPUs are of one core");
        check("llc", &silent(), "placement llc: the kernel does not show which CPUs share a cache");
        check("node", &silent(), "placement node: the kernel does not show the memory nodes");
        check("same-cpu", &[], "placement same-cpu: no CPU is allowed");
    }

    #[test]
    fn a_thread_stays_where_it_is_put() {
        let cpu = holdup_host::cpu_topologies(&Host::real()).first().expect("a CPU is allowed").cpu;
        std::thread::spawn(move || {
            stay_on(&[cpu]).expect("it is allowed");
            let set = rustix::thread::sched_getaffinity(None).expect("reads back");
            assert_eq!((set.count(), set.is_set(cpu as usize)), (1, true));
            assert!(stay_on(&[]).is_err(), "no CPU at all is refused");
        })
        .join()
        .expect("the thread ends well");
    }
}
