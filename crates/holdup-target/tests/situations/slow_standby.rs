//! Commits wait for a synchronous standby that is there and whose disk is slow.

use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use holdup_induce::{DiskLimit, Group};
use holdup_testkit::ignore;
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "slow standby",
    setup: &["CREATE TABLE t (id int)"],
    sessions: 0,
    first: &["replication"],
    says: "Synchronous replication: sessions spend",
    never: &["oversubscription", "heavyweight-lock", "slow-disk"],
    ..QUIET
};

pub(crate) fn a_standby_that_answers_late() {
    judge_beside(&SITUATION, USUAL, |server| {
        let log = server.folder().join("received");
        std::fs::create_dir(&log).expect("a folder");
        let mut receiver = server.program("pg_receivewal");
        let standby = crate::situations::programs::started(receiver.arg("--synchronous").arg("-D").arg(&log));
        let group = Group::with_disk_limit(server.folder(), DiskLimit::Writes, 50).unwrap_or_else(|p| ignore(p));
        group.take(standby.0.id()).expect("it moves");
        while server.ask("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'").is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        server.ask("ALTER SYSTEM SET synchronous_standby_names = '*'");
        server.ask("SELECT pg_reload_conf()");
        server.sessions(8, |client| client.simple_query("INSERT INTO t VALUES (1)").is_ok());
        std::thread::sleep(Duration::from_millis(300));
        server.hinder((standby, group));
    });
}
