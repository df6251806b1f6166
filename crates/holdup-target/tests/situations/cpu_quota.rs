//! A control group has a fifth of a CPU, that of the server or one above it.

use crate::server::Server;
use crate::{Situation, USUAL, WAITS, judge_beside};
use holdup_host::{Host, process};
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
    let host = Host::real();
    let all = process::all(&host).expect("processes");
    let of_server = all.iter().filter(|p| p.pid == server.pid() || p.ppid == server.pid());
    for process in of_server {
        host.write(&format!("{folder}/cgroup.procs"), &process.pid.to_string()).expect("it moves");
    }
    group
}

pub(crate) fn a_quota_of_the_group() {
    judge_beside(&SITUATION, USUAL, |server| limit(server, false));
}

pub(crate) fn a_quota_of_the_group_above() {
    judge_beside(&SITUATION, USUAL, |server| limit(server, true));
}
