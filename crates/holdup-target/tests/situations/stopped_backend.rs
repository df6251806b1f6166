//! A backend is stopped while it flushes the log, and the commits of all others wait for its lock.

use crate::situations::server::Server;
use crate::situations::{Situation, USUAL, judge_beside};
use holdup_testkit::ignore;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "stopped backend",
    setup: &["CREATE TABLE t (id int)"],
    held: &[],
    sessions: 8,
    statement: "INSERT INTO t VALUES (1)",
    first: &["wal"],
    says: "Write-ahead log: sessions spend",
    never: &["oversubscription", "heavyweight-lock", "replication", "slow-disk"],
};

const IN_WAL: &str = "SELECT pid FROM pg_stat_activity WHERE wait_event IN ('WALSync', 'WALWrite') AND wait_event_type = 'IO' \
                      AND backend_type = 'client backend'";
const FLUSHED: &str = "SELECT pg_current_wal_flush_lsn()";

/// A process that does not go on until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).expect("ours");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _has_ended = kill_process(self.0, Signal::CONT);
    }
}

fn stop_in_the_lock(server: &mut Server) {
    for _ in 0..400 {
        let rows = server.ask(IN_WAL);
        let Some(pid) = rows.first().and_then(|row| Pid::from_raw(row[0].as_deref()?.parse().ok()?)) else { continue };
        let stopped = Stopped::new(pid);
        // One that was stopped a moment later has released the lock, and the others flush.
        std::thread::sleep(Duration::from_millis(50));
        let flushed = server.ask(FLUSHED);
        std::thread::sleep(Duration::from_millis(100));
        if server.ask(FLUSHED) == flushed {
            server.hinder(stopped);
            return;
        }
    }
    ignore("no backend could be stopped while it flushed the log");
}

pub(crate) fn a_backend_that_is_stopped_with_the_lock_of_the_log() {
    judge_beside(&SITUATION, USUAL, stop_in_the_lock);
}
