//! A control group has a fifth of a CPU: that of the server, or one above it, whose other processes may use it up.

use crate::situations::server::Server;
use crate::situations::{Situation, USUAL, WAITS, judge_beside};
use holdup_induce::Group;
use holdup_testkit::ignore;
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "CPU quota",
    setup: &[],
    held: &[],
    sessions: 4,
    statement: "SELECT sum(g) FROM generate_series(1, 50000) g",
    first: &["throttling"],
    says: "CPU limit: sessions are throttled",
    never: &WAITS,
};

fn limit(server: &Server, is_above: bool) -> Group {
    let group = Group::with_cpu_limit(Duration::from_millis(20), Duration::from_millis(100))
        .unwrap_or_else(|problem| ignore(problem));
    let folder = if is_above { group.below().expect("a group in it") } else { group.folder().to_owned() };
    server.join(&folder);
    group
}

pub(crate) fn a_quota_of_the_group() {
    judge_beside(&SITUATION, USUAL, |server| limit(server, false));
}

pub(crate) fn a_quota_of_the_group_above() {
    judge_beside(&SITUATION, USUAL, |server| limit(server, true));
}

/// Other processes are in the group above, which alone has a limit.
pub(crate) fn a_quota_that_a_neighbour_uses_up() {
    judge_beside(&SITUATION, USUAL, |server| {
        let group = limit(server, true);
        let busy = holdup_induce::oversubscription(2).unwrap_or_else(|problem| ignore(problem));
        busy.pids().iter().for_each(|pid| group.take(*pid).expect("it moves"));
        (busy, group)
    });
}
