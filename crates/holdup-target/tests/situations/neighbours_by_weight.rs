//! Other programs compute on each CPU, and weigh more or nearly nothing.

use crate::situations::server::Server;
use crate::situations::{QUIET, Situation, USUAL, WAITS, judge_beside, seconds};
use holdup_host::{Host, Scheduling};
use holdup_induce::{Group, Processes};
use holdup_testkit::ignore;

static HEAVY: Situation = Situation {
    name: "nice neighbours",
    sessions: 2,
    statement: "SELECT sum(g) FROM generate_series(1, 50000) g",
    first: &["oversubscription"],
    says: "CPU-bound: sessions spend",
    never: &WAITS,
    ..QUIET
};

/// One session: two that share a CPU wait for each other.
static IDLE: Situation = Situation { name: "idle neighbours", sessions: 1, first: &["nothing"], says: "", ..HEAVY };

static BATCH: Situation = Situation { name: "batch neighbours", ..HEAVY };

/// On each CPU, in one group with the server, which has the CPUs before what else runs here. Where the kernel groups tasks by
/// session (sched(7), autogroup), tasks of different sessions do not weigh against each other otherwise.
fn neighbours(server: &Server, policy: u32, nice: i32) -> (Processes, Group) {
    let busy =
        holdup_induce::oversubscription(crate::situations::cpus() as usize).unwrap_or_else(|problem| ignore(problem));
    let group = Group::with_more_weight().unwrap_or_else(|problem| ignore(problem));
    for pid in busy.pids() {
        let wanted = Scheduling { policy, reset_on_fork: false, nice, priority: 0 };
        Host::real().set_scheduling(*pid, wanted).expect("ours");
        group.take(*pid).expect("it moves");
    }
    server.join(group.folder());
    (busy, group)
}

/// The time that the sessions wait behind the neighbours, by that on a CPU. Both are less where other work has the CPUs.
fn judge(situation: &Situation, policy: u32, nice: i32) -> f64 {
    let (bundle, _, _) = judge_beside(situation, USUAL, |server| neighbours(server, policy, nice));
    let behind_s = seconds(&bundle, "behind_s", |label| label.ends_with("| hu-busy"));
    let by_on = behind_s / seconds(&bundle, "account_s", |label| label == "client backend | on CPU | ");
    println!("  {by_on:.3} s behind the neighbours for each on a CPU");
    by_on
}

pub(crate) fn neighbours_of_a_low_nice_value() {
    // Neighbours of the same weight have 1. The weights alone make 87 of it; both neighbours on one CPU for a while make it less.
    assert!(judge(&HEAVY, Scheduling::OTHER, -20) > 2.0);
}

pub(crate) fn neighbours_of_the_class_batch() {
    judge(&BATCH, Scheduling::BATCH, 0);
}

pub(crate) fn neighbours_that_run_when_nothing_else_does() {
    // Some milliseconds of each second. Where a hypervisor takes a CPU away from a neighbour, the session waits behind it meanwhile.
    assert!(judge(&IDLE, Scheduling::IDLE, 0) < 0.5);
}
