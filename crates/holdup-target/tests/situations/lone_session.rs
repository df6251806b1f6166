//! One session computes, or has a client that is far away: nothing is wrong.

use crate::situations::server::Server;
use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use std::time::Duration;

static COMPUTES: Situation = Situation {
    name: "lone session",
    sessions: 1,
    statement: "SELECT sum(g) FROM generate_series(1, 50000) g",
    says: "sessions are on a CPU",
    ..QUIET
};

static IS_FAR: Situation = Situation { name: "client that is far away", ..QUIET };

pub(crate) fn a_session_that_computes() {
    judge_beside(&COMPUTES, USUAL, Server::prefer);
}

pub(crate) fn a_client_that_is_far_away() {
    judge_beside(&IS_FAR, USUAL, |server| {
        server.sessions(1, |client| {
            std::thread::sleep(Duration::from_millis(5));
            client.simple_query("SELECT 1").is_ok()
        });
    });
}
