//! A backend is killed during the record: the server ends all sessions and starts again.

use crate::{Situation, USUAL, answer, needs_account, server};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "crash",
    setup: &["CREATE TABLE t (id int)"],
    held: &["BEGIN", "LOCK TABLE t"],
    sessions: 8,
    statement: "SELECT count(*) FROM t",
    first: &["heavyweight-lock"],
    says: "Table locks: sessions spend",
    never: &["oversubscription", "lightweight-lock", "replication", "saturated-thread"],
};

pub(crate) fn a_crash_of_a_backend() {
    needs_account();
    let (bundle, (), _) = server::watch(&SITUATION, USUAL, |server| {
        let pid = i32::try_from(server.backends()[0]).ok().and_then(Pid::from_raw).expect("a pid");
        server.thread(move |_| {
            std::thread::sleep(Duration::from_millis(2500));
            let _has_ended = kill_process(pid, Signal::KILL);
            false
        });
    });
    answer(&SITUATION, &bundle);
}
