//! A backend is killed during the record: the server ends all sessions and starts again.

use crate::situations::server::Server;
use crate::situations::{Situation, USUAL, answer, needs_account, record};
use holdup_model::progress::{Event, Observer};
use rustix::process::{Pid, Signal, kill_process};

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

/// Kills a process as the third window begins.
struct Kills(Pid);

impl Observer for Kills {
    fn event(&mut self, event: Event<'_>) {
        if matches!(event, Event::TrialBegin { number: 3, .. }) {
            kill_process(self.0, Signal::KILL).expect("it runs");
        }
    }
}

pub(crate) fn a_crash_of_a_backend() {
    needs_account();
    let server = Server::begin(&SITUATION);
    let victim = i32::try_from(server.backends()[0]).ok().and_then(Pid::from_raw).expect("a pid");
    answer(&SITUATION, &record::observed(&[server.pid()], None, USUAL, &mut Kills(victim)));
}
