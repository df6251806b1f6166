//! Clients connect for one short statement each.

use crate::situations::{QUIET, Situation, USUAL, answer, needs_account, server};
use holdup_sql::Client;

static SITUATION: Situation = Situation {
    name: "connection storm",
    first: &["short-connections"],
    says: "Short connections: sessions that start and end use",
    never: &["heavyweight-lock", "replication", "wal", "saturated-thread", "slow-disk"],
    ..QUIET
};

pub(crate) fn a_storm_of_connections() {
    needs_account();
    let (bundle, (), _) = server::watch(&SITUATION, USUAL, |server| {
        for _ in 0..8 {
            server.thread(|config| {
                Client::connect(config).is_ok_and(|mut client| client.simple_query("SELECT 1").is_ok())
            });
        }
    });
    answer(&SITUATION, &bundle);
}
