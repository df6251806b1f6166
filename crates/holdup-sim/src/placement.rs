//! On which CPUs of a simulated machine the two sides of a workload run: the words of the parameter `placement`.

use crate::machine::Topology;
use holdup_model::Problem;

/// The CPU of each side that stays on one; `None` for anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Placement {
    /// Of those that send, ask or wake.
    pub(crate) client: Option<u32>,
    /// Of those that receive, answer or are woken.
    pub(crate) server: Option<u32>,
}

impl Placement {
    /// The CPUs of a placement.
    ///
    /// # Errors
    /// When the machine has no such CPUs, or the sides would share several.
    pub(crate) fn of(placement: holdup_catalogue::Placement, topology: Topology) -> Result<Self, Problem> {
        use holdup_catalogue::Placement::{Llc, Node, None, SameCpu, SmtSiblings, TwoCpus};
        let refuse = |why: &str, hint: &str| Err(Problem::host(format!("placement {placement}"), why).hint(hint));
        let both = |client, server| Ok(Placement { client: Some(client), server: Some(server) });
        // The threads of a core have neighbouring numbers.
        match placement {
            None => Ok(Placement::default()),
            SameCpu => both(0, 0),
            TwoCpus if topology.cpus() > topology.smt => both(0, topology.smt),
            TwoCpus => refuse("the CPUs of the machine are all of one core", "take smt-siblings, or a larger machine"),
            SmtSiblings if topology.smt > 1 => both(0, 1),
            SmtSiblings => refuse("no two CPUs of the machine are of one core", "take two-cpus"),
            Llc if topology.cpus_of_llc() == topology.cpus() => Ok(Placement::default()),
            Node if topology.cpus_of_node() == topology.cpus() => Ok(Placement::default()),
            Llc | Node => refuse("a simulated task stays on one CPU or on none", "take none, same-cpu or two-cpus"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_to_the_lowest_cpus_that_fit() {
        let shown = |word: &str, smt, cores, llcs| match Placement::of(
            word.parse().expect("a word"),
            Topology { smt, cores, llcs, nodes: 1 },
        ) {
            Ok(Placement { client, server }) => format!("{client:?} {server:?}"),
            Err(problem) => problem.why,
        };
        assert_eq!(shown("none", 2, 4, 1), "None None");
        assert_eq!(shown("same-cpu", 2, 4, 1), "Some(0) Some(0)");
        assert_eq!(shown("two-cpus", 2, 4, 1), "Some(0) Some(2)");
        assert_eq!(shown("two-cpus", 1, 2, 1), "Some(0) Some(1)");
        assert_eq!(shown("two-cpus", 2, 1, 1), "the CPUs of the machine are all of one core");
        assert_eq!(shown("smt-siblings", 2, 1, 1), "Some(0) Some(1)");
        assert_eq!(shown("smt-siblings", 1, 8, 1), "no two CPUs of the machine are of one core");
        assert_eq!(shown("llc", 1, 8, 1), "None None");
        assert_eq!(shown("llc", 1, 8, 2), "a simulated task stays on one CPU or on none");
    }
}
