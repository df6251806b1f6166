//! A run queue without a machine: which task runs in each quantum, as in the schedules that the kernel's developers published
//! for EEVDF.

use super::eevdf::Features;
use super::fair::{Fair, Share};
use super::rules::Rules;

/// A task that is always runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// A letter.
    pub name: char,
    /// Its weight; 1024 for nice 0.
    pub weight: u64,
    /// Its slice, ns; 0.1 to 100 ms.
    pub slice_ns: u64,
    /// Its virtual run time at the begin, ns.
    pub vruntime_ns: i64,
}

/// The state at the begin of a quantum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When, ns.
    pub at_ns: u64,
    /// The member that runs from now on.
    pub runs: char,
    /// The virtual time of the queue, ns.
    pub virtual_time_ns: i64,
    /// By member: virtual run time, ns.
    pub vruntimes_ns: Vec<i64>,
    /// By member: virtual deadline, ns.
    pub deadlines_ns: Vec<i64>,
    /// By member: its lag in real time, ns: its weight times how far it is behind the virtual time.
    pub lags_ns: Vec<i64>,
}

/// The schedule of a queue in which the running member is accounted each quantum.
pub fn schedule(features: &Features, members: &[Member], quantum_ns: u64, quanta: u64) -> Vec<Step> {
    let mut fair = Fair::new(Rules::Eevdf(*features), 1, &[]);
    for member in members {
        let share = Share { weight: member.weight, slice_ns: Some(member.slice_ns), ..Share::NICE_0 };
        let id = fair.add(&share);
        let node = &mut fair.nodes[id as usize];
        node.vruntime = member.vruntime_ns;
        node.deadline = node.vruntime + super::weight::weighted(u64::from(node.slice_ns), member.weight);
        fair.entities[id as usize].on_queue = true;
        fair.queues[0].nr += 1;
        fair.tree_insert(0, id);
        fair.count(0, 1);
    }
    let mut steps = Vec::new();
    let mut running = None;
    for number in 0..quanta {
        if running.is_none() {
            fair.put(0);
            let Some(next) = fair.pick(0) else { break };
            fair.set(next);
            running = Some(next);
        }
        let runs = running.map_or('-', |task| members[task as usize].name);
        steps.push(state(&fair, members, number * quantum_ns, runs));
        if fair.ran(0, quantum_ns) {
            running = None;
        }
    }
    steps
}

fn state(fair: &Fair, members: &[Member], at_ns: u64, runs: char) -> Step {
    let virtual_time_ns = fair.average(0);
    let nodes = &fair.nodes[..members.len()];
    let lag = |(node, member): (&super::entity_queue::Node, &Member)| {
        (virtual_time_ns - node.vruntime) * member.weight as i64 / super::weight::NICE_0 as i64
    };
    Step {
        at_ns,
        runs,
        virtual_time_ns,
        vruntimes_ns: nodes.iter().map(|n| n.vruntime).collect(),
        deadlines_ns: nodes.iter().map(|n| n.deadline).collect(),
        lags_ns: nodes.iter().zip(members).map(lag).collect(),
    }
}
